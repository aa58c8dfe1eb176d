//! The vmpool controller.

use std::process::ExitCode;

use clap::Parser;
use vmpool_controller::{options::Options, run};
use vmpool_runtime::{Env, shutdown, telemetry};

/// One thread is enough: a pass over 10,000 machines takes it some ten milliseconds, and it waits for the API server
/// otherwise. More of them mostly wake each other, which costs a sixth of the processor time, and a node with 64
/// processors would get 64. It also makes `/livez` honest: code that never ends keeps that from answering, too.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let options = Options::parse();
    if let Err(error) = options.program.log.init() {
        eprintln!("vmpool-controller: {error}");
        return ExitCode::FAILURE;
    }
    match run(options, Env::system(), shutdown::on_signal()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = telemetry::with_causes(&error);
            tracing::error!(error, "vmpool-controller cannot go on");
            eprintln!("vmpool-controller: {error}");
            ExitCode::FAILURE
        }
    }
}

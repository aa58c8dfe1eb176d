//! The vmpool controller.

use std::process::ExitCode;

use clap::Parser;
use vmpool_controller::{options::ControllerArgs, run_controller};
use vmpool_runtime::{Env, shutdown, telemetry};

/// One thread is enough: a pass over 10,000 machines takes about ten milliseconds, and the rest of the time
/// the controller waits for the API server. More threads mostly wake each other, which costs a sixth of the
/// processor time, and a node with 64 processors would get 64 threads. With one thread, `/livez` also detects
/// code that does not return.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let options = ControllerArgs::parse();
    if let Err(error) = options.program.log.init() {
        eprintln!("vmpool-controller: {error}");
        return ExitCode::FAILURE;
    }
    match run_controller(options, Env::system(), shutdown::on_signal()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = telemetry::with_causes(&error);
            tracing::error!(error, "vmpool-controller failed");
            eprintln!("vmpool-controller: {error}");
            ExitCode::FAILURE
        }
    }
}

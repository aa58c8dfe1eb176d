//! The vmpool controller.

use std::process::ExitCode;

use clap::Parser;
use vmpool_controller::{options::Options, run};
use vmpool_runtime::{Env, shutdown, telemetry};

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    if let Err(error) = options.log.init() {
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

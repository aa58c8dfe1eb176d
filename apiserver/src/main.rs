//! The aggregated API server of vmpool.

use std::process::ExitCode;

use clap::Parser;
use vmpool_apiserver::{options::ApiServerOptions, run_apiserver};
use vmpool_runtime::{Env, shutdown, telemetry};

/// One thread is sufficient, because requests mostly wait for kube-apiserver.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let options = ApiServerOptions::parse();
    if let Err(error) = options.program.log.init() {
        eprintln!("vmpool-apiserver: {error}");
        return ExitCode::FAILURE;
    }
    match run_apiserver(options, Env::system(), shutdown::on_signal()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = telemetry::with_causes(&error);
            tracing::error!(error, "vmpool-apiserver exits");
            eprintln!("vmpool-apiserver: {error}");
            ExitCode::FAILURE
        }
    }
}

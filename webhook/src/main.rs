//! The vmpool webhook.

use std::process::ExitCode;

use clap::Parser;
use vmpool_runtime::{Env, shutdown, telemetry};
use vmpool_webhook::{options::WebhookOptions, run_webhook};

/// Two threads, so that a large review does not delay the others. By default, tokio starts a thread for each
/// processor.
#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let options = WebhookOptions::parse();
    if let Err(error) = options.program.log.init() {
        eprintln!("vmpool-webhook: {error}");
        return ExitCode::FAILURE;
    }
    match run_webhook(options, Env::system(), shutdown::on_signal()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = telemetry::with_causes(&error);
            tracing::error!(error, "vmpool-webhook exits");
            eprintln!("vmpool-webhook: {error}");
            ExitCode::FAILURE
        }
    }
}

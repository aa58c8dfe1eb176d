//! Termination signals.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code after the second signal: 128 plus the number of SIGTERM, as shells report it.
const KILLED: i32 = 128 + 15;

/// A token that the first SIGTERM or SIGINT cancels. The second signal ends the process immediately with exit
/// code 143.
///
/// Call it once, within a tokio runtime, before components that need a graceful shutdown start. If the
/// process cannot handle signals, it logs an error, and signals end the process immediately.
pub fn on_signal() -> CancellationToken {
    let token = CancellationToken::new();
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => watch_signals(terminate, interrupt, token.clone()),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "handling signals failed: a signal will end the process without graceful shutdown");
        }
    }
    token
}

#[expect(clippy::disallowed_methods, reason = "signals belong to the process, which has no Env of its own")]
fn watch_signals(mut terminate: Signal, mut interrupt: Signal, token: CancellationToken) {
    drop(tokio::spawn(async move {
        let name = next_signal(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "shutting down; a second signal ends the process immediately");
        token.cancel();
        let name = next_signal(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "second signal: exiting immediately");
        std::process::exit(KILLED);
    }));
}

async fn next_signal(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

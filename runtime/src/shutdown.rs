//! Signals that ask the process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after the second signal: 128 and the number of SIGTERM, as a shell would report it.
const KILLED: i32 = 128 + 15;

/// A token that is cancelled by the first SIGTERM or SIGINT. The second ends the process at once with exit code 143.
///
/// Call it once, within a tokio runtime, before anything that wants to be shut down in order. If the signals cannot be
/// listened to, which is logged, they end the process as they would by themselves.
pub fn on_signal() -> CancellationToken {
    let token = CancellationToken::new();
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(terminate), Ok(interrupt)) => watch(terminate, interrupt, token.clone()),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "signals cannot be handled, shutdown will not be in order");
        }
    }
    token
}

#[expect(
    clippy::disallowed_methods,
    reason = "signals belong to the process, not to one instance with its Env"
)]
fn watch(mut terminate: Signal, mut interrupt: Signal, token: CancellationToken) {
    drop(tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::info!(signal = name, "shutting down; a second signal ends the process at once");
        token.cancel();
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::warn!(signal = name, "second signal, ending at once");
        std::process::exit(KILLED);
    }));
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

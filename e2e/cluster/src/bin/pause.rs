//! The first process of a PID namespace: in a Pod's sandbox, and in the test node.
//!
//! It keeps the namespace alive, reaps orphaned processes, and exits on SIGTERM or SIGINT.

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    // The first process ignores every signal without a handler.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut orphan = signal(SignalKind::child())?;
    loop {
        // One signal may stand for several exited processes.
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        tokio::select! {
            _ = orphan.recv() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

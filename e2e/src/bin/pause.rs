//! The first process where processes have ids of their own: of a Pod's sandbox, and of the test node itself.
//!
//! It is there so that something is. It reaps the orphans that fall to the first process, and ends when it is asked to.

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    // The first process ignores every signal that it has no handler for.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut orphan = signal(SignalKind::child())?;
    loop {
        // One signal may stand for several.
        while let Ok(Some(_)) = rustix::process::wait(rustix::process::WaitOptions::NOHANG) {}
        tokio::select! {
            _ = orphan.recv() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

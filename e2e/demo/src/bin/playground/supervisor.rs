//! The process that stays: it starts the parts, starts those of ours that end again, and stops all of them in order.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::parts::Parts;
use super::place::{Place, Ready, Record};

/// How often the parts are looked at. One that crashes at once is thereby started again at most this often.
const REFRESH: Duration = Duration::from_secs(1);

/// Starts the line of a log that `up` repeats to its reader.
pub(crate) const PROGRESS: &str = "==> ";

/// Runs a playground until a signal or the end of a part of the control plane.
///
/// # Errors
/// Whatever ended it, a signal apart.
pub(crate) fn run(place: &Place) -> anyhow::Result<()> {
    // No terminal's end reaches a session of its own. A session leader is told that it is one already.
    let _ = rustix::process::setsid();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new("warn,vmpool_installation=info,vmpool_test_cluster=info,kube_client=off")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(false).init();
    let _alive = place.hold().context("another supervisor has this playground")?;
    let mut record = Record { pid: std::process::id(), ready: None };
    place.write(&record)?;
    tokio::runtime::Runtime::new().context("starting the runtime")?.block_on(async {
        let mut stop = Stop::listen()?;
        let started = tokio::select! {
            started = Parts::start(place) => started,
            () = stop.asked() => return Ok(()),
        };
        let mut parts = started?;
        std::fs::copy(parts.cluster().kubeconfig(), place.kubeconfig())
            .with_context(|| format!("writing {}", place.kubeconfig().display()))?;
        let kubectl = parts.cluster().kubectl_program().to_owned();
        record.ready = Some(Ready { since: Timestamp::now(), kubectl, parts: parts.list() });
        place.write(&record)?;
        println!("{PROGRESS}ready");
        let ended = tokio::select! {
            ended = watch_over(&mut parts, place, &mut record) => ended,
            () = stop.asked() => Ok(()),
        };
        println!("stopping");
        let stopped = parts.stop().await;
        ended.and(stopped)
    })
}

/// Ends only with an error: a control plane is not repaired, since nobody knows what its parts had promised.
async fn watch_over(parts: &mut Parts, place: &Place, record: &mut Record) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(REFRESH).await;
        parts.revive().await?;
        if let Some(ready) = &mut record.ready {
            let now = parts.list();
            if ready.parts != now {
                ready.parts = now;
                place.write(record)?;
            }
        }
    }
}

/// The wishes of others that it ends.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

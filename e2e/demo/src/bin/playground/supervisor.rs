//! The background process: it starts the programs, restarts those that exit, and stops all of them in order.

use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use vmpool_test_cluster::binaries::find_program;

use super::directory::{PLUGIN, PLUGIN_VARIABLE, PlaygroundDirectory, Ready, SupervisorRecord};
use super::output::PROGRESS;
use super::parts::Parts;

/// How often the programs are checked. A program that exits at once is therefore restarted at most this
/// often.
const REFRESH: Duration = Duration::from_secs(1);

/// Runs a playground until a signal arrives or a component of the control plane exits.
///
/// # Errors
/// The reason of its end, unless it is a signal.
pub(crate) fn run_supervisor(place: &PlaygroundDirectory) -> anyhow::Result<()> {
    // In its own session, the end of a terminal does not reach it. The call fails for a process that is a
    // session leader already.
    let _ = rustix::process::setsid();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new("warn,vmpool_installation=info,vmpool_test_cluster=info,kube_client=off")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(false).init();
    let _lock = place.hold().context("another supervisor runs this playground")?;
    let mut record = SupervisorRecord { pid: std::process::id(), ready: None };
    place.write(&record)?;
    tokio::runtime::Runtime::new().context("starting the runtime")?.block_on(async {
        let mut stop = Stop::listen()?;
        let started = tokio::select! {
            started = Parts::start(place) => started,
            () = stop.requested() => return Ok(()),
        };
        let mut parts = started?;
        std::fs::copy(parts.cluster().kubeconfig(), place.kubeconfig())
            .with_context(|| format!("writing {}", place.kubeconfig().display()))?;
        let kubectl = parts.cluster().kubectl_program().to_owned();
        place.link_program("kubectl", &kubectl)?;
        place.link_program(PLUGIN, &find_program(PLUGIN, PLUGIN_VARIABLE)?)?;
        let (since, has_kubevirt) = (Timestamp::now(), parts.has_kubevirt());
        record.ready = Some(Ready { since, kubectl, has_kubevirt, parts: parts.list() });
        place.write(&record)?;
        println!("{PROGRESS}ready");
        let ended = tokio::select! {
            ended = watch_over(&mut parts, place, &mut record) => ended,
            () = stop.requested() => Ok(()),
        };
        println!("stopping");
        let stopped = parts.stop().await;
        ended.and(stopped)
    })
}

/// Returns only with an error: if a component of the control plane exits, it is not restarted, because
/// clients may have lost confirmed writes.
async fn watch_over(
    parts: &mut Parts,
    place: &PlaygroundDirectory,
    record: &mut SupervisorRecord,
) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(REFRESH).await;
        parts.restart_exited().await?;
        if let Some(ready) = &mut record.ready {
            let now = parts.list();
            if ready.parts != now {
                ready.parts = now;
                place.write(record)?;
            }
        }
    }
}

/// Signals that request the end of the process.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listening for signals");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

//! Measures the time until all machines are ready, with the platform simulator.

use std::time::Instant;

use anyhow::{Context, bail};
use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use vmpool_installation::programs::Simulator;
use vmpool_invariants::object::Object;

use crate::lab::{Lab, POOL, seconds};
use crate::report::Report;
use crate::tally::patience;

const NAMESPACE: &str = "converge";

/// Interval of progress lines, in ready machines.
const PROGRESS: i64 = 1000;

/// Measures in a new namespace with a new controller.
pub(crate) async fn measure(lab: &Lab, members: usize, report: &mut Report) -> anyhow::Result<()> {
    lab.step(&format!("with the simulator on, 0 -> {members} ready"));
    let simulator = Simulator::start(lab.cluster()).await?;
    lab.namespace(NAMESPACE).await?;
    let controller = lab.controller(NAMESPACE, "first").await?;
    lab.pool(NAMESPACE, POOL, 0).await?;
    lab.quiet().await?;
    let begin = Instant::now();
    lab.scale(NAMESPACE, POOL, members).await?;
    let deadline = patience(members);
    let ready = tokio::time::timeout(deadline, until_ready(lab, members));
    let converged = Lab::with_log(&controller, async {
        ready.await.with_context(|| format!("not all {members} ready after {deadline:?}"))?
    })
    .await?;
    simulator.check()?;
    let seconds = seconds(begin, converged);
    Lab::note(&format!("all ready after {seconds:.2} s"));
    report.add("converged_seconds", seconds);
    Ok(())
}

/// Waits until the pool's status reports all machines as ready.
async fn until_ready(lab: &Lab, members: usize) -> anyhow::Result<Instant> {
    let members = i64::try_from(members)?;
    let pools = watcher(lab.pools(NAMESPACE), watcher::Config::default()).default_backoff();
    let mut pools = std::pin::pin!(pools.applied_objects());
    let mut told = 0;
    while let Some(pool) = pools.next().await {
        let pool = match pool {
            Ok(pool) => Object::try_from(pool)?,
            Err(error) => {
                tracing::warn!(%error, "the watch of pools failed");
                continue;
            }
        };
        let ready = pool.number("/status/readyReplicas").unwrap_or_default();
        if ready == members {
            return Ok(Instant::now());
        }
        if ready >= told + PROGRESS {
            Lab::note(&format!("{ready} of {members} ready"));
            told = ready;
        }
    }
    bail!("the watch of pools ended")
}

//! Programs that are killed while they are working.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{PoolPredicate, ready_replicas};
use vmpool_test_cluster::deadline::Stopwatch;

use crate::load::listed;
use crate::pods;
use crate::stage::{InstalledNodeCluster, alone};

/// How long requests may be refused after a webhook or an API server was killed, until the endpoints are
/// updated everywhere. Half of it accounts for a busy host.
const WINDOW: Duration = Duration::from_secs(15);

/// Open requests of a killed leader that the API server may still handle.
const IN_FLIGHT: usize = 8;

/// Kills the leader, one webhook and one aggregated API server.
async fn kill_one_of_each(stage: &InstalledNodeCluster) -> anyhow::Result<()> {
    let access = stage.access();
    let mut victims = vec![pods::leader(access).await?];
    for component in ["vmpool-webhook", "vmpool-apiserver"] {
        victims.push(pods::of(access, component).await?.into_iter().next().context("no Pod to kill")?);
    }
    let kills = victims.iter().map(|pod| pods::kill(access, pod));
    futures::future::try_join_all(kills).await.map(drop)
}

/// Waits until all requests of a while are served. The kubelet may end a process seconds after its Pod has
/// disappeared, and requests fail until the API server has closed its connections to it.
async fn until_served_again(stage: &InstalledNodeCluster, killed: Instant) -> anyhow::Result<()> {
    loop {
        let calm = stage.load().mark();
        tokio::time::sleep(SETTLE).await;
        match stage.load().ensure_served_since(calm) {
            Err(error) if killed.elapsed() > WINDOW + SETTLE => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}

pub(crate) fn a_pool_converges_after_one_replica_of_each_program_was_killed() {
    alone(async |stage| {
        pods::until_all_ready(stage.access()).await?;
        let mark = stage.load().mark();
        stage
            .visit("one of each program is killed", async |world| {
                // Given a pool in the middle of a scale-up,
                let pool = world.pool("web").replicas(1).ready().await?;
                pool.scale(8).await?;
                let growing = PoolPredicate::new("more than one machine", |view| view.machines().len() > 1);
                pool.until(growing).await?;
                // when the leader, a webhook and an API server are killed,
                let (killed, watch) = (Instant::now(), Stopwatch::start());
                pool.allow_in_flight(IN_FLIGHT);
                kill_one_of_each(stage).await?;
                // then the pool gets exactly the desired number of machines,
                pool.until(ready_replicas(8)).await?;
                let converged = killed.elapsed();
                pool.holds(ready_replicas(8), SETTLE).await?;
                pods::until_all_ready(stage.access()).await?;
                // and requests were refused only for a moment.
                until_served_again(stage, killed).await?;
                let failures = stage.load().failures_since(mark);
                let last = failures.iter().map(|failure| failure.answered).max();
                let window = last.map(|last| last.saturating_duration_since(killed)).unwrap_or_default();
                println!(
                    "the pool converged after {converged:.1?}; {} requests were refused within {window:.1?}",
                    failures.len()
                );
                ensure!(
                    window < WINDOW,
                    "refused until {window:?} after the kill, {} ago: {}",
                    watch.elapsed(),
                    listed(&failures)
                );
                let early = failures.iter().find(|failure| failure.answered < killed);
                ensure!(early.is_none(), "refused before the kill: {}", listed(&failures));
                Ok(())
            })
            .await
    });
}

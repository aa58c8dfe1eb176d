//! Programs that are killed in the middle of their work.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use vmpool_e2e::deadline::Stopwatch;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{Condition, ready_replicas};

use crate::load::listed;
use crate::pods;
use crate::stage::{Stage, alone};

/// For how long requests may be refused after a webhook or an API server was killed: until everybody has learned that it
/// is gone. Half of it is a busy machine.
const WINDOW: Duration = Duration::from_secs(15);

/// Requests of a killed leader that the API server may still carry out.
const IN_FLIGHT: usize = 8;

/// The leader, one webhook and one API server.
async fn kill_one_of_each(stage: &Stage) -> anyhow::Result<()> {
    let access = stage.access();
    let mut victims = vec![pods::leader(access).await?];
    for component in ["vmpool-webhook", "vmpool-apiserver"] {
        victims.push(pods::of(access, component).await?.into_iter().next().context("no Pod to kill")?);
    }
    let kills = victims.iter().map(|pod| pods::kill(access, pod));
    futures::future::try_join_all(kills).await.map(drop)
}

#[test]
fn one_of_each_is_killed_and_the_pool_converges() {
    alone(async |stage| {
        pods::until_all_ready(stage.access()).await?;
        let mark = stage.load().mark();
        stage
            .visit("one of each program is killed", async |world| {
                // Given a pool in the middle of its growth,
                let pool = world.pool("web").replicas(1).ready().await?;
                pool.scale(8).await?;
                let growing = Condition::new("more than one member", |view| view.members().len() > 1);
                pool.until(growing).await?;
                // when the leader, a webhook and an API server are killed,
                let (killed, watch) = (Instant::now(), Stopwatch::start());
                pool.allow_in_flight(IN_FLIGHT);
                kill_one_of_each(stage).await?;
                // then it gets exactly the machines that it shall have,
                pool.until(ready_replicas(8)).await?;
                let converged = killed.elapsed();
                pool.holds(ready_replicas(8), SETTLE).await?;
                pods::until_all_ready(stage.access()).await?;
                // and whoever asked meanwhile was refused for a moment at most.
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
                let calm = stage.load().mark();
                tokio::time::sleep(SETTLE).await;
                stage.load().ensure_served_since(calm)
            })
            .await
    });
}

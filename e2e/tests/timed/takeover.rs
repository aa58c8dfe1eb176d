//! How soon a standby takes over after its leader has exited.

use std::time::Duration;

use vmpool_e2e::scenario::define_scenario;
use vmpool_e2e::world::SETTLE;
use vmpool_e2e::world::condition::{machine_count, ready_replicas};

#[test]
fn a_standby_takes_over_within_thirty_seconds_from_a_killed_leader() {
    define_scenario("a standby takes over from a killed leader").controllers(0).run(async |world| {
        let first = world.add_short_leased("a").await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        let _second = world.add_short_leased("b").await?;
        first.kill();
        pool.scale(5).await?;
        pool.until_within(ready_replicas(5), Duration::from_secs(30)).await?;
        pool.holds(machine_count(5), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_leader_releases_its_lease_when_it_receives_sigterm() {
    // The lease lasts 15 s, so the successor can act sooner only if the leader releases it.
    define_scenario("a leader releases its lease on SIGTERM").controllers(2).run(async |world| {
        let pool = world.pool("web").replicas(1).ready().await?;
        let leader = world.controller()?;
        let status = leader.stop().await?;
        anyhow::ensure!(status.is_some_and(|status| status.success()), "{status:?}");
        pool.scale(3).await?;
        pool.until_within(ready_replicas(3), Duration::from_secs(10)).await?;
        Ok::<_, anyhow::Error>(())
    });
}

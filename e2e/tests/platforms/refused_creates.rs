//! Creates of machines that the API server refuses because of a quota or admission.

use std::time::Duration;

use anyhow::ensure;
use rstest::rstest;
use vmpool_e2e::world::ScenarioWorld;
use vmpool_e2e::world::condition::{
    PoolPredicate, machine_count, no_condition, pool_condition, pool_event, ready_replicas, status_number,
};
use vmpool_invariants::object::TestedKind;
use vmpool_invariants::platform::TestedPlatform;

use crate::on;

/// Number of refused creates of machines by the controller so far.
fn refused(world: &ScenarioWorld) -> anyhow::Result<usize> {
    let requests = world.controller_requests(TestedKind::Machine)?;
    Ok(requests.iter().filter(|entry| entry.verb == "create" && !entry.is_success()).count())
}

/// The pool says that creates fail.
fn failing(platform: TestedPlatform) -> PoolPredicate {
    let reason = match platform {
        TestedPlatform::Dvp => "FailedCreate",
        TestedPlatform::KubeVirt => "FailedScaleOut",
    };
    pool_condition("ReplicaFailure", "True", reason).and(pool_event("FailedCreate"))
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_full_quota_limits_a_pool_until_it_is_raised(#[case] platform: TestedPlatform) {
    on(platform, "a full quota limits a pool until it is raised", async |world| {
        // Given a quota of three machines,
        let quota = world.quota(TestedKind::Machine, 3).await?;
        // when a pool desires a hundred machines,
        let pool = world.pool("web").replicas(100).create().await?;
        // then it gets three, and its condition explains why,
        pool.until(machine_count(3).and(failing(platform))).await?;
        // with few refused requests: at first at most one more than the accepted ones, then one per retry.
        let first = refused(world)?;
        ensure!(first <= 4 + 2, "{first} creates were refused at first");
        pool.holds(machine_count(3), Duration::from_secs(4)).await?;
        let more = refused(world)? - first;
        ensure!(more <= 8, "{more} creates were refused in four seconds");
        // When the quota allows more and fewer machines are desired, the controller continues.
        pool.scale(6).await?;
        quota.lift().await?;
        pool.until(ready_replicas(6).and(no_condition("ReplicaFailure"))).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_create_refused_by_admission_shows_in_event_and_condition(#[case] platform: TestedPlatform) {
    on(platform, "a create refused by admission appears in event and condition", async |world| {
        // The webhook would refuse a new pool, because it creates a machine as a dry run.
        let pool = world.pool("web").ready().await?;
        let refusal = world.refuse_creates(TestedKind::Machine, "no machines on Sundays").await?;
        pool.scale(2).await?;
        pool.until(failing(platform).and(status_number("replicas", 0))).await?;
        let message = pool.get().await?.condition("ReplicaFailure").cloned().unwrap_or_default();
        let message = message["message"].as_str().unwrap_or_default();
        ensure!(message.contains("no machines on Sundays"), "{message}");
        if platform == TestedPlatform::Dvp {
            pool.until(pool_condition("Available", "False", "InsufficientReadyReplicas")).await?;
        }
        refusal.lift().await?;
        pool.until(ready_replicas(2).and(no_condition("ReplicaFailure"))).await?;
        Ok(())
    });
}

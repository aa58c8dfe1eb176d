//! Machines with hooks: a scale-down, a rollout and a replacement wait for their owners, at most until the
//! deadline.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{
    PoolPredicate, has_machine, live_machine_count, machines_with_memory, negate_condition, pool_event,
    ready_replicas, status_number,
};
use vmpool_e2e::world::{PoolHandle, PoolScaleDownPolicy, SETTLE, ScenarioPoolBuilder, ScenarioWorld};
use vmpool_engine::draining::{DRAIN, DrainMark, HOOK_PREFIX, MARK};
use vmpool_engine::recycling::REQUEST;
use vmpool_invariants::object::{JsonObject, object_uids};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{annotate, from_now};

/// The hook of these scenarios.
fn hook() -> String {
    format!("{HOOK_PREFIX}job")
}

/// The drain of a machine, if its hook is not released.
fn held_drain(machine: &JsonObject) -> Option<DrainMark> {
    let mark = DrainMark::parse(machine.annotation(MARK)?)?;
    (machine.annotation(&hook()) != Some(&*mark.id)).then_some(mark)
}

/// This number of machines waits for the release of a hook.
fn waiting(count: usize) -> PoolPredicate {
    PoolPredicate::new(format!("{count} machines that wait for a hook"), move |view| {
        view.live().filter(|machine| held_drain(machine).is_some()).count() == count
    })
}

/// A pool whose machines drain for this time at most, with a hook on each machine.
async fn hooked_pool<'w>(
    world: &'w ScenarioWorld,
    pool: ScenarioPoolBuilder<'w>,
    timeout: &str,
) -> Result<PoolHandle<'w>> {
    let setting = json!({ "timeout": timeout }).to_string();
    let pool = pool.with(&json!({ "metadata": { "annotations": { DRAIN: setting } } })).ready().await?;
    for machine in pool.machines().await? {
        annotate(world, &machine, &hook(), json!("")).await?;
    }
    Ok(pool)
}

/// Releases the hook of the machine that waits for it.
async fn release(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Result<JsonObject> {
    let machines = pool.machines().await?;
    let found = machines.into_iter().find_map(|machine| held_drain(&machine).map(|mark| (machine, mark)));
    let (machine, mark) = found.context("no machine waits")?;
    annotate(world, &machine, &hook(), json!(mark.id)).await?;
    Ok(machine)
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_scale_down_waits_for_a_hook(#[case] platform: TestedPlatform) {
    on(platform, "a scale-down waits for a hook", async |world| {
        let builder = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(2);
        let pool = hooked_pool(world, builder, "1h").await?;
        pool.scale(1).await?;
        pool.until(waiting(1).and(status_number("drainingReplicas", 1)).and(pool_event("DrainBegan")))
            .await?;
        pool.holds(live_machine_count(2).and(waiting(1)), SETTLE).await?;

        // The pool is scaled up again: the machine is called back.
        pool.scale(2).await?;
        pool.until(waiting(0).and(pool_event("DrainEnded"))).await?;
        ensure!(pool.machines().await?.iter().all(|machine| machine.annotation(MARK).is_none()));

        pool.scale(1).await?;
        pool.until(waiting(1)).await?;
        let left = release(world, &pool).await?;
        pool.until(live_machine_count(1).and(ready_replicas(1))).await?;
        ensure!(!object_uids(&pool.machines().await?).contains(&left.uid().to_owned()));
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_machine_leaves_at_the_deadline_of_its_drain(#[case] platform: TestedPlatform) {
    on(platform, "a machine leaves at the deadline of its drain", async |world| {
        let builder = world.pool("web").policy(PoolScaleDownPolicy::NewestFirst).replicas(2);
        let pool = hooked_pool(world, builder, "8s").await?;
        pool.scale(1).await?;
        pool.until(waiting(1)).await?;
        pool.until(live_machine_count(1).and(ready_replicas(1)).and(pool_event("DrainDeadlinePassed")))
            .await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_rollout_drains_within_the_budget(#[case] platform: TestedPlatform) {
    on(platform, "a rollout drains within the budget", async |world| {
        let builder = world.pool("web").replicas(3).automatic_restarts();
        let pool = hooked_pool(world, builder, "1h").await?;
        let before = object_uids(&pool.machines().await?);
        pool.change_memory("1Gi").await?;
        for done in 0..3 {
            let next = waiting(1).and(ready_replicas(3)).and(status_number("updatedReplicas", done));
            pool.until_within(next, Duration::from_secs(90)).await?;
            pool.holds(waiting(1), SETTLE).await?;
            release(world, &pool).await?;
        }
        let all_updated = machines_with_memory("1Gi").and(status_number("updatedReplicas", 3));
        pool.until_within(all_updated.and(ready_replicas(3)), Duration::from_secs(90)).await?;
        let machines = pool.machines().await?;
        ensure!(object_uids(&machines) == before, "a machine was recreated");
        ensure!(machines.iter().all(|machine| machine.annotation(MARK).is_none()), "{machines:?}");
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_replacement_drains_within_the_budget_unless_the_request_is_withdrawn(#[case] platform: TestedPlatform) {
    on(platform, "a replacement drains within the budget", async |world| {
        let pool = hooked_pool(world, world.pool("web").replicas(2), "1h").await?;
        let before = pool.machines().await?;
        for machine in &before {
            annotate(world, machine, REQUEST, json!(from_now(1))).await?;
        }
        pool.until(waiting(1).and(ready_replicas(2))).await?;
        pool.holds(waiting(1).and(live_machine_count(2)), SETTLE).await?;

        for machine in &before {
            annotate(world, machine, REQUEST, Value::Null).await?;
        }
        pool.until(waiting(0).and(pool_event("DrainEnded"))).await?;
        ensure!(object_uids(&pool.machines().await?) == object_uids(&before));

        annotate(world, &before[0], REQUEST, json!(from_now(1))).await?;
        pool.until(waiting(1)).await?;
        let left = release(world, &pool).await?;
        ensure!(left.uid() == before[0].uid(), "another machine drained");
        pool.until(negate_condition(has_machine(&left)).and(ready_replicas(2))).await?;
        Ok(())
    });
}

//! Rollouts: which machines are updated, when, and how many at a time; and those of protected machines.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{
    PoolPredicate, machines_labeled, machines_with_memory, pool_event, pool_is_ready, ready_replicas,
    status_number,
};
use vmpool_e2e::world::{PoolHandle, SETTLE, ScenarioWorld};
use vmpool_invariants::object::{TestedKind, object_uids};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{blocked, ends_in, from_now, not_blocked, protect};

/// This number of machines is up to date, and all three are ready.
fn updated(count: i64) -> PoolPredicate {
    status_number("updatedReplicas", count).and(ready_replicas(3))
}

/// The names of all machines with their guests.
async fn guests(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Result<Vec<(String, String)>> {
    let mut guests = Vec::new();
    for machine in pool.machines().await? {
        guests.push((machine.name().to_owned(), world.guest_of(machine.name()).await?));
    }
    Ok(guests)
}

/// The maximum number of machines that did not run at the same time while one of them had this memory.
fn worst_moment(world: &ScenarioWorld, pool: &PoolHandle<'_>, memory: &str) -> usize {
    let mut worst = 0;
    world.recorder().history().replay(|state, _| {
        let machines = state.machines_of_pool(pool.uid());
        if machines.iter().any(|machine| machine.memory() == memory) {
            worst = worst.max(machines.iter().filter(|machine| !machine.is_running()).count());
        }
    });
    worst
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn label_changes_reach_running_machines_and_keep_foreign_labels(#[case] platform: TestedPlatform) {
    on(platform, "label changes reach running machines and keep foreign labels", async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let (machines, before) = (object_uids(&pool.machines().await?), guests(world, &pool).await?);
        let name = &before[0].0;
        let mine = json!({ "metadata": { "labels": { "mine": "stays" } } });
        world.patch(TestedKind::Machine, name, &mine).await?;
        let all_updated = || status_number("updatedReplicas", 2).and(ready_replicas(2)).and(pool_is_ready());
        pool.change_labels(&json!({ "tier": "gold", "zone": "a" })).await?;
        pool.until(machines_labeled("tier", Some("gold")).and(all_updated())).await?;
        // Labels that only the former template had are removed; labels of others remain.
        pool.change_labels(&json!({ "tier": null })).await?;
        pool.until(machines_labeled("tier", None).and(all_updated())).await?;
        let machine = world.get(TestedKind::Machine, name).await?;
        ensure!(machine.label("mine") == Some("stays") && machine.label("zone") == Some("a"), "{machine:?}");
        ensure!(object_uids(&pool.machines().await?) == machines, "a machine was recreated");
        ensure!(guests(world, &pool).await? == before, "a change of labels restarted a machine");
        Ok(())
    });
}

/// The same promise of KubeVirt pools is in `kubevirt::states` and `kubevirt::running_types`: KubeVirt
/// applies a change of the memory without a restart.
#[test]
fn automatic_restarts_stay_within_the_disruption_budget() {
    on(TestedPlatform::Dvp, "automatic restarts stay within the disruption budget", async |world| {
        // A quarter of five is one.
        let pool = world.pool("web").replicas(5).automatic_restarts().ready().await?;
        let (machines, before) = (object_uids(&pool.machines().await?), guests(world, &pool).await?);
        pool.change_memory("1Gi").await?;
        // The last machine may still be starting when all are updated.
        let all_updated = machines_with_memory("1Gi").and(status_number("updatedReplicas", 5));
        pool.until_within(all_updated.and(ready_replicas(5)).and(pool_is_ready()), Duration::from_secs(90))
            .await?;
        let worst = worst_moment(world, &pool, "1Gi");
        ensure!(worst == 1, "{worst} machines were not running at the same time");
        pool.holds(ready_replicas(5), SETTLE).await?;
        ensure!(object_uids(&pool.machines().await?) == machines, "a machine was recreated");
        let after = guests(world, &pool).await?;
        ensure!(after.iter().zip(&before).all(|(now, former)| now != former), "{before:?} {after:?}");
        pool.until(pool_event("TemplateApplied")).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_rollout_restarts_a_protected_machine_last(#[case] platform: TestedPlatform) {
    on(platform, "a rollout restarts a protected machine last", async |world| {
        let pool = world.pool("web").replicas(3).automatic_restarts().ready().await?;
        let machines = pool.machines().await?;
        let protected = &machines[1];
        protect(world, protected, &from_now(3600)).await?;
        let before = guests(world, &pool).await?;

        // A change of labels alone reaches all machines, and restarts none.
        pool.change_labels(&json!({ "tier": "gold" })).await?;
        pool.until(machines_labeled("tier", Some("gold")).and(updated(3)).and(not_blocked())).await?;
        ensure!(guests(world, &pool).await? == before, "a change of labels restarted a machine");

        // A change that needs a restart waits for the protected machine, and only for this one.
        pool.change_memory("1Gi").await?;
        pool.until(blocked(&["the rollout waits", protected.name()]).and(updated(2))).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        let after = guests(world, &pool).await?;
        for (now, former) in after.iter().zip(&before) {
            let restarted = now != former;
            ensure!(restarted != (now.0 == protected.name()), "{before:?} {after:?}");
        }
        if platform == TestedPlatform::Dvp {
            let machine = world.get(TestedKind::Machine, protected.name()).await?;
            ensure!(machine.memory() == "512Mi", "the spec of the protected machine changed: {machine:?}");
        }

        // It continues by itself when the protection ends.
        protect(world, protected, &ends_in(5)).await?;
        pool.until(updated(3).and(not_blocked())).await?;
        let last = guests(world, &pool).await?;
        let of =
            |guests: &[(String, String)]| guests.iter().find(|guest| guest.0 == protected.name()).cloned();
        ensure!(of(&last).context("no guest")? != of(&before).context("no guest")?, "it was not restarted");
        Ok(())
    });
}

//! Standby machines: they warm up, are stopped, and take the place of missing machines.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::json;
use vmpool_e2e::world::condition::{
    PoolPredicate, live_machine_count, pool_condition, pool_event, ready_replicas, stopped_standby_machines,
};
use vmpool_e2e::world::{PoolHandle, SETTLE, ScenarioWorld};
use vmpool_engine::standby::{ACTIVATED_AT, STANDBY};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use crate::with_gate;

/// The feature gate of standby machines.
const GATE: &str = "StandbyMachines";

/// A pool with one active machine and one standby machine, which is stopped after its warm-up.
async fn pool_with_standby(world: &ScenarioWorld) -> Result<PoolHandle<'_>> {
    let setting = json!({ "replicas": 1, "warmUpDelay": "0s" }).to_string();
    let standby = json!({ "metadata": { "annotations": { STANDBY: setting } } });
    let pool = world.pool("web").replicas(1).with(&standby).create().await?;
    pool.until(ready_replicas(1).and(stopped_standby_machines(1))).await?;
    Ok(pool)
}

/// The machine with this UID is active or not, and exists.
fn is_active(machine: &JsonObject, expected: bool) -> PoolPredicate {
    let (uid, name) = (machine.uid().to_owned(), machine.name().to_owned());
    PoolPredicate::new(format!("machine {name}, active: {expected}"), move |view| {
        let machines = if expected { view.machines() } else { view.standby_machines() };
        machines.iter().any(|machine| machine.uid() == uid)
    })
}

/// The standby machine of the pool.
async fn standby_machine(pool: &PoolHandle<'_>) -> Result<JsonObject> {
    let machines = pool.machines().await?;
    machines.into_iter().find(JsonObject::is_standby).context("no standby machine")
}

/// The verbs of the accepted writes of machines by the controller, from the given one on.
fn machine_writes(world: &ScenarioWorld, since: usize) -> Result<Vec<String>> {
    let mut verbs: Vec<String> = world
        .controller_writes(TestedKind::Machine)?
        .into_iter()
        .skip(since)
        .map(|entry| entry.verb)
        .collect();
    verbs.sort_unstable();
    Ok(verbs)
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_missing_machine_is_activated(#[case] platform: TestedPlatform) {
    with_gate(platform, "a standby machine takes the place of a missing one", GATE, async |world| {
        let pool = pool_with_standby(world).await?;
        pool.holds(ready_replicas(1).and(stopped_standby_machines(1)), SETTLE).await?;
        let first = machine_writes(world, 0)?;
        ensure!(first == ["create", "create", "patch"], "two creates and one stop, not {first:?}");
        let standby = standby_machine(&pool).await?;

        pool.scale(2).await?;
        let refilled = ready_replicas(2).and(stopped_standby_machines(1));
        pool.until(refilled.clone().and(is_active(&standby, true)).and(pool_event("Activated"))).await?;
        pool.holds(refilled, SETTLE).await?;
        let later = machine_writes(world, first.len())?;
        ensure!(later == ["create", "patch", "patch"], "an activation, a create and a stop, not {later:?}");
        let activated = world.get(TestedKind::Machine, standby.name()).await?;
        ensure!(activated.annotation(ACTIVATED_AT).is_some(), "{activated:?}");
        // Only DVP has a run policy with which a machine that was stopped does not start. The simulator
        // starts it nevertheless, so the tests of the controller expect the operation, and this one at most
        // one.
        if platform == TestedPlatform::Dvp {
            let starts = world.controller_writes(TestedKind::Operation)?.len();
            ensure!(starts <= 1, "{starts} operations start machines");
        }
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_standby_machine_that_a_client_started_stays_as_it_is(#[case] platform: TestedPlatform) {
    with_gate(platform, "a client starts a standby machine", GATE, async |world| {
        let pool = pool_with_standby(world).await?;
        let standby = standby_machine(&pool).await?;
        let run = match platform {
            TestedPlatform::Dvp => json!({ "runPolicy": "AlwaysOn" }),
            TestedPlatform::KubeVirt => json!({ "runStrategy": "Always" }),
        };
        world.patch(TestedKind::Machine, standby.name(), &json!({ "spec": run })).await?;
        let started =
            || pool_condition("StandbyStarted", "True", "StartedByClient").and(is_active(&standby, false));
        pool.until(started().and(ready_replicas(1))).await?;
        pool.scale(2).await?;
        // A new machine is created instead.
        pool.until(started().and(ready_replicas(2))).await?;
        pool.holds(started().and(live_machine_count(2)), SETTLE).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn surplus_standby_machines_are_deleted_and_deleted_ones_are_replaced(#[case] platform: TestedPlatform) {
    with_gate(platform, "standby machines follow their number", GATE, async |world| {
        let pool = pool_with_standby(world).await?;
        let standby = standby_machine(&pool).await?;
        world.delete(&standby).await?;
        pool.until(stopped_standby_machines(1).and(ready_replicas(1))).await?;
        ensure!(standby_machine(&pool).await?.uid() != standby.uid(), "it was replaced");
        let none = json!({ "metadata": { "annotations": { STANDBY: r#"{"replicas":0}"# } } });
        pool.edit(&none).await?;
        pool.until(stopped_standby_machines(0).and(ready_replicas(1))).await?;
        Ok(())
    });
}

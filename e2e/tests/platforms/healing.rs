//! Healing on both platforms, and autohealing of protected machines, which only pools of KubeVirt have.

use std::time::Duration;

use anyhow::{Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{
    has_machine, live_machine_count, live_ready_replicas, machine_count, negate_condition, no_condition,
    pool_condition, pool_event, pool_exists, ready_replicas, terminating_machine_count,
};
use vmpool_e2e::world::{SETTLE, ScenarioWorld};
use vmpool_invariants::object::JsonObject;
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{annotate, blocked, exactly, from_now, not_blocked, protect, running, unprotect};

/// How long a machine must not have been ready, and a little longer.
const NOT_READY_FOR: Duration = Duration::from_secs(9);

#[test]
fn autohealing_does_not_replace_a_protected_machine() {
    on(TestedPlatform::KubeVirt, "autohealing does not replace a protected machine", async |world| {
        let healing = json!({ "spec": { "autohealing": { "startUpFailureThreshold": 1 } } });
        let pool = world.pool("web").replicas(2).with(&healing).ready().await?;
        let machines = pool.machines().await?;
        let (other, protected) = (&machines[0], &machines[1]);
        protect(world, protected, &from_now(3600)).await?;
        // When the guest ends and the next start fails, then the machine stays, and the pool says why.
        annotate(world, protected, "simulator.vmpool.dev/fail-start", json!("1")).await?;
        world.kubectl(&["delete", "virtualmachineinstances.kubevirt.io", protected.name()]).await?;
        pool.until(blocked(&[protected.name(), "not replaced"])).await?;
        pool.holds(exactly(&[other, protected]).and(pool_exists()), SETTLE).await?;
        // When the protection is taken off, then it is replaced.
        unprotect(world, protected).await?;
        pool.until(negate_condition(has_machine(protected)).and(ready_replicas(2)).and(not_blocked()))
            .await?;
        ensure!(pool.machines().await?.iter().any(|machine| machine.uid() == other.uid()));
        Ok(())
    });
}

/// A pool that replaces machines which are not ready for some seconds.
fn with_healing() -> Value {
    let healing = json!({ "notReadyFor": "8s", "startTimeout": "1s", "replaceStuckAfter": "4s" });
    json!({ "metadata": { "annotations": { "vmpool.dev/healing": healing.to_string() } } })
}

/// The node of these machines is lost, or returns.
async fn lose_nodes(world: &ScenarioWorld, machines: &[JsonObject], lost: bool) -> Result<()> {
    let value = if lost { json!("true") } else { Value::Null };
    for machine in machines {
        annotate(world, machine, "simulator.vmpool.dev/node-loss", value.clone()).await?;
    }
    Ok(())
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_machine_of_a_lost_node_is_replaced_under_another_name(#[case] platform: TestedPlatform) {
    on(platform, "a machine of a lost node is replaced under another name", async |world| {
        let pool = world.pool("web").replicas(5).with(&with_healing()).ready().await?;
        let machines = pool.machines().await?;
        let lost = &machines[..1];
        lose_nodes(world, lost, true).await?;
        // When its deletion does not end, then another machine takes its place, and it stays.
        pool.until(live_ready_replicas(5).and(terminating_machine_count(1))).await?;
        let names: Vec<String> =
            pool.machines().await?.iter().map(|machine| machine.name().to_owned()).collect();
        ensure!(names.iter().filter(|name| *name == lost[0].name()).count() <= 1, "{names:?}");
        pool.holds(live_machine_count(5).and(terminating_machine_count(1)), SETTLE).await?;
        // When the node returns, then the machine ends, and no other machine leaves.
        lose_nodes(world, lost, false).await?;
        pool.until(machine_count(5).and(ready_replicas(5))).await?;
        pool.holds(machine_count(5).and(ready_replicas(5)), SETTLE).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn healing_replaces_no_machine_while_too_many_are_not_ready(#[case] platform: TestedPlatform) {
    on(platform, "healing replaces no machine while too many are not ready", async |world| {
        let pool = world.pool("web").replicas(5).ready().await?;
        let machines = pool.machines().await?;
        let all: Vec<&JsonObject> = machines.iter().collect();
        lose_nodes(world, &machines[..3], true).await?;
        // Healing is turned on when all of them have not been ready for so long.
        pool.until(running(2)).await?;
        pool.holds(running(2), NOT_READY_FOR).await?;
        pool.edit(&with_healing()).await?;
        let blocked = || pool_condition("HealingBlocked", "True", "TooManyUnhealthy");
        pool.until(blocked().and(pool_event("HealingBlocked"))).await?;
        pool.holds(exactly(&all).and(blocked()), SETTLE).await?;
        // When one node returns, then the machines of the other two are replaced.
        lose_nodes(world, &machines[2..3], false).await?;
        pool.until(
            live_ready_replicas(5).and(terminating_machine_count(2)).and(no_condition("HealingBlocked")),
        )
        .await?;
        pool.until(has_machine(&machines[2])).await?;
        lose_nodes(world, &machines[..2], false).await?;
        pool.until(machine_count(5).and(ready_replicas(5))).await?;
        Ok(())
    });
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn healing_does_not_replace_a_protected_machine(#[case] platform: TestedPlatform) {
    on(platform, "healing does not replace a protected machine", async |world| {
        let pool = world.pool("web").replicas(3).with(&with_healing()).ready().await?;
        let machines = pool.machines().await?;
        let all: Vec<&JsonObject> = machines.iter().collect();
        let lost = &machines[..1];
        protect(world, &lost[0], &from_now(3600)).await?;
        lose_nodes(world, lost, true).await?;
        pool.until(blocked(&[lost[0].name(), "not replaced"])).await?;
        pool.holds(exactly(&all), SETTLE).await?;
        unprotect(world, &lost[0]).await?;
        pool.until(live_ready_replicas(3).and(terminating_machine_count(1)).and(not_blocked())).await?;
        lose_nodes(world, lost, false).await?;
        pool.until(machine_count(3).and(ready_replicas(3))).await?;
        Ok(())
    });
}

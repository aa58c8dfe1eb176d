//! Rollouts of pools with protected machines.

use anyhow::{Context, Result, ensure};
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_e2e::world::condition::{PoolPredicate, ready_replicas, status_number};
use vmpool_e2e::world::{PoolHandle, SETTLE, ScenarioWorld};
use vmpool_invariants::object::{JsonObject, TestedKind};
use vmpool_invariants::platform::TestedPlatform;

use crate::on;
use crate::protected::{blocked, ends_in, from_now, not_blocked, protect};

/// A change of the template that needs a restart, which the controller makes by itself.
pub(crate) fn more_memory(platform: TestedPlatform) -> Value {
    let spec = match platform {
        TestedPlatform::Dvp => json!({ "memory": { "size": "1Gi" } }),
        TestedPlatform::KubeVirt => {
            json!({ "template": { "spec": { "domain": { "memory": { "guest": "1Gi" } } } } })
        }
    };
    json!({ "spec": { "virtualMachineTemplate": { "spec": spec } } })
}

/// The settings with which the controller restarts machines by itself.
fn automatic(platform: TestedPlatform) -> Value {
    match platform {
        TestedPlatform::Dvp => json!({ "spec": { "virtualMachineTemplate": { "spec": {
            "disruptions": { "restartApprovalMode": "Automatic" },
        } } } }),
        TestedPlatform::KubeVirt => json!({}),
    }
}

/// What changes when the guest of a machine restarts: how often it has stopped, or the UID of its instance.
pub(crate) async fn guest(world: &ScenarioWorld, name: &str) -> Result<String> {
    if world.platform() == TestedPlatform::KubeVirt {
        let instance = ["get", "virtualmachineinstances.kubevirt.io", name, "-o", "jsonpath={.metadata.uid}"];
        return Ok(world.kubectl(&instance).await?);
    }
    let (mut stops, mut ran) = (0, false);
    world.recorder().history().replay(|_, change| {
        if change.kind == TestedKind::Machine && change.object.name() == name {
            stops += usize::from(ran && !change.object.is_running());
            ran = change.object.is_running();
        }
    });
    Ok(stops.to_string())
}

/// This number of machines is up to date, and all three are ready.
fn updated(count: i64) -> PoolPredicate {
    status_number("updatedReplicas", count).and(ready_replicas(3))
}

/// All machines have this value of the label.
fn tier(value: &'static str) -> PoolPredicate {
    PoolPredicate::new(format!("machines of tier {value}"), move |view| {
        view.live().all(|machine| machine.label("tier") == Some(value))
    })
}

fn memory(platform: TestedPlatform, machine: &JsonObject) -> &str {
    match platform {
        TestedPlatform::Dvp => machine.text("/spec/memory/size"),
        TestedPlatform::KubeVirt => machine.text("/spec/template/spec/domain/memory/guest"),
    }
}

async fn guests(world: &ScenarioWorld, pool: &PoolHandle<'_>) -> Result<Vec<(String, String)>> {
    let mut guests = Vec::new();
    for machine in pool.machines().await? {
        guests.push((machine.name().to_owned(), guest(world, machine.name()).await?));
    }
    Ok(guests)
}

#[rstest]
#[case::dvp(TestedPlatform::Dvp)]
#[case::kubevirt(TestedPlatform::KubeVirt)]
fn a_rollout_restarts_a_protected_machine_last(#[case] platform: TestedPlatform) {
    on(platform, "a rollout restarts a protected machine last", async |world| {
        let pool = world.pool("web").replicas(3).with(&automatic(platform)).ready().await?;
        let machines = pool.machines().await?;
        let protected = &machines[1];
        protect(world, protected, &from_now(3600)).await?;
        let before = guests(world, &pool).await?;

        // A change of labels alone reaches all machines, and restarts none.
        let gold =
            json!({ "spec": { "virtualMachineTemplate": { "metadata": { "labels": { "tier": "gold" } } } } });
        pool.edit(&gold).await?;
        pool.until(tier("gold").and(updated(3)).and(not_blocked())).await?;
        ensure!(guests(world, &pool).await? == before, "a change of labels restarted a machine");

        // A change that needs a restart waits for the protected machine, and only for this one.
        pool.edit(&more_memory(platform)).await?;
        pool.until(blocked(&["the rollout waits", protected.name()]).and(updated(2))).await?;
        pool.holds(ready_replicas(3), SETTLE).await?;
        let after = guests(world, &pool).await?;
        for (now, former) in after.iter().zip(&before) {
            let restarted = now != former;
            ensure!(restarted != (now.0 == protected.name()), "{before:?} {after:?}");
        }
        if platform == TestedPlatform::Dvp {
            let spec = world.get(TestedKind::Machine, protected.name()).await?;
            ensure!(
                memory(platform, &spec) == "512Mi",
                "the spec of the protected machine changed: {spec:?}"
            );
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

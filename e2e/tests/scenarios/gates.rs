//! The feature gate, and what the probes say.

use serde_json::json;
use vmpool_e2e::installation::GuardOptions;
use vmpool_e2e::programs::{Accounts, ControllerOptions};
use vmpool_e2e::scenario::scenario;
use vmpool_e2e::world::condition::{Condition, condition, has_machine, live_members, ready_replicas, status};
use vmpool_e2e::world::{Policy, SETTLE, SUBRESOURCES};

#[test]
fn switching_the_gate_off_and_on_again_costs_no_machine() {
    scenario("switching the gate off and on again costs no machine").controllers(0).run(async |world| {
        let options = |identity: &str| ControllerOptions::new(world.namespace(), identity);
        let on = world.add_controller_with(options("on")).await?;
        let pool = world.pool("web").replicas(2).ready().await?;
        let machine = pool.machine(0).await?;
        on.stop().await?;
        // With the gate off nothing happens to the pool, whatever is asked of it.
        let mut off = options("off");
        off.extra.push("--feature-gates=VirtualMachinePool=false".to_owned());
        let off = world.add_controller_with(off).await?;
        anyhow::ensure!(off.probe("/livez").await.0 == 200, "it is alive and has nothing to do");
        pool.scale(3).await?;
        pool.holds(live_members(2).and(not_observed()), SETTLE).await?;
        off.stop().await?;
        // With the gate on again it goes on where it was.
        world.add_controller_with(options("on-again")).await?;
        pool.until(ready_replicas(3).and(has_machine(&machine))).await?;
        Ok::<_, anyhow::Error>(())
    });
}

fn not_observed() -> Condition {
    Condition::new("a pool whose newest generation nobody has looked at", |view| {
        view.pool().is_some_and(|pool| {
            pool.number("/status/observedGeneration") < pool.number("/metadata/generation")
        })
    })
}

#[test]
fn with_the_gate_off_nothing_guards_pools_and_nobody_is_removed_by_name() {
    let guard = GuardOptions::default().value("featureGates.VirtualMachinePool=false");
    scenario("with the gate off nothing guards pools").guarded_by(guard).controllers(0).run(async |world| {
        // Pools can be stored and changed, since no webhook is asked that would not answer,
        let pool = world.pool("web").policy(Policy::Explicit).replicas(3).create().await?;
        pool.edit(&json!({ "spec": { "replicas": 1 } })).await?;
        pool.scale_by_api(0).await?;
        // the removal by name is not there, for nobody,
        let listed = world.cluster().kubectl(&["api-resources", "--verbs=create", "-o", "name"]).await?;
        anyhow::ensure!(!listed.contains("scaledownwith"), "{listed}");
        for group in [SUBRESOURCES, "subresources.virtualization.deckhouse.io/v1alpha2"] {
            let answer = pool.removal().named("nobody").through(group).send().await?;
            anyhow::ensure!(answer.code == 404, "{group}: {answer}");
        }
        // and if the programs are up, they are alive, ready, and have nothing to say.
        let off = world.add_controller_with({
            let mut options = ControllerOptions::new(world.namespace(), "off");
            options.extra.push("--feature-gates=VirtualMachinePool=false".to_owned());
            options
        });
        let off = off.await?;
        pool.scale_by_api(2).await?;
        pool.holds(live_members(0).and(no_status()), SETTLE).await?;
        off.stop().await?;
        // With the gate on, a pool of that time is like any other.
        Accounts::install(world.cluster()).await?.grant_in(world.cluster(), world.namespace()).await?;
        let on = world.add_controller_with(ControllerOptions::new(world.namespace(), "on")).await?;
        pool.until(ready_replicas(2)).await?;
        drop(on);
        Ok::<_, anyhow::Error>(())
    });
}

fn no_status() -> Condition {
    Condition::new("a pool without a status", |view| {
        view.pool().is_some_and(|pool| pool.at("/status").is_null())
    })
}

#[test]
fn leader_and_standby_are_ready_and_say_why() {
    scenario("leader and standby are ready and say why").controllers(2).run(async |world| {
        world.pool("web").replicas(1).ready().await?;
        for controller in world.controllers() {
            for path in ["/livez", "/readyz"] {
                let (code, body) = controller.probe(path).await;
                anyhow::ensure!(code == 200, "{} {path}: {code} {body}", controller.identity());
            }
            let (_, body) = controller.probe("/readyz?verbose").await;
            for check in ["caches", "lease"] {
                anyhow::ensure!(body.contains(check), "{body}");
            }
        }
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn a_pool_that_wants_what_is_not_served_yet_says_so_and_makes_nothing() {
    scenario("a pool that wants what is not served yet says so").run(async |world| {
        let retain = json!({ "spec": { "virtualDiskTemplates": [{
            "name": "cache",
            "reclaim": { "onScaleDown": "Retain" },
            "spec": { "persistentVolumeClaim": { "size": "64Mi" } },
        }], "virtualMachineTemplate": { "spec": { "blockDeviceRefs": [
            { "kind": "VirtualDisk", "name": "cache" },
        ] } } } });
        let pool = world.pool("web").replicas(2).with(&retain).create().await?;
        pool.until(condition("ReplicaFailure", "True", "FailedCreate")).await?;
        let failure = pool.get().await?.condition("ReplicaFailure").cloned().unwrap_or_default();
        anyhow::ensure!(failure["message"].as_str().is_some_and(|text| text.contains("Retain")), "{failure}");
        pool.holds(live_members(0), SETTLE).await?;
        Ok::<_, anyhow::Error>(())
    });
}

#[test]
fn an_edited_template_reaches_new_machines_and_the_pool_says_who_lags() {
    scenario("an edited template reaches new machines, and the pool says who lags").run(async |world| {
        let pool = world.pool("web").replicas(2).ready().await?;
        let old = pool.machines().await?;
        pool.edit(
            &json!({ "spec": { "virtualMachineTemplate": { "spec": { "memory": { "size": "1Gi" } } } } }),
        )
        .await?;
        pool.until(condition("Synced", "False", "RecreationRequired").and(status("updatedReplicas", 0)))
            .await?;
        pool.scale(3).await?;
        pool.until(ready_replicas(3).and(status("updatedReplicas", 1))).await?;
        for machine in pool.machines().await? {
            let is_old = old.iter().any(|old| old.uid() == machine.uid());
            assert_eq!(machine.text("/spec/memory/size"), if is_old { "512Mi" } else { "1Gi" });
        }
        // A machine that is recreated gets the new template.
        for machine in &old {
            world.delete(machine).await?;
        }
        pool.until(ready_replicas(3).and(status("updatedReplicas", 3)).and(condition(
            "Synced",
            "True",
            "PoolSynced",
        )))
        .await?;
        Ok::<_, anyhow::Error>(())
    });
}

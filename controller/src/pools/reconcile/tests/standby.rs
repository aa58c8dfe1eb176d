//! Standby machines: their writes, and activations that are lost or refused.

use serde_json::{Value, json};
use vmpool_engine::standby::{ACTIVATED_AT, STANDBY};

use super::rollouts::{MACHINES, POOLS};
use super::{SECOND, count, count_patches};
use crate::testing::{Call, Fate, LeaderWorld, Refusal, Verb, pool_manifest};

const OPERATIONS: &str = "virtualmachineoperations";

/// A world whose controller keeps standby machines, with a pool without active machines and this number of
/// standby machines, which are stopped.
async fn with_standby(standby: usize) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.settings.keeps_standby = true;
    let mut pool = pool_manifest("web", 0);
    pool["spec"]["standby"] = json!({ "replicas": standby, "warmUpDelay": "0s" });
    world.server.create(POOLS, pool);
    world.lead();
    settle_standby(&world).await;
    world.take_writes();
    world
}

/// The platform starts and stops standby machines, as their specs say.
async fn settle_standby(world: &LeaderWorld) {
    world.calm().await;
    for phase in ["Running", "Stopped"] {
        for machine in world.machines().iter().filter(|machine| is_standby(machine)) {
            let is_off = machine["spec"]["runPolicy"] == "AlwaysOff";
            set_phase(world, machine, if is_off { "Stopped" } else { phase });
        }
        world.calm().await;
    }
}

fn set_phase(world: &LeaderWorld, machine: &Value, phase: &str) {
    world.server.edit(MACHINES, name(machine), |machine| {
        machine["status"]["phase"] = json!(phase);
        machine["status"]["observedGeneration"] = machine["metadata"]["generation"].clone();
    });
}

fn name(machine: &Value) -> &str {
    machine["metadata"]["name"].as_str().unwrap()
}

fn is_standby(machine: &Value) -> bool {
    !machine["metadata"]["labels"][STANDBY].is_null()
}

/// The numbers of active and of standby machines.
fn counts(world: &LeaderWorld) -> (usize, usize) {
    let (standby, active): (Vec<Value>, Vec<Value>) = world.machines().into_iter().partition(is_standby);
    (active.len(), standby.len())
}

/// The writes apart from those of the pool.
fn work(world: &LeaderWorld) -> Vec<Call> {
    world.take_writes().into_iter().filter(|call| call.resource != POOLS).collect()
}

#[tokio::test]
async fn a_standby_machine_costs_a_create_its_disks_and_a_stop() {
    let mut world = LeaderWorld::new();
    world.settings.keeps_standby = true;
    let mut pool = pool_manifest("web", 0);
    pool["spec"]["standby"] = json!({ "replicas": 1, "warmUpDelay": "0s" });
    world.server.create(POOLS, pool);
    world.lead();
    world.calm().await;
    let machine = world.machines().remove(0);
    let labels = machine["metadata"]["labels"].as_object().unwrap();
    assert_eq!((labels.len(), &labels[STANDBY]), (2, &json!("warming")), "{labels:?}");
    assert_eq!(
        (world.status()["replicas"].clone(), world.status()["standbyReplicas"].clone()),
        (json!(0), json!(1))
    );
    let writes = work(&world);
    assert_eq!(
        (count(&writes, Verb::Create, MACHINES), count(&writes, Verb::Create, "virtualdisks")),
        (1, 1)
    );
    assert_eq!(count_patches(&writes, MACHINES), 0);

    set_phase(&world, &machine, "Running");
    world.calm().await;
    let stopped = world.machines().remove(0);
    assert_eq!(stopped["spec"]["runPolicy"], "AlwaysOff");
    assert_eq!(stopped["metadata"]["labels"][STANDBY], "stopped");
    let writes = work(&world);
    assert_eq!((writes.len(), count_patches(&writes, MACHINES)), (1, 1), "{writes:?}");

    set_phase(&world, &stopped, "Stopped");
    world.calm().await;
    world.take_writes();
    world.advance(30 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "nothing is written at rest");
    let page = world.metrics.page();
    assert!(page.contains("vmpool_pool_standby{") && page.contains("vmpool_pool_ready_standby{"), "{page}");
}

#[tokio::test]
async fn an_activation_costs_one_write_and_the_operation_that_starts_the_machine() {
    let world = with_standby(1).await;
    let standby = world.machines().remove(0);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["replicas"] = json!(1);
        pool["spec"]["standby"]["replicas"] = json!(0);
    });
    world.calm().await;
    let writes = work(&world);
    assert_eq!((count_patches(&writes, MACHINES), count(&writes, Verb::Create, OPERATIONS)), (1, 1));
    assert_eq!(writes.len(), 2, "{writes:?}");
    let active = world.machines().remove(0);
    assert_eq!(active["metadata"]["uid"], standby["metadata"]["uid"]);
    assert_eq!(counts(&world), (1, 0));
    assert!(active["metadata"]["annotations"][ACTIVATED_AT].is_string());
    assert_ne!(active["spec"]["runPolicy"], "AlwaysOff");
    set_phase(&world, &active, "Running");
    world.calm().await;
    world.take_writes();
    world.advance(30 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "nothing is written at rest");
}

#[tokio::test]
async fn a_lost_activation_adds_no_second_machine() {
    for outcome in [Fate::ResponseLost, Fate::Unreachable] {
        let world = with_standby(2).await;
        let mut lost = Some(outcome);
        world.server.intercept(move |call| {
            let is_patch = matches!(call.verb, Verb::Patch(_)) && call.resource == MACHINES;
            lost.take_if(|_| is_patch).unwrap_or(Fate::Serve)
        });
        // The watch does not show the result.
        world.server.hold(MACHINES);
        world.scale(1);
        world.advance(20 * SECOND).await;
        let active = counts(&world).0;
        assert!(active <= 1, "{active} machines are active");
        world.server.release();
        world.advance(60 * SECOND).await;
        assert_eq!(counts(&world).0, 1);
    }
}

#[tokio::test]
async fn after_a_refused_activation_a_machine_is_created() {
    let world = with_standby(1).await;
    let standby = world.machines().remove(0);
    world.server.intercept(|call| {
        if matches!(call.verb, Verb::Patch(_)) && call.resource == MACHINES {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no"));
        }
        Fate::Serve
    });
    world.scale(1);
    world.advance(10 * SECOND).await;
    assert_eq!(counts(&world), (1, 1));
    let left = world.server.get(MACHINES, name(&standby)).unwrap();
    assert!(is_standby(&left));
}

#[tokio::test]
async fn without_the_feature_gate_no_machine_is_kept() {
    let mut world = LeaderWorld::new();
    let mut pool = pool_manifest("web", 1);
    pool["spec"]["standby"] = json!({ "replicas": 2 });
    world.server.create(POOLS, pool);
    world.lead();
    world.calm().await;
    assert_eq!(counts(&world), (1, 0));
}

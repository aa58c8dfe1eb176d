//! Labels of machines that join or leave a pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{count_patches, is_patch};
use crate::testing::{Call, Conduct, Fate, LeaderWorld, Refusal, Verb, machine_names};

const MACHINES: &str = "virtualmachines";

#[tokio::test]
async fn a_machine_that_has_its_owner_again_is_not_released() {
    let world = LeaderWorld::with_pool(2).await;
    let machine = world.machines().remove(0);
    let name = machine_names(std::slice::from_ref(&machine)).remove(0);
    let owners = machine["metadata"]["ownerReferences"].clone();
    let (server, victim) = (world.server.clone(), name.clone());
    world.server.intercept(move |call| {
        if call.is(Verb::Get, MACHINES) && *call.name == *victim {
            let owners = owners.clone();
            server.edit(MACHINES, &victim, |machine| machine["metadata"]["ownerReferences"] = owners);
        }
        Fate::Serve
    });
    world.server.edit(MACHINES, &name, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.calm().await;
    let writes = world.take_writes();
    assert!(!writes.iter().any(|call| is_patch(call, MACHINES)), "it keeps its labels: {writes:?}");
    assert_eq!(world.machines().len(), 2, "the replacement is the surplus");
}

#[tokio::test]
async fn a_released_machine_gets_no_labels_back() {
    let world = LeaderWorld::with_pool(1).await;
    let name = machine_names(&world.machines()).remove(0);
    let (server, victim) = (world.server.clone(), name.clone());
    world.server.intercept(move |call| {
        if call.is(Verb::Get, MACHINES) && *call.name == *victim {
            server.edit(MACHINES, &victim, |machine| machine["metadata"]["ownerReferences"] = json!([]));
        }
        Fate::Serve
    });
    world.server.hold("virtualmachinepools");
    world.server.edit(MACHINES, &name, |machine| machine["metadata"]["labels"] = json!({ "role": "kept" }));
    world.calm().await;
    let machine = world.server.get(MACHINES, &name).unwrap();
    assert_eq!(machine["metadata"]["labels"], json!({ "role": "kept" }));
    let sets_labels = |call: &Call| {
        let labels = call.body["metadata"]["labels"].as_object();
        let adds = |operation: &Value| {
            operation["op"] == "add" && operation["path"].as_str().unwrap().starts_with("/metadata/labels")
        };
        is_patch(call, MACHINES)
            && (labels.is_some_and(|labels| labels.values().any(Value::is_string))
                || call.body.as_array().is_some_and(|operations| operations.iter().any(adds)))
    };
    let writes = world.take_writes();
    assert!(!writes.iter().any(sets_labels), "{writes:?}");
}

#[tokio::test]
async fn a_rejected_label_does_not_delay_creates() {
    let world = LeaderWorld::with_pool(2).await;
    world.server.intercept(|call| {
        if is_patch(call, MACHINES) {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "labels are protected"));
        }
        Fate::Serve
    });
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit(MACHINES, &name, |machine| {
        machine["metadata"]["labels"].as_object_mut().unwrap().retain(|label, _| !label.ends_with("/pool"));
    });
    world.scale(4);
    // The first pass begins after the debounce, and the backoff of the label is longer than the rest of this
    // time.
    world.advance(Duration::from_millis(200)).await;
    let writes = world.take_writes();
    assert_eq!(count_patches(&writes, MACHINES), 1, "{writes:?}");
    assert_eq!(world.machines().len(), 4, "{writes:?}");
    // A later pass would create them, too: the status shows the end of the pass that was refused the label.
    let first = |verb: Verb, what: &str| writes.iter().position(|call| call.is(verb, what));
    let status = writes.iter().position(|call| call.subresource == "status");
    assert!(first(Verb::Create, MACHINES) < status, "{writes:?}");
    world.calm().await;
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "FailedRepair");
}

/// Removes the owner references of all machines.
fn take_machines(world: &LeaderWorld) {
    for machine in world.machines() {
        let name = machine["metadata"]["name"].as_str().unwrap().to_owned();
        world.server.edit(MACHINES, &name, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    }
}

/// The response to the last create came too late, so its failure is the last one of a write. The machine was
/// created, and taken away.
#[tokio::test]
async fn the_reason_of_a_stopped_pool_is_not_that_of_an_earlier_write() {
    let world = LeaderWorld::with_pool(2).await;
    let creates = Arc::new(AtomicUsize::new(0));
    let sent = creates.clone();
    world.server.intercept(move |call| match call.is(Verb::Create, MACHINES) {
        true if sent.fetch_add(1, Ordering::Relaxed) == 0 => Fate::ServeAndHang,
        true => Fate::Hang,
        false => Fate::Serve,
    });
    take_machines(&world);
    world.advance(Duration::from_secs(20)).await;
    assert_eq!(world.machines().len(), 3, "one machine was created late");
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "FailedCreate");
    take_machines(&world);
    world.advance(Duration::from_mins(1)).await;
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "MachineLost", "{failure}");
}

#[tokio::test]
async fn a_machine_whose_dry_run_was_slow_is_not_created_for_an_outdated_count() {
    let world = LeaderWorld::with_pool(1).await;
    for _ in 0..10 {
        take_machines(&world);
        world.advance(Duration::from_secs(20)).await;
    }
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "MachineLost");
    let began = Arc::new(AtomicUsize::new(0));
    let dry_runs = began.clone();
    world.server.intercept(move |call| {
        let is_slow = call.is(Verb::Create, MACHINES) && call.is_dry();
        dry_runs.fetch_add(usize::from(is_slow), Ordering::Relaxed);
        let before = if is_slow { Duration::from_secs(6) } else { Duration::ZERO };
        Conduct { before, outcome: Fate::Serve, after: Duration::ZERO }
    });
    for _ in 0..1000 {
        if began.load(Ordering::Relaxed) == 1 {
            break;
        }
        world.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(began.load(Ordering::Relaxed), 1, "the pool tries one machine after a while");
    world.scale(0);
    world.server.take_log();
    world.advance(Duration::from_mins(1)).await;
    let created = |call: &Call| call.is(Verb::Create, MACHINES) && !call.is_dry();
    assert!(!world.server.take_log().iter().any(created));
}

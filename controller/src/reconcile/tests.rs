//! Stories of a whole leader on a server in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use serde_json::{Value, json};
use vmpool_engine::numbers::Namer;
use vmpool_runtime::testing::{end, fence_for};

use crate::testing::{Call, Fault, NAMESPACE, Verb, World, machine_names, pool, refusal};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn count(calls: &[Call], verb: Verb, resource: &str) -> usize {
    calls.iter().filter(|call| call.is(verb, resource)).count()
}

/// Every machine of `web` has its root disk, and owns it.
fn assert_units_are_complete(world: &World) {
    let machines = world.machines();
    for machine in &machines {
        let name = machine["spec"]["blockDeviceRefs"][0]["name"].as_str().unwrap();
        let disk = world.server.get("virtualdisks", name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(disk["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"]);
    }
    assert_eq!(world.disks().len(), machines.len());
}

#[tokio::test]
async fn a_new_machine_costs_one_write_and_one_for_each_of_its_disks() {
    let mut world = World::new();
    world.server.create("virtualmachinepools", pool("web", 3));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Create, "virtualmachines"), 3);
    assert_eq!(count(&writes, Verb::Create, "virtualdisks"), 3);
    assert_eq!(count(&writes, Verb::MergePatch, "virtualmachinepools"), 1, "the block of numbers");
    let others: Vec<_> = writes.iter().filter(|call| call.subresource != "status").skip(7).collect();
    assert!(others.is_empty(), "{others:?}");

    world.scale(5);
    world.calm().await;
    let writes: Vec<_> =
        world.take_writes().into_iter().filter(|call| call.subresource != "status").collect();
    assert_eq!(writes.len(), 4, "two machines with their disks, from the open block: {writes:?}");
}

#[tokio::test]
async fn a_settled_world_costs_no_request_at_all() {
    let world = World::with_pool(3).await;
    assert_eq!(world.condition("Available").unwrap()["status"], "True");
    world.advance(Duration::from_secs(60)).await;
    let requests: Vec<String> = world.server.take_log().iter().map(ToString::to_string).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn the_status_follows_the_machines_and_is_written_at_most_once_a_second() {
    let mut world = World::new();
    world.server.create("virtualmachinepools", pool("web", 4));
    world.lead();
    world.calm().await;
    world.take_writes();
    for name in machine_names(&world.machines()) {
        world.server.edit("virtualmachines", &name, |machine| machine["status"]["phase"] = json!("Running"));
        world.advance(Duration::from_millis(300)).await;
    }
    world.calm().await;
    assert_eq!(world.status()["readyReplicas"], 4);
    let writes = world.take_writes();
    assert!(writes.iter().all(|call| call.subresource == "status"), "{writes:?}");
    assert!((2..=3).contains(&writes.len()), "{writes:?}");
}

#[tokio::test]
async fn the_surplus_leaves_and_takes_its_disks_along() {
    let world = World::with_pool(3).await;
    world.scale(1);
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    world.server.collect_garbage();
    world.calm().await;
    assert_units_are_complete(&world);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Delete, "virtualmachines"), 2);
    for delete in writes.iter().filter(|call| call.verb == Verb::Delete) {
        assert!(delete.body["preconditions"]["uid"].is_string(), "{:?}", delete.body);
    }
    assert_eq!(world.status()["replicas"], 1);
    assert_eq!(world.condition("Progressing"), None);
}

#[tokio::test]
async fn a_machine_deleted_by_hand_is_replaced_once_and_only_after_it_is_gone() {
    let world = World::with_pool(2).await;
    let victim = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &victim, |machine| {
        machine["metadata"]["finalizers"] = json!(["vm-cleanup"]);
    });
    world.server.delete("virtualmachines", &victim);
    world.calm().await;
    assert_eq!(world.machines().len(), 2, "the one that leaves still counts");
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualmachines"), 0);

    world.server.edit("virtualmachines", &victim, |machine| machine["metadata"]["finalizers"] = json!([]));
    world.server.delete("virtualmachines", &victim);
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(!machine_names(&world.machines()).contains(&victim), "a name does not return");
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualmachines"), 1);
}

#[tokio::test]
async fn a_lost_answer_to_a_create_ends_with_exactly_the_desired_number() {
    let mut world = World::new();
    let mut lost = 2;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && lost > 0 {
            lost -= 1;
            return Fault::AnswerLost;
        }
        Fault::None
    });
    // The watch does not help: what was committed must be found out by asking again.
    world.server.hold("virtualmachines");
    world.server.create("virtualmachinepools", pool("web", 3));
    world.lead();
    world.advance(SECOND * 20).await;
    assert_eq!(world.machines().len(), 3);
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_request_that_never_arrived_is_repeated_under_the_same_name() {
    let mut world = World::new();
    let mut refused = 1;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && refused > 0 {
            refused -= 1;
            return Fault::Unreachable;
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 1));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    assert_units_are_complete(&world);
    let log = world.take_writes();
    let names: Vec<&str> =
        log.iter().filter(|call| call.is(Verb::Create, "virtualmachines")).map(|call| &*call.name).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], names[1]);
}

#[tokio::test]
async fn a_lost_answer_to_a_delete_makes_nobody_else_leave() {
    let world = World::with_pool(3).await;
    world.server.hold("virtualmachines");
    let mut lost = 1;
    world.server.intercept(move |call| {
        if call.verb == Verb::Delete && lost > 0 {
            lost -= 1;
            return Fault::AnswerLost;
        }
        Fault::None
    });
    world.scale(2);
    world.calm().await;
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn a_disk_that_could_not_be_created_comes_before_the_next_machine() {
    let mut world = World::new();
    let mut failures = 3;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualdisks") && failures > 0 {
            failures -= 1;
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "no storage left"));
        }
        Fault::None
    });
    world.settings.writes_in_flight = 1;
    world.server.create("virtualmachinepools", pool("web", 3));
    world.lead();
    world.advance(SECOND / 10).await;
    assert_eq!(world.machines().len(), 1, "the batch stops at the first failure");
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    let order: Vec<String> = world
        .take_writes()
        .iter()
        .filter(|call| call.verb == Verb::Create)
        .map(|call| call.resource.clone())
        .collect();
    let disk = "virtualdisks";
    assert_eq!(order[..5], ["virtualmachines", disk, disk, disk, disk], "{order:?}");
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_full_quota_costs_one_request_per_try_with_growing_pauses() {
    let mut world = World::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "exceeded quota: machines"));
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 100));
    world.lead();
    world.advance(SECOND / 10).await;
    let first = count(&world.server.take_log(), Verb::Create, "virtualmachines");
    assert!((1..=world.settings.writes_in_flight).contains(&first), "{first}");
    world.advance(SECOND * 60).await;
    let log = world.server.take_log();
    // 0.25 + 0.5 + ... + 32 seconds are 63.75, less up to a tenth.
    assert_eq!(count(&log, Verb::Create, "virtualmachines"), 8);
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedCreate");
    assert!(failure["message"].as_str().unwrap().contains("exceeded quota"), "{failure}");
    let warnings: Vec<Value> = world.server.all("events");
    assert!(warnings.iter().any(|event| event["reason"] == "FailedCreate" && event["type"] == "Warning"));

    world.server.behave();
    world.advance(SECOND * 65).await;
    world.calm().await;
    assert_eq!(world.machines().len(), 100);
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert_units_are_complete(&world);
}

#[tokio::test]
async fn an_edit_of_the_spec_ends_the_pause_after_a_failure() {
    let mut world = World::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "bad template"));
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 2));
    world.lead();
    world.advance(SECOND * 40).await;
    world.server.behave();
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["osType"] = json!("Windows");
    });
    world.advance(SECOND).await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn writes_in_flight_are_bounded_over_all_pools() {
    let mut world = World::new();
    world.settings.writes_in_flight = 5;
    // A slow server, so that whatever may pile up does.
    world.server.intercept(|call| if call.is_write() { Fault::Slow(SECOND / 10) } else { Fault::None });
    for name in ["a", "b", "c"] {
        world.server.create("virtualmachinepools", pool(name, 10));
    }
    world.lead();
    world.advance(SECOND * 10).await;
    assert_eq!(world.machines().len(), 30);
    assert_eq!(world.server.most_in_flight(), 5);
}

#[tokio::test]
async fn a_leader_whose_lease_is_lost_half_way_sends_no_further_write() {
    let mut world = World::new();
    world.settings.writes_in_flight = 1;
    let fence = world.fence.clone();
    let mut created = 0;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") {
            created += 1;
            if created == 3 {
                end(&fence);
            }
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 10));
    world.lead();
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.disks().len(), 2, "not even the disk of the third");
    let log = world.server.take_log();
    let last = log.iter().rposition(Call::is_write).unwrap();
    assert!(log[last].is(Verb::Create, "virtualmachines"), "{}", log[last]);
}

#[tokio::test]
async fn a_pool_that_met_a_short_lease_is_tried_again_soon() {
    let mut world = World::new();
    // Valid for longer than the story, and never long enough for a write.
    world.fence = fence_for(&world.env, SECOND * 60);
    world.settings.request_deadline = SECOND * 120;
    world.server.create("virtualmachinepools", pool("web", 1));
    world.lead();
    world.calm().await;
    let log = world.server.take_log();
    assert!(log.iter().all(|call| !call.is_write()), "{log:?}");
    let tries = count(&log, Verb::Get, "virtualmachinepools");
    assert!((3..=20).contains(&tries), "{tries}");
}

#[tokio::test]
async fn a_repair_that_met_a_short_lease_is_tried_again_soon() {
    let mut world = World::with_pool(1).await;
    world.kill_leader().await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &name, |machine| {
        // The revision stays, so that the status has nothing new to say.
        let labels = machine["metadata"]["labels"].as_object_mut().unwrap();
        labels.retain(|key, _| key.ends_with("template-hash"));
    });
    world.fence = fence_for(&world.env, SECOND * 60);
    world.settings.request_deadline = SECOND * 120;
    world.lead();
    world.calm().await;
    let log = world.server.take_log();
    assert!(log.iter().all(|call| !call.is_write()), "{log:?}");
    let tries = count(&log, Verb::Get, "virtualmachines");
    assert!((3..=20).contains(&tries), "{tries}");
}

#[tokio::test]
async fn a_successor_of_a_killed_leader_neither_repeats_nor_forgets() {
    let mut world = World::new();
    world.settings.writes_in_flight = 2;
    world.server.intercept(|call| if call.is_write() { Fault::Slow(SECOND / 10) } else { Fault::None });
    world.server.create("virtualmachinepools", pool("web", 20));
    world.lead();
    world.advance(SECOND).await;
    let before = world.machines().len();
    assert!((1..20).contains(&before), "{before}");
    world.kill_leader().await;
    world.lead();
    world.advance(SECOND * 10).await;
    assert_eq!(world.machines().len(), 20);
    assert_units_are_complete(&world);
}

#[tokio::test]
async fn a_late_request_of_a_predecessor_makes_no_twin() {
    let mut world = World::new();
    let written = world.server.create("virtualmachinepools", pool("web", 2));
    // The predecessor opened a block and died while its first create was under way.
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["metadata"]["annotations"] = json!({ "vmpool.virtualization.deckhouse.io/names": "0-64" });
    });
    let uid = written["metadata"]["uid"].as_str().unwrap();
    let name = Namer::new(&"web".into(), &uid.into()).name(0);
    let late = world.server.clone();
    let (owner, late_name) = (uid.to_owned(), name.clone());
    let arrived = AtomicUsize::new(0);
    world.server.hold("virtualmachines");
    world.server.intercept(move |call| {
        // It arrives just before the successor's own create.
        if call.is(Verb::Create, "virtualmachines") && arrived.fetch_add(1, Ordering::Relaxed) == 0 {
            let (late, body) = (late.clone(), machine_of(&late_name, &owner));
            return Fault::After(Box::new(move || drop(late.create("virtualmachines", body))));
        }
        Fault::None
    });
    world.lead();
    world.advance(SECOND * 10).await;
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(machine_names(&world.machines()).contains(&name));
    assert_units_are_complete(&world);
}

/// A member as a predecessor wrote it.
fn machine_of(name: &str, pool_uid: &str) -> Value {
    let disk = format!("{name}-root");
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachine",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {
                "vmpool.virtualization.deckhouse.io/pool": "web",
                "vmpool.virtualization.deckhouse.io/pool-uid": pool_uid,
            },
            "annotations": {
                "vmpool.virtualization.deckhouse.io/disks": json!({ "root": disk }).to_string(),
            },
            "ownerReferences": [{
                "apiVersion": "virtualization.deckhouse.io/v1alpha2",
                "kind": "VirtualMachinePool",
                "name": "web",
                "uid": pool_uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": disk }] },
    })
}

#[tokio::test]
async fn before_it_creates_it_asks_for_the_count_that_is_wanted_now() {
    let world = World::with_pool(3).await;
    // Somebody lowers the count and removes a machine; the cache shows only the second.
    world.server.hold("virtualmachinepools");
    world.scale(2);
    world.server.delete("virtualmachines", &machine_names(&world.machines())[0]);
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    let writes = world.take_writes();
    assert_eq!(count(&writes, Verb::Create, "virtualmachines"), 0, "{writes:?}");
    assert_eq!(count(&writes, Verb::Delete, "virtualmachines"), 0, "{writes:?}");
}

#[tokio::test]
async fn before_it_deletes_it_asks_for_the_count_that_is_wanted_now() {
    let world = World::with_pool(3).await;
    // The count goes down and up again, and the watch shows the first half when it is over.
    world.server.hold("virtualmachinepools");
    world.scale(1);
    world.server.release();
    world.server.hold("virtualmachinepools");
    world.scale(3);
    world.calm().await;
    assert_eq!(count(&world.take_writes(), Verb::Delete, "virtualmachines"), 0);
    assert_eq!(world.machines().len(), 3);
}

#[tokio::test]
async fn a_pool_of_the_same_name_that_came_after_is_another_pool() {
    let world = World::with_pool(2).await;
    let old = world.machines();
    world.server.hold("virtualmachinepools");
    world.server.delete("virtualmachinepools", "web");
    world.server.create("virtualmachinepools", pool("web", 1));
    world.server.delete("virtualmachines", &machine_names(&old)[0]);
    world.calm().await;
    assert_eq!(world.machines().len(), 1, "no machine is created for a pool that is gone");
    world.server.release();
    world.server.collect_garbage();
    world.calm().await;
    let new = world.machines();
    assert_eq!(new.len(), 1);
    assert!(!machine_names(&old).contains(&machine_names(&new)[0]));
    assert_units_are_complete(&world);
}

#[tokio::test]
async fn a_foreign_disk_under_the_name_of_a_members_disk_is_left_alone() {
    let mut world = World::new();
    let written = world.server.create("virtualmachinepools", pool("web", 1));
    let uid = written["metadata"]["uid"].as_str().unwrap();
    let machine = Namer::new(&"web".into(), &uid.into()).name(0);
    // It comes so late that the choice of the name does not see it.
    let foreign = format!("{machine}-root");
    let body = json!({ "metadata": { "name": foreign, "namespace": NAMESPACE }, "spec": { "mine": true } });
    let (server, mut waits) = (world.server.clone(), true);
    world.server.hold("virtualdisks");
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && std::mem::take(&mut waits) {
            let (server, body) = (server.clone(), body.clone());
            return Fault::After(Box::new(move || drop(server.create("virtualdisks", body))));
        }
        Fault::None
    });
    world.lead();
    world.calm().await;
    let before = world.server.get("virtualdisks", &foreign).unwrap();
    world.server.release();
    world.calm().await;

    let devices = &world.server.get("virtualmachines", &machine).unwrap()["spec"]["blockDeviceRefs"];
    assert_eq!(*devices, json!([{ "kind": "VirtualDisk", "name": format!("{foreign}-2") }]));
    let map = &world.machines()[0]["metadata"]["annotations"]["vmpool.virtualization.deckhouse.io/disks"];
    assert_eq!(map.as_str().unwrap(), json!({ "root": format!("{foreign}-2") }).to_string());
    assert_eq!(world.server.get("virtualdisks", &foreign).unwrap(), before);
    let own = world.server.get("virtualdisks", &format!("{foreign}-2")).unwrap();
    assert_eq!(own["metadata"]["ownerReferences"][0]["name"], *machine);
    assert_eq!(world.machines().len(), 1);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_foreign_machine_that_has_the_next_name_is_left_alone() {
    let mut world = World::new();
    let written = world.server.create("virtualmachinepools", pool("web", 1));
    let uid = written["metadata"]["uid"].as_str().unwrap();
    let name = Namer::new(&"web".into(), &uid.into()).name(0);
    world.server.hold("virtualmachines");
    let server = world.server.clone();
    let body = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": {} });
    let mut first = true;
    let foreign_name = name.clone();
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && std::mem::take(&mut first) {
            assert_eq!(call.name, foreign_name);
            let (server, body) = (server.clone(), body.clone());
            return Fault::After(Box::new(move || drop(server.create("virtualmachines", body))));
        }
        Fault::None
    });
    world.lead();
    world.calm().await;
    world.server.release();
    world.calm().await;
    let members: Vec<Value> = world
        .machines()
        .into_iter()
        .filter(|machine| !machine["metadata"]["ownerReferences"].is_null())
        .collect();
    assert_eq!(members.len(), 1);
    assert_ne!(members[0]["metadata"]["name"], *name);
    assert_eq!(world.machines().len(), 2);
    assert_eq!(world.status()["replicas"], 1);
}

#[tokio::test]
async fn a_member_that_lost_its_labels_gets_them_back() {
    let world = World::with_pool(2).await;
    let name = machine_names(&world.machines()).remove(0);
    let before = world.server.get("virtualmachines", &name).unwrap();
    world.server.edit("virtualmachines", &name, |machine| {
        let labels = machine["metadata"]["labels"].as_object_mut().unwrap();
        labels.retain(|key, _| key.ends_with("template-hash"));
    });
    world.calm().await;
    let after = world.server.get("virtualmachines", &name).unwrap();
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(world.machines().len(), 2);
    assert_eq!(count(&world.take_writes(), Verb::MergePatch, "virtualmachines"), 1);
}

#[tokio::test]
async fn a_member_that_lost_its_owner_is_released_and_replaced() {
    let world = World::with_pool(2).await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &name, |machine| {
        machine["metadata"]["ownerReferences"] = json!([]);
        machine["metadata"]["labels"]["role"] = json!("kept");
    });
    world.calm().await;
    let released = world.server.get("virtualmachines", &name).unwrap();
    assert_eq!(released["metadata"]["labels"], json!({ "role": "kept" }));
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.status()["replicas"], 2);
}

#[tokio::test]
async fn a_missing_disk_of_a_member_is_created_again() {
    let world = World::with_pool(2).await;
    let disk = machine_names(&world.disks()).remove(0);
    world.server.delete("virtualdisks", &disk);
    world.calm().await;
    assert_units_are_complete(&world);
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualdisks"), 1);
    assert!(world.server.all("events").iter().any(|event| event["reason"] == "DiskCreated"));
}

#[tokio::test]
async fn an_explicit_pool_shrinks_by_nobody() {
    let world = World::with_pool(3).await;
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["scaleDownPolicy"] = json!("Explicit");
        pool["spec"]["replicas"] = json!(1);
    });
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.condition("Progressing").unwrap()["status"], "True");
}

#[tokio::test]
async fn a_pool_that_is_being_deleted_is_not_touched() {
    let world = World::with_pool(2).await;
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    world.server.delete("virtualmachinepools", "web");
    for name in machine_names(&world.machines()) {
        world.server.delete("virtualmachines", &name);
    }
    world.calm().await;
    let writes = world.take_writes();
    assert!(writes.is_empty(), "{writes:?}");
    assert!(world.machines().is_empty());
}

#[tokio::test]
async fn somebody_elses_condition_stays_in_the_status() {
    let world = World::with_pool(1).await;
    let foreign = json!({
        "type": "BackedUp", "status": "True", "reason": "Nightly", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["status"]["conditions"].as_array_mut().unwrap().push(foreign.clone());
    });
    world.scale(2);
    world.calm().await;
    assert_eq!(world.condition("BackedUp"), Some(foreign));
    assert_eq!(world.status()["replicas"], 2);
}

#[tokio::test]
async fn shutdown_finishes_the_pass_that_has_begun() {
    let mut world = World::new();
    world.settings.writes_in_flight = 1;
    world.server.intercept(|call| if call.is_write() { Fault::Slow(SECOND / 10) } else { Fault::None });
    world.server.create("virtualmachinepools", pool("web", 10));
    world.lead();
    world.advance(SECOND / 2).await;
    world.stop.cancel();
    world.advance(SECOND / 10).await;
    assert!(!world.leader_ended());
    world.advance(SECOND * 5).await;
    assert!(world.leader_ended());
    assert_eq!(world.machines().len(), 10);
    assert_units_are_complete(&world);
}

#[tokio::test]
async fn a_leader_is_ready_when_its_caches_are_and_a_standby_always() {
    let mut world = World::new();
    assert_eq!(world.vitals.synced(), Ok(()));
    world.server.intercept(|call| if call.verb == Verb::List { Fault::Slow(SECOND) } else { Fault::None });
    world.lead();
    world.advance(SECOND / 2).await;
    assert!(world.vitals.synced().is_err());
    world.advance(SECOND * 2).await;
    assert_eq!(world.vitals.synced(), Ok(()));
}

#[tokio::test]
async fn a_leader_that_lost_the_lease_leaves_no_stuck_workers_behind() {
    let mut world = World::new();
    world.lead();
    world.calm().await;
    assert_eq!(world.vitals.working(SECOND * 30), Ok(()));
    world.kill_leader().await;
    world.advance(SECOND * 60).await;
    assert_eq!(world.vitals.working(SECOND * 30), Ok(()), "nobody works, so nobody can be stuck");
    assert_eq!(world.vitals.synced(), Ok(()));
}

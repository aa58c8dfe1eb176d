//! Other clients write at the same time: to the pool, to its machines, or objects with names that the pool
//! needs.

use serde_json::{Value, json};
use vmpool_engine::scale_up::names::Namer;

use super::{SECOND, assert_units_are_complete, count, count_patches};
use crate::testing::{
    Call, Fate, JSON_PATCH, LeaderWorld, NAMESPACE, RecordingApiServer, Refusal, Verb, machine_names,
    pool_manifest,
};

#[tokio::test]
async fn the_pool_is_read_live_before_a_create() {
    let world = LeaderWorld::with_pool(3).await;
    // A user lowers the count and deletes a machine. The cache shows only the deletion.
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
async fn the_pool_is_read_live_before_a_delete() {
    let world = LeaderWorld::with_pool(3).await;
    // The count is lowered and raised again. The watch shows the lower count afterwards.
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
async fn a_later_pool_of_the_same_name_is_another_pool() {
    let world = LeaderWorld::with_pool(2).await;
    let old = world.machines();
    world.server.hold("virtualmachinepools");
    world.server.delete("virtualmachinepools", "web");
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
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
async fn a_status_that_the_watch_does_not_show_yet_is_written_once() {
    let world = LeaderWorld::with_pool(2).await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.hold("virtualmachinepools");
    let phase =
        |phase: &str| world.server.edit("virtualmachines", &name, |it| it["status"]["phase"] = json!(phase));
    phase("Pending");
    world.calm().await;
    assert_eq!(world.take_writes().len(), 1, "one machine is not ready, and the status says so");
    // The status does not change in the next passes.
    for other in ["Stopped", "Pending", "Stopped"] {
        phase(other);
        world.calm().await;
    }
    assert_eq!(world.take_writes().len(), 0);
}

/// A leader must point the only machine of `web` to another disk, because another client's disk has the name.
/// `meddle` runs before the first patch arrives.
async fn repointing(
    mut meddle: impl FnMut(&RecordingApiServer, &Call) -> Fate + Send + 'static,
) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    let written = world.server.create("virtualmachinepools", pool_manifest("web", 1));
    let uid = written["metadata"]["uid"].as_str().unwrap();
    let foreign = format!("{}-root", Namer::new(&"web".into(), &uid.into()).name(0));
    let body = json!({ "metadata": { "name": foreign, "namespace": NAMESPACE }, "spec": {} });
    let (server, mut waits) = (world.server.clone(), true);
    world.server.hold("virtualdisks");
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && std::mem::take(&mut waits) {
            server.create("virtualdisks", body.clone());
        }
        if call.is(JSON_PATCH, "virtualmachines") { meddle(&server, call) } else { Fate::Serve }
    });
    world.lead();
    world.calm().await;
    world.server.release();
    world.calm().await;
    world
}

#[tokio::test]
async fn a_machine_that_changes_during_a_repoint_is_planned_again() {
    let mut first = true;
    let world = repointing(move |server, call| {
        if std::mem::take(&mut first) {
            server.edit("virtualmachines", &call.name, |machine| {
                let map = "vmpool.virtualization.deckhouse.io/disks";
                let spaced = machine["metadata"]["annotations"][map].as_str().unwrap().replace(':', ": ");
                machine["metadata"]["annotations"][map] = json!(spaced);
            });
        }
        Fate::Serve
    })
    .await;
    let device = world.machines()[0]["spec"]["blockDeviceRefs"][0]["name"].clone();
    assert!(device.as_str().unwrap().ends_with("-root-2"), "{device}");
    let page = world.metrics.page();
    assert!(page.contains("vmpool_writes_total{kind=\"patch_machine\",outcome=\"refused\"} 1\n"), "{page}");
    assert!(page.contains("vmpool_failures_total{reason=\"DiskFailure\"} 0\n"), "{page}");
}

#[tokio::test]
async fn a_rejected_repoint_is_a_failure_with_backoff() {
    let world = repointing(|_, _| Fate::Refuse(Refusal::new(422, "Invalid", "blockDeviceRefs: no"))).await;
    let patches = count(&world.take_writes(), JSON_PATCH, "virtualmachines");
    assert!((2..=6).contains(&patches), "{patches}");
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "DiskFailure");
}

#[tokio::test]
async fn a_foreign_disk_with_the_name_of_a_machines_disk_is_unchanged() {
    let mut world = LeaderWorld::new();
    let written = world.server.create("virtualmachinepools", pool_manifest("web", 1));
    let uid = written["metadata"]["uid"].as_str().unwrap();
    let machine = Namer::new(&"web".into(), &uid.into()).name(0);
    // The disk is created after the name was chosen.
    let foreign = format!("{machine}-root");
    let body = json!({ "metadata": { "name": foreign, "namespace": NAMESPACE }, "spec": { "mine": true } });
    let (server, mut waits) = (world.server.clone(), true);
    world.server.hold("virtualdisks");
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && std::mem::take(&mut waits) {
            server.create("virtualdisks", body.clone());
        }
        Fate::Serve
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
async fn a_foreign_machine_with_the_next_name_is_unchanged() {
    let mut world = LeaderWorld::new();
    let written = world.server.create("virtualmachinepools", pool_manifest("web", 1));
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
            server.create("virtualmachines", body.clone());
        }
        Fate::Serve
    });
    world.lead();
    world.calm().await;
    world.server.release();
    world.calm().await;
    let machines: Vec<Value> = world
        .machines()
        .into_iter()
        .filter(|machine| !machine["metadata"]["ownerReferences"].is_null())
        .collect();
    assert_eq!(machines.len(), 1);
    assert_ne!(machines[0]["metadata"]["name"], *name);
    assert_eq!(world.machines().len(), 2);
    assert_eq!(world.status()["replicas"], 1);
}

#[tokio::test]
async fn a_machine_that_lost_its_labels_gets_them_back() {
    let world = LeaderWorld::with_pool(2).await;
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
    assert_eq!(count_patches(&world.take_writes(), "virtualmachines"), 1);
}

#[tokio::test]
async fn a_machine_that_lost_its_owner_is_released_and_replaced() {
    let world = LeaderWorld::with_pool(2).await;
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
async fn a_missing_disk_of_a_machine_is_created_again() {
    let world = LeaderWorld::with_pool(2).await;
    let disk = machine_names(&world.disks()).remove(0);
    world.server.delete("virtualdisks", &disk);
    world.calm().await;
    assert_units_are_complete(&world);
    assert_eq!(count(&world.take_writes(), Verb::Create, "virtualdisks"), 1);
    assert!(world.server.all("events").iter().any(|event| event["reason"] == "DiskCreated"));
}

#[tokio::test]
async fn a_pool_that_is_being_deleted_is_not_changed() {
    let world = LeaderWorld::with_pool(2).await;
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
async fn conditions_of_other_controllers_stay_in_the_status() {
    let world = LeaderWorld::with_pool(1).await;
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

/// Another controller that overwrites every status of this controller with its own.
fn interfere(world: &LeaderWorld) -> bool {
    let ours = world.status()["selector"].is_string() && world.status()["desiredTemplateHash"] != "5d3c9a41";
    if ours {
        world.server.edit("virtualmachinepools", "web", |pool| {
            pool["status"] =
                json!({ "observedGeneration": 1, "replicas": 2, "desiredTemplateHash": "5d3c9a41" });
        });
    }
    ours
}

#[tokio::test]
async fn a_pool_whose_status_another_client_overwrites_is_not_changed_until_that_ends() {
    let world = LeaderWorld::with_pool(2).await;
    let mut answers = 0;
    for _ in 0..20 {
        answers += usize::from(interfere(&world));
        world.advance(SECOND * 2).await;
    }
    assert!((3..=5).contains(&answers), "this controller still writes the status, but rarely: {answers}");
    world.server.take_log();
    world.scale(5);
    let victim = machine_names(&world.machines()).remove(0);
    world.server.delete("virtualmachines", &victim);
    world.advance(SECOND * 60).await;
    assert_eq!(world.machines().len(), 1, "no machine is replaced");
    assert!(world.take_writes().iter().all(|call| call.subresource == "status"));
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "StatusDisputed");
    assert!(world.metrics.page().contains("vmpool_pools{state=\"disputed\"} 1"));

    world.advance(SECOND * 240).await;
    assert_eq!(world.machines().len(), 5, "the other one is gone");
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_manual_edit_of_the_status_is_overwritten_and_stops_nothing() {
    let world = LeaderWorld::with_pool(2).await;
    assert!(interfere(&world));
    world.scale(3);
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.status()["replicas"], 3);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

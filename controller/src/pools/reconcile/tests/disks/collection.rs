//! Garbage collection of free disks, and the uses that prevent it.

use serde_json::{Value, json};

use super::super::{SECOND, count};
use super::{MINUTE, annotation, device, events, names, run, shows, work, world};
use crate::testing::{Fate, LeaderWorld, NAMESPACE, Refusal, Verb};

#[tokio::test]
async fn an_idle_pool_deletes_a_disk_that_was_free_for_too_long_in_two_steps() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    world.advance(MINUTE * 9).await;
    assert!(work(&world).is_empty());
    world.advance(MINUTE).await;
    let writes = work(&world);
    assert_eq!(writes.len(), 1, "the mark is the only write: {writes:?}");
    assert!(annotation(&world.disks()[0], "collecting-since").is_some());
    shows(&world, "vmpool_disks{state=\"collecting\"} 1");
    shows(&world, "vmpool_disks_without_ttl 0");

    let version = world.disks()[0]["metadata"]["resourceVersion"].clone();
    world.server.take_log();
    world.advance(SECOND * 35).await;
    assert!(world.disks().is_empty());
    let log = world.server.take_log();
    let delete = log.iter().position(|call| call.is(Verb::Delete, "virtualdisks")).unwrap();
    let body = &log[delete].body["preconditions"];
    assert!(body["uid"].is_string() && body["resourceVersion"] == version, "{body}");
    // Before the deletion, possible users of the disk are read from the server and not from a cache.
    for resource in ["virtualmachines", "virtualmachineblockdeviceattachments"] {
        let look = log.iter().position(|call| call.is(Verb::List, resource) && call.namespace == NAMESPACE);
        assert!(look.is_some_and(|look| look < delete), "{resource}");
        let look = &log[look.unwrap()];
        assert_eq!(look.parameter("resourceVersion"), None, "{:?}", look.query);
    }
    assert_eq!(events(&world, "DiskDeleted"), 1);
    shows(&world, "vmpool_disk_collections_total{reason=\"expired\"} 1");
    world.advance(MINUTE * 11).await;
    assert!(work(&world).is_empty());
}

/// A user attaches a disk with an attachment object.
fn attach(world: &LeaderWorld, disk: &Value) {
    world.server.create(
        "virtualmachineblockdeviceattachments",
        json!({
            "metadata": { "name": "by-hand", "namespace": NAMESPACE },
            "spec": {
                "virtualMachineName": "other",
                "blockDeviceRef": { "kind": "VirtualDisk", "name": disk["metadata"]["name"] },
            },
        }),
    );
}

#[tokio::test]
async fn a_manually_attached_disk_is_neither_allocated_nor_deleted() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let disk = world.disks().remove(0);
    attach(&world, &disk);
    world.calm().await;
    assert_eq!(annotation(&world.disks()[0], "free-since"), None, "it is in use");
    world.advance(MINUTE * 12).await;
    assert_eq!(names(&world.disks()), names(std::slice::from_ref(&disk)));
    world.scale(1);
    world.calm().await;
    assert_ne!(device(&world.machines()[0]), disk["metadata"]["name"]);

    // After it is detached, the disk is free from that time.
    world.server.delete("virtualmachineblockdeviceattachments", "by-hand");
    world.calm().await;
    let disk = world.server.get("virtualdisks", disk["metadata"]["name"].as_str().unwrap()).unwrap();
    assert!(annotation(&disk, "free-since").is_some());
}

#[tokio::test]
async fn a_use_that_no_watch_has_shown_saves_a_disk_at_the_last_moment() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let disk = world.disks().remove(0);
    world.server.hold("virtualmachineblockdeviceattachments");
    world.advance(MINUTE * 9).await;
    attach(&world, &disk);
    world.advance(MINUTE * 3).await;
    assert_eq!(world.disks().len(), 1);
    assert_eq!(count(&world.server.take_log(), Verb::Delete, "virtualdisks"), 0);
    assert!(!world.metrics.page().contains("vmpool_disks_spared_total 0\n"));
    world.server.release();
    world.calm().await;
    let disk = world.disks().remove(0);
    assert_eq!((annotation(&disk, "collecting-since"), annotation(&disk, "free-since")), (None, None));
}

#[tokio::test]
async fn a_disk_whose_users_cannot_be_read_is_not_deleted() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    world.server.intercept(|call| match call.verb {
        Verb::List => Fate::Refuse(Refusal::new(403, "Forbidden", "no list for you")),
        _ => Fate::Serve,
    });
    world.advance(MINUTE * 12).await;
    assert_eq!(world.disks().len(), 1);
    let condition = world.condition("ReplicaFailure").unwrap();
    assert!(condition["message"].as_str().unwrap().contains("no list for you"), "{condition}");
    world.server.behave();
    world.advance(MINUTE * 2).await;
    assert!(world.disks().is_empty());
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_disk_that_a_foreign_machine_uses_is_not_deleted() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let disk = world.disks().remove(0);
    world.server.create(
        "virtualmachines",
        json!({
            "metadata": { "name": "other", "namespace": NAMESPACE },
            "spec": { "blockDeviceRefs": [{ "kind": "VirtualDisk", "name": disk["metadata"]["name"] }] },
        }),
    );
    world.calm().await;
    world.scale(1);
    world.advance(MINUTE * 12).await;
    assert_eq!(world.disks().len(), 2);
    let machine =
        world.machines().into_iter().find(|machine| machine["metadata"]["name"] != "other").unwrap();
    assert_ne!(device(&machine), disk["metadata"]["name"]);
}

#[tokio::test]
async fn copied_labels_do_not_put_a_disk_into_the_pool() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    let mut copy = world.disks().remove(0);
    copy["metadata"] =
        json!({ "name": "mine", "namespace": NAMESPACE, "labels": copy["metadata"]["labels"] });
    world.server.create("virtualdisks", copy);
    world.scale(2);
    world.advance(MINUTE * 12).await;
    let mine = world.server.get("virtualdisks", "mine").unwrap();
    assert_eq!(mine["metadata"]["annotations"], Value::Null);
    assert!(world.machines().iter().all(|machine| device(machine) != "mine"));
}

#[tokio::test]
async fn a_deletion_without_a_response_is_sent_again() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let mut lost = 1;
    world.server.hold("virtualdisks");
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, "virtualdisks") && lost > 0 {
            lost -= 1;
            return Fate::ResponseLost;
        }
        Fate::Serve
    });
    world.advance(MINUTE * 12).await;
    world.server.release();
    world.calm().await;
    assert!(world.disks().is_empty());
    assert!(count(&world.server.take_log(), Verb::Delete, "virtualdisks") >= 2);
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert!(world.metrics.page().contains("vmpool_disks{state=\"free\"} 0\n"));
}

#[tokio::test]
async fn a_disk_that_is_wanted_again_loses_its_mark_and_is_used() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    world.advance(MINUTE * 10 + SECOND * 5).await;
    let disk = world.disks().remove(0);
    assert!(annotation(&disk, "collecting-since").is_some());
    world.scale(1);
    world.advance(MINUTE).await;
    assert_eq!(device(&world.machines()[0]), disk["metadata"]["name"]);
    assert_eq!(world.disks().len(), 1);
    assert_eq!(annotation(&world.disks()[0], "collecting-since"), None);
    assert_eq!(count(&world.server.take_log(), Verb::Delete, "virtualdisks"), 0);
}

#[tokio::test]
async fn a_disk_without_data_is_deleted_without_a_ttl() {
    let world = world(1, &json!({})).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let name = names(&world.disks()).remove(0);
    world.server.edit("virtualdisks", &name, |disk| disk["status"]["phase"] = json!("PVCLost"));
    world.calm().await;
    shows(&world, "vmpool_disks{state=\"broken\"} 1");
    world.advance(MINUTE * 11).await;
    assert!(world.disks().is_empty());
    shows(&world, "vmpool_disk_collections_total{reason=\"broken\"} 1");
}

#[tokio::test]
async fn a_disk_that_changes_during_its_deletion_is_planned_again() {
    let world = world(1, &json!({ "ttl": "10m" })).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    let (server, mut changes) = (world.server.clone(), 1);
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, "virtualdisks") && changes > 0 {
            changes -= 1;
            server.edit("virtualdisks", &call.name, |disk| {
                disk["metadata"]["annotations"]["team/note"] = json!("!");
            });
        }
        Fate::Serve
    });
    world.server.hold("virtualdisks");
    world.advance(MINUTE * 12).await;
    assert!(world.disks().is_empty(), "the deletions do not wait for the watch");
    shows(&world, "vmpool_failures_total{reason=\"DiskFailure\"} 0");
}

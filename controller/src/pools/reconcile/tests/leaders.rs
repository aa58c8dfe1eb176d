//! Leases that end, successive leaders, and the health of a leader.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use vmpool_engine::scale_up::names::Namer;
use vmpool_runtime::testing::{end_fence, fence_for};

use super::{SECOND, assert_units_are_complete, count};
use crate::testing::{Call, Conduct, Fate, LeaderWorld, NAMESPACE, Verb, machine_names, pool_manifest};

#[tokio::test]
async fn a_leader_whose_lease_is_lost_half_way_sends_no_further_write() {
    let mut world = LeaderWorld::new();
    world.settings.writes_in_flight = 1;
    let fence = world.fence.clone();
    let mut created = 0;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") {
            created += 1;
            if created == 3 {
                end_fence(&fence);
            }
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 10));
    world.lead();
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 3);
    assert_eq!(world.disks().len(), 2, "not even the disk of the third");
    let log = world.server.take_log();
    let last = log.iter().rposition(Call::is_write).unwrap();
    assert!(log[last].is(Verb::Create, "virtualmachines"), "{}", log[last]);
}

#[tokio::test]
async fn a_pool_is_retried_soon_after_the_lease_was_too_short() {
    let mut world = LeaderWorld::new();
    // The lease is valid for the whole test, but never long enough for a write.
    world.fence = fence_for(&world.env, SECOND * 60);
    world.settings.request_deadline = SECOND * 120;
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
    world.lead();
    world.calm().await;
    let log = world.server.take_log();
    assert!(log.iter().all(|call| !call.is_write()), "{log:?}");
    let tries = count(&log, Verb::Get, "virtualmachinepools");
    assert!((3..=20).contains(&tries), "{tries}");
}

#[tokio::test]
async fn a_repair_is_retried_soon_after_the_lease_was_too_short() {
    let mut world = LeaderWorld::with_pool(1).await;
    world.kill_leader().await;
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &name, |machine| {
        // The revision stays, so that the status does not change.
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
async fn a_successor_in_a_settled_world_writes_nothing() {
    let mut world = LeaderWorld::with_pool(2).await;
    world.kill_leader().await;
    world.lead();
    world.calm().await;
    let writes = world.take_writes();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn a_successor_of_a_killed_leader_neither_repeats_nor_omits_writes() {
    let mut world = LeaderWorld::new();
    world.settings.writes_in_flight = 2;
    world
        .server
        .intercept(|call| if call.is_write() { Conduct::slow(SECOND / 10) } else { Conduct::default() });
    world.server.create("virtualmachinepools", pool_manifest("web", 20));
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
async fn a_late_create_of_a_predecessor_causes_no_duplicate() {
    let mut world = LeaderWorld::new();
    let written = world.server.create("virtualmachinepools", pool_manifest("web", 2));
    // The predecessor reserved a name block and exited while its first create was in flight.
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
        // The delayed create arrives just before the successor's create.
        if call.is(Verb::Create, "virtualmachines") && arrived.fetch_add(1, Ordering::Relaxed) == 0 {
            late.create("virtualmachines", machine_of(&late_name, &owner));
        }
        Fate::Serve
    });
    world.lead();
    world.advance(SECOND * 10).await;
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert!(machine_names(&world.machines()).contains(&name));
    assert_units_are_complete(&world);
}

/// A machine that a predecessor created.
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
async fn shutdown_finishes_the_pass_that_has_begun() {
    let mut world = LeaderWorld::new();
    world.settings.writes_in_flight = 1;
    world
        .server
        .intercept(|call| if call.is_write() { Conduct::slow(SECOND / 10) } else { Conduct::default() });
    world.server.create("virtualmachinepools", pool_manifest("web", 10));
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
    let mut world = LeaderWorld::new();
    assert_eq!(world.leader_health.synced(), Ok(()));
    world
        .server
        .intercept(|call| if call.verb == Verb::List { Conduct::slow(SECOND) } else { Conduct::default() });
    world.lead();
    world.advance(SECOND / 2).await;
    assert!(world.leader_health.synced().is_err());
    world.advance(SECOND * 2).await;
    assert_eq!(world.leader_health.synced(), Ok(()));
}

#[tokio::test]
async fn a_leader_that_lost_the_lease_leaves_no_stuck_workers_behind() {
    let mut world = LeaderWorld::new();
    world.lead();
    world.calm().await;
    assert_eq!(world.leader_health.working(SECOND * 30), Ok(()));
    world.kill_leader().await;
    world.advance(SECOND * 60).await;
    assert_eq!(
        world.leader_health.working(SECOND * 30),
        Ok(()),
        "without a running pass no worker can be stuck"
    );
    assert_eq!(world.leader_health.synced(), Ok(()));
}

#[tokio::test]
async fn a_write_that_the_fence_stopped_causes_no_event() {
    let mut world = LeaderWorld::new();
    world.fence = fence_for(&world.env, SECOND * 60);
    world.settings.request_deadline = SECOND * 120;
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
    world.lead();
    world.calm().await;
    let page = world.metrics.page();
    let none =
        |kind: &str| page.contains(&format!("vmpool_writes_total{{kind=\"{kind}\",outcome=\"fenced\"}} 0\n"));
    assert!(!none("patch_pool"), "{page}");
    assert!(none("event"), "{page}");
}

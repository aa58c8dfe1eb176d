//! Retained disks and the machines that get them.

mod collection;
mod edits;
mod restore;
mod upkeep;

use std::time::Duration;

use serde_json::{Value, json};

use super::SECOND;
use crate::testing::{
    Call, Conduct, Fate, LeaderWorld, MERGE_PATCH, NAMESPACE, Refusal, Verb, machine_names, pool_manifest,
};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";
const MINUTE: Duration = Duration::from_mins(1);

/// A pool whose machines have one retained disk; `reclaim` is merged into the template's reclaim.
fn kept(replicas: usize, reclaim: &Value) -> Value {
    let mut pool = pool_manifest("web", replicas);
    let template = &mut pool["spec"]["virtualDiskTemplates"][0];
    template["reclaim"] = json!({ "onScaleDown": "Retain" });
    json_patch::merge(&mut template["reclaim"], reclaim);
    template["spec"]["persistentVolumeClaim"] = json!({ "size": "10Gi" });
    pool
}

/// A leader and a pool with running machines and ready disks.
async fn world(replicas: usize, reclaim: &Value) -> LeaderWorld {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", kept(replicas, reclaim));
    world.lead();
    world.calm().await;
    run(&world).await;
    world
}

/// The same after the machines were removed by a scale-down, and left their disks.
async fn world_with_free_disks(count: usize, reclaim: &Value) -> LeaderWorld {
    let world = world(count, reclaim).await;
    world.scale(0);
    world.calm().await;
    run(&world).await;
    world
}

/// The platform runs the machines and prepares the disks.
async fn run(world: &LeaderWorld) {
    world.run_machines();
    for disk in world.disks() {
        let users: Vec<Value> = world
            .machines()
            .iter()
            .filter(|machine| device(machine) == disk["metadata"]["name"])
            .map(|machine| json!({ "name": machine["metadata"]["name"], "mounted": true }))
            .collect();
        world.server.edit("virtualdisks", disk["metadata"]["name"].as_str().unwrap(), |disk| {
            disk["status"]["phase"] = json!("Ready");
            disk["status"]["attachedToVirtualMachines"] = json!(users);
        });
    }
    world.calm().await;
    world.server.take_log();
}

fn device(machine: &Value) -> Value {
    machine["spec"]["blockDeviceRefs"][0]["name"].clone()
}

fn names(objects: &[Value]) -> Vec<String> {
    machine_names(objects)
}

fn annotation<'a>(disk: &'a Value, key: &str) -> Option<&'a str> {
    disk["metadata"]["annotations"][format!("{PREFIX}/{key}")].as_str()
}

fn events(world: &LeaderWorld, reason: &str) -> usize {
    world.server.all("events").iter().filter(|event| event["reason"] == reason).count()
}

/// Writes to machines and disks, in order.
fn work(world: &LeaderWorld) -> Vec<Call> {
    let work = world.take_writes().into_iter();
    work.filter(|call| ["virtualmachines", "virtualdisks"].contains(&&*call.resource)).collect()
}

fn shows(world: &LeaderWorld, line: &str) {
    let page = world.metrics.page();
    assert!(page.lines().any(|shown| shown == line), "{line} is not on\n{page}");
}

#[tokio::test]
async fn a_retained_disk_is_owned_by_the_pool_and_costs_one_write() {
    let mut world = LeaderWorld::new();
    let written = world.server.create("virtualmachinepools", kept(2, &json!({})));
    world.lead();
    world.calm().await;
    let (machines, disks) = (world.machines(), world.disks());
    assert_eq!((machines.len(), disks.len()), (2, 2));
    for disk in &disks {
        let owner = &disk["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["kind"]),
            (&written["metadata"]["uid"], &json!("VirtualMachinePool"))
        );
        assert_eq!(disk["metadata"]["labels"][format!("{PREFIX}/disk-template")], "root");
        assert_eq!(machines.iter().filter(|machine| device(machine) == disk["metadata"]["name"]).count(), 1);
    }
    let writes = work(&world);
    assert_eq!(writes.len(), 4, "1 + D for each: {writes:?}");
    world.calm().await;
    assert!(work(&world).is_empty());
    shows(&world, "vmpool_disks{state=\"in_use\"} 2");
}

#[tokio::test]
async fn the_disk_of_a_deleted_machine_goes_to_the_next_one() {
    let world = world(2, &json!({})).await;
    world.scale(1);
    world.calm().await;
    run(&world).await;
    let free: Vec<Value> =
        world.disks().into_iter().filter(|disk| annotation(disk, "free-since").is_some()).collect();
    assert_eq!((free.len(), world.disks().len()), (1, 2));
    shows(&world, "vmpool_disks{state=\"free\"} 1");
    shows(&world, "vmpool_disks_without_ttl 1");

    world.scale(2);
    world.calm().await;
    let writes = work(&world);
    // The claim is the first of two writes. Without a retained disk there is only one.
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(writes[0].is(MERGE_PATCH, "virtualdisks") && writes[1].is(Verb::Create, "virtualmachines"));
    let name = writes[1].name.clone();
    assert!(writes[0].body["metadata"]["resourceVersion"].is_string(), "{}", writes[0].body);
    let disk = world.server.get("virtualdisks", &writes[0].name).unwrap();
    assert_eq!((annotation(&disk, "claimed-by"), annotation(&disk, "free-since")), (Some(&*name), None));
    assert_eq!(disk["metadata"]["name"], free[0]["metadata"]["name"]);
    assert_eq!(device(&world.server.get("virtualmachines", &name).unwrap()), disk["metadata"]["name"]);
    assert_eq!(world.disks().len(), 2, "no surplus disk");
    assert_eq!(events(&world, "DiskReused"), 1);
    shows(&world, "vmpool_disks_reused_total 1");
    shows(&world, "vmpool_disk_claims_total{outcome=\"done\"} 1");
    run(&world).await;
    shows(&world, "vmpool_disks{state=\"in_use\"} 2");
}

#[tokio::test]
async fn a_disk_that_changes_during_its_claim_is_planned_again() {
    let world = world_with_free_disks(1, &json!({})).await;
    let disk = world.disks().remove(0);
    let (server, name) = (world.server.clone(), disk["metadata"]["name"].as_str().unwrap().to_owned());
    let mut first = true;
    world.server.hold("virtualdisks");
    world.server.intercept(move |call| {
        if call.is(MERGE_PATCH, "virtualdisks") && std::mem::take(&mut first) {
            server.edit("virtualdisks", &name, |disk| disk["status"]["phase"] = json!("PVCLost"));
        }
        Fate::Serve
    });
    world.scale(1);
    world.calm().await;
    let machines = world.machines();
    assert_eq!(machines.len(), 1);
    assert_ne!(
        device(&machines[0]),
        disk["metadata"]["name"],
        "a disk that was lost meanwhile is not allocated"
    );
    shows(&world, "vmpool_disk_claims_total{outcome=\"outdated\"} 1");
    shows(&world, "vmpool_failures_total{reason=\"DiskFailure\"} 0");
}

#[tokio::test]
async fn a_machine_whose_disk_was_allocated_slowly_is_not_created_for_an_outdated_count() {
    let world = world_with_free_disks(1, &json!({})).await;
    world.server.intercept(|call| {
        let before = if call.is(MERGE_PATCH, "virtualdisks") { SECOND * 6 } else { Duration::ZERO };
        Conduct { before, outcome: Fate::Serve, after: Duration::ZERO }
    });
    world.scale(1);
    world.advance(SECOND * 2).await;
    world.scale(0);
    world.server.take_log();
    world.advance(MINUTE * 2).await;
    let log = world.server.take_log();
    assert!(!log.iter().any(|call| call.is(Verb::Create, "virtualmachines")));
    assert_eq!(annotation(&world.disks()[0], "claimed-by"), None);
}

/// A free disk that a leader claimed for a machine before it exited, and the name of that machine, which was
/// never created.
async fn claimed_by_an_exited_leader() -> (LeaderWorld, String) {
    let mut world = world_with_free_disks(1, &json!({})).await;
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") { Fate::Unreachable } else { Fate::Serve }
    });
    world.scale(1);
    world.advance(SECOND).await;
    world.kill_leader().await;
    let claimed = annotation(&world.disks()[0], "claimed-by").unwrap().to_owned();
    (world, claimed)
}

#[tokio::test]
async fn an_allocation_of_a_failed_leader_is_completed_by_the_next() {
    let (mut world, claimed) = claimed_by_an_exited_leader().await;
    assert!(world.machines().is_empty());
    world.server.behave();
    world.lead();
    world.calm().await;
    assert_eq!(names(&world.machines()), [claimed], "the machine of the claim");
    assert_eq!(device(&world.machines()[0]), world.disks()[0]["metadata"]["name"]);
    assert_eq!(world.disks().len(), 1, "no surplus disk");
}

#[tokio::test]
async fn an_unneeded_allocation_is_removed_after_a_live_read() {
    let (mut world, claimed) = claimed_by_an_exited_leader().await;
    world.server.behave();
    world.scale(0);
    world.server.take_log();
    world.lead();
    world.advance(MINUTE * 3).await;
    let disk = world.disks().remove(0);
    assert_eq!(annotation(&disk, "claimed-by"), None);
    assert!(annotation(&disk, "free-since").is_some());
    let log = world.server.take_log();
    let freed = log.iter().position(|call| call.is(MERGE_PATCH, "virtualdisks")).unwrap();
    let looked = log.iter().position(|call| call.is(Verb::Get, "virtualmachines") && call.name == claimed);
    assert!(looked.is_some_and(|looked| looked < freed));
}

#[tokio::test]
async fn an_allocation_to_a_released_machine_that_uses_the_disk_stays() {
    let (mut world, claimed) = claimed_by_an_exited_leader().await;
    let disk = world.disks()[0]["metadata"]["name"].clone();
    world.server.behave();
    world.scale(0);
    world.lead();
    world.advance(SECOND).await;
    world.server.hold("virtualmachines");
    let devices = json!([{ "kind": "VirtualDisk", "name": disk }]);
    let machine = json!({
        "metadata": { "name": claimed, "namespace": NAMESPACE }, "spec": { "blockDeviceRefs": devices } });
    world.server.create("virtualmachines", machine);
    world.advance(MINUTE * 3).await;
    assert_eq!(annotation(&world.disks()[0], "claimed-by"), Some(&*claimed), "the live read found the disk");
    assert_eq!(annotation(&world.disks()[0], "free-since"), None);
}

#[tokio::test]
async fn a_disk_of_a_rejected_machine_is_not_tried_again_at_once() {
    let world = world_with_free_disks(1, &json!({})).await;
    let disk = names(&world.disks()).remove(0);
    let refused = disk.clone();
    world.server.intercept(move |call| {
        let wants = call.is(Verb::Create, "virtualmachines") && call.body.to_string().contains(&refused);
        if wants {
            let message = format!("disk {refused} cannot be reached from any node");
            return Fate::Refuse(Refusal::new(403, "Forbidden", &message));
        }
        Fate::Serve
    });
    world.scale(1);
    world.advance(MINUTE * 3).await;
    let machines = world.machines();
    assert_eq!(machines.len(), 1, "another disk is made");
    assert_ne!(device(&machines[0]), *disk);
    assert_eq!(world.condition("ReplicaFailure"), None);
    let log = world.server.take_log();
    let creates = || log.iter().filter(|call| call.is(Verb::Create, "virtualmachines"));
    let (trials, attempts) =
        (creates().filter(|call| call.is_dry()), creates().filter(|call| !call.is_dry()));
    // A dry run without the disk shows that the disk is the reason.
    let (trials, attempts) = (trials.count(), attempts.count());
    assert_eq!(trials, 1);
    assert!((2..=4).contains(&attempts), "{attempts}");
}

#[tokio::test]
async fn an_allocated_disk_is_not_used_after_a_few_rejections_without_its_name() {
    let world = world_with_free_disks(2, &json!({})).await;
    let free = names(&world.disks());
    let reachable = free[0].clone();
    world.server.intercept(move |call| {
        let create = call.is(Verb::Create, "virtualmachines");
        if create && !call.body.to_string().contains(&reachable) {
            let message = "a disk of the virtual machine is on node n1, which is full";
            return Fate::Refuse(Refusal::new(422, "Invalid", message));
        }
        Fate::Serve
    });
    // The best free disk is tried first. After some refusals the other one is tried.
    world.scale(1);
    world.advance(MINUTE).await;
    let machines = world.machines();
    assert_eq!(machines.len(), 1, "another free disk is tried");
    assert_eq!(device(&machines[0]), *free[0]);
    assert_eq!(world.disks().len(), 2, "no disk is made while one is free");
    // The second machine gets a new disk, and the first disk stays unchanged.
    world.server.intercept({
        let free = free.clone();
        move |call| {
            let create = call.is(Verb::Create, "virtualmachines");
            if create && free.iter().any(|disk| call.body.to_string().contains(disk)) {
                let message = "a disk of the virtual machine is on node n1, which is full";
                return Fate::Refuse(Refusal::new(422, "Invalid", message));
            }
            Fate::Serve
        }
    });
    world.scale(2);
    world.advance(MINUTE * 3).await;
    assert_eq!((world.machines().len(), world.disks().len()), (2, 3), "and then a new one");
    assert_eq!(world.condition("ReplicaFailure"), None);
    let left = world.server.get("virtualdisks", &free[1]).unwrap();
    assert_eq!(annotation(&left, "claimed-by"), None, "it is free again");
}

#[tokio::test]
async fn a_disk_that_lost_its_labels_is_still_the_pools() {
    let world = world_with_free_disks(1, &json!({ "ttl": "10m" })).await;
    let disk = names(&world.disks()).remove(0);
    world.server.edit("virtualdisks", &disk, |disk| {
        let labels = disk["metadata"]["labels"].as_object_mut().unwrap();
        labels.retain(|key, _| key.ends_with("/disk-template"));
    });
    world.scale(1);
    world.calm().await;
    assert_eq!(device(&world.machines()[0]), *disk);
}

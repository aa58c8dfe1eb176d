//! Edits of machines by users, which must not lose data.

use serde_json::{Value, json};

use super::super::SECOND;
use super::{MINUTE, annotation, device, events, names, run, work, world};
use crate::testing::LeaderWorld;

/// The two machines of a pool and their disks, which are retained.
async fn pair() -> (LeaderWorld, [String; 2], [String; 2]) {
    let world = world(2, &json!({ "ttl": "10m" })).await;
    let machines = world.machines();
    let disks = [0, 1].map(|index| device(&machines[index]).as_str().unwrap().to_owned());
    let machines = <[String; 2]>::try_from(names(&machines)).unwrap();
    (world, machines, disks)
}

/// A user edits the devices of a machine, and the platform evaluates the edit.
fn refer(world: &LeaderWorld, machine: &str, devices: &Value) {
    world.server.edit("virtualmachines", machine, |machine| {
        machine["spec"]["blockDeviceRefs"] = devices.clone();
    });
    world.run_machines();
}

fn disk(name: &str) -> Value {
    json!({ "kind": "VirtualDisk", "name": name })
}

#[tokio::test]
async fn two_machines_with_one_disk_get_two_again_and_the_running_one_is_unchanged() {
    let (world, machines, disks) = pair().await;
    refer(&world, &machines[1], &json!([disk(&disks[0])]));
    world.calm().await;
    let writes = work(&world);
    assert!(writes.iter().all(|call| call.name != machines[0]), "{writes:?}");
    let now = world.machines();
    assert_eq!([device(&now[0]), device(&now[1])], [json!(disks[0]), json!(disks[1])]);
    assert_eq!(events(&world, "DiskDetached"), 1);
    assert_eq!(annotation(&world.server.get("virtualdisks", &disks[1]).unwrap(), "free-since"), None);
    run(&world).await;
    world.advance(MINUTE * 15).await;
    assert_eq!(names(&world.disks()).len(), 2);
    assert_eq!(world.condition("Synced").unwrap()["status"], "True");
}

#[tokio::test]
async fn a_device_that_a_user_added_for_the_disk_of_another_machine_is_removed() {
    let (world, machines, disks) = pair().await;
    refer(&world, &machines[1], &json!([disk(&disks[1]), disk(&disks[0])]));
    world.calm().await;
    let machine = world.server.get("virtualmachines", &machines[1]).unwrap();
    assert_eq!(machine["spec"]["blockDeviceRefs"], json!([disk(&disks[1])]));
    assert_eq!(work(&world).len(), 1);
    assert_eq!(events(&world, "DiskDetached"), 1);
}

#[tokio::test]
async fn a_manually_detached_disk_is_retained_until_its_machine_is_deleted() {
    let (mut world, machines, disks) = pair().await;
    refer(&world, &machines[1], &json!([{ "kind": "ClusterVirtualImage", "name": "tools" }]));
    let attached = |disk: &mut Value| disk["status"]["attachedToVirtualMachines"] = json!([]);
    world.server.edit("virtualdisks", &disks[1], attached);
    world.advance(MINUTE * 30).await;
    assert!(
        work(&world).is_empty(),
        "the machine does not change, and the disk is neither marked nor deleted"
    );
    let synced = world.condition("Synced").unwrap();
    assert_eq!(synced["reason"], "DiskDetachedByHand");
    let message = synced["message"].as_str().unwrap();
    assert!(message.contains(&disks[1]) && message.contains(&machines[1]), "{message}");
    assert_eq!(events(&world, "DiskDetachedByHand"), 1);
    // A new leader does not report it again.
    world.kill_leader().await;
    world.lead();
    world.advance(MINUTE).await;
    assert_eq!(events(&world, "DiskDetachedByHand"), 1);
    assert!(work(&world).is_empty());

    // The user attaches the disk again.
    refer(&world, &machines[1], &json!([disk(&disks[1])]));
    world.calm().await;
    assert_eq!(world.condition("Synced").unwrap()["status"], "True");
    refer(&world, &machines[1], &json!([{ "kind": "ClusterVirtualImage", "name": "tools" }]));
    world.calm().await;
    assert_eq!(events(&world, "DiskDetachedByHand"), 2);
    // When its machine is deleted, the disk becomes free.
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["scaleDownPolicy"] = json!("Explicit");
    });
    world.scale(1);
    world.server.delete("virtualmachines", &machines[1]);
    world.calm().await;
    let free = world.server.get("virtualdisks", &disks[1]).unwrap();
    assert!(annotation(&free, "free-since").is_some());
    world.advance(MINUTE * 11).await;
    assert_eq!(names(&world.disks()), [disks[0].clone()]);
}

#[tokio::test]
async fn a_disk_that_was_detached_by_hand_is_free_once_the_disk_map_does_not_name_it() {
    let (world, machines, disks) = pair().await;
    refer(&world, &machines[1], &json!([{ "kind": "ClusterVirtualImage", "name": "tools" }]));
    world.server.edit("virtualdisks", &disks[1], |disk| {
        disk["status"]["attachedToVirtualMachines"] = json!([]);
    });
    world.calm().await;
    world.server.edit("virtualmachines", &machines[1], |machine| {
        machine["metadata"]["annotations"][format!("{}/disks", super::PREFIX)] = json!("{}");
    });
    world.advance(SECOND * 30).await;
    assert!(annotation(&world.server.get("virtualdisks", &disks[1]).unwrap(), "free-since").is_some());
    assert_eq!(world.condition("Synced").unwrap()["status"], "True");
}

#[tokio::test]
async fn the_rejected_removal_of_a_device_names_the_disk() {
    use crate::testing::{Fate, Refusal};
    let (world, machines, disks) = pair().await;
    world.server.intercept(|call| {
        if call.resource == "virtualmachines" && call.is_write() {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no changes today"));
        }
        Fate::Serve
    });
    refer(&world, &machines[1], &json!([disk(&disks[1]), disk(&disks[0])]));
    world.calm().await;
    let failure = world.condition("ReplicaFailure").unwrap();
    let message = failure["message"].as_str().unwrap();
    let expected = format!(
        "detaching disk {} from machine {}, because another machine keeps it: ",
        disks[0], machines[1]
    );
    assert!(message.starts_with(&expected), "{message}");
    assert!(message.contains("no changes today"), "{message}");
}

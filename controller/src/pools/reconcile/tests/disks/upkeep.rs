//! Expansion, repair and replacement of the disks of machines.

use serde_json::{Value, json};

use super::super::{SECOND, count_patches, is_patch};
use super::{MINUTE, PREFIX, annotation, device, events, kept, names, run, shows, world};
use crate::testing::{Fate, JSON_PATCH, LeaderWorld, MERGE_PATCH, Refusal};

#[tokio::test]
async fn disks_expand_with_their_template_and_a_rejection_delays_no_other() {
    let world = world(3, &json!({})).await;
    let stubborn = names(&world.disks()).remove(0);
    let refused = stubborn.clone();
    world.server.intercept(move |call| {
        if call.is(MERGE_PATCH, "virtualdisks") && call.name == refused {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "this class does not grow"));
        }
        Fate::Serve
    });
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["virtualDiskTemplates"][0]["spec"]["persistentVolumeClaim"]["size"] = json!("20Gi");
    });
    world.advance(SECOND * 30).await;
    for disk in world.disks() {
        let expected = if disk["metadata"]["name"] == *stubborn { "10Gi" } else { "20Gi" };
        assert_eq!(disk["spec"]["persistentVolumeClaim"]["size"], expected);
    }
    assert_eq!(events(&world, "DiskResized"), 2);
    assert!(events(&world, "FailedDisk") > 0);
    shows(&world, "vmpool_disks_resized_total 2");
    let condition = world.condition("ReplicaFailure").unwrap();
    assert!(condition["message"].as_str().unwrap().contains("does not grow"), "{condition}");
}

#[tokio::test]
async fn a_released_machine_keeps_its_disk() {
    let world = world(1, &json!({})).await;
    let (machine, disk) = (world.machines().remove(0), world.disks().remove(0));
    let name = machine["metadata"]["name"].as_str().unwrap();
    world.server.edit("virtualmachines", name, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.calm().await;
    let kept = world.server.get("virtualdisks", disk["metadata"]["name"].as_str().unwrap()).unwrap();
    let owner = &kept["metadata"]["ownerReferences"];
    assert_eq!(owner[0]["uid"], machine["metadata"]["uid"]);
    assert_eq!((owner.as_array().unwrap().len(), &owner[0]["kind"]), (1, &json!("VirtualMachine")));
    assert!(!kept["metadata"].to_string().contains(PREFIX), "{}", kept["metadata"]);
    let released = world.server.get("virtualmachines", name).unwrap();
    assert!(!released["metadata"].to_string().contains(PREFIX), "{}", released["metadata"]);
    // The pool now has another machine with another disk, and only these are deleted with the pool.
    assert_eq!((world.machines().len(), world.disks().len()), (2, 2));
    world.server.delete("virtualmachinepools", "web");
    world.server.collect_garbage();
    assert_eq!(names(&world.machines()), [name]);
    assert_eq!(world.disks()[0]["metadata"]["name"], disk["metadata"]["name"]);
}

#[tokio::test]
async fn a_released_machine_takes_no_disk_of_another_machine() {
    let world = world(2, &json!({})).await;
    let machines = world.machines();
    let (left, machine) = (&machines[0], &machines[1]);
    let name = |machine: &Value| machine["metadata"]["name"].as_str().unwrap().to_owned();
    let (lost, shared) = (device(left), device(machine));
    // A user points the machine to the other machine's disk and releases it from the pool before the
    // controller repairs the reference.
    world.server.edit("virtualmachines", &name(left), |machine| {
        machine["spec"]["blockDeviceRefs"][0]["name"] = shared.clone();
        machine["metadata"]["ownerReferences"] = json!([]);
    });
    world.calm().await;
    let disk = world.server.get("virtualdisks", shared.as_str().unwrap()).unwrap();
    assert_eq!(disk["metadata"]["ownerReferences"][0]["kind"], "VirtualMachinePool");
    let released = world.server.get("virtualmachines", &name(left)).unwrap();
    assert!(!released["metadata"].to_string().contains(PREFIX), "{}", released["metadata"]);
    assert_eq!(device(&world.server.get("virtualmachines", &name(machine)).unwrap()), shared);
    assert_ne!(lost, shared);
}

/// Adds a second disk to every machine; `reclaim` is merged into the template.
fn second_disk(pool: &mut Value, reclaim: &Value) {
    pool["spec"]["virtualDiskTemplates"].as_array_mut().unwrap().push(json!({
        "name": "data", "reclaim": reclaim, "spec": { "persistentVolumeClaim": { "size": "1Gi" } },
    }));
    pool["spec"]["virtualMachineTemplate"]["spec"]["blockDeviceRefs"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "kind": "VirtualDisk", "name": "data" }));
}

/// Runs the platform until nothing changes.
async fn roll(world: &LeaderWorld) {
    for _ in 0..6 {
        run(world).await;
    }
}

/// Removes the template of the second disk from the pool, and runs the platform.
async fn remove_second_disk(world: &LeaderWorld) {
    world.server.edit("virtualmachinepools", "web", |pool| {
        let list = |value: &mut Value| drop(value.as_array_mut().unwrap().remove(1));
        list(&mut pool["spec"]["virtualDiskTemplates"]);
        list(&mut pool["spec"]["virtualMachineTemplate"]["spec"]["blockDeviceRefs"]);
    });
    world.calm().await;
    roll(world).await;
}

#[tokio::test]
async fn the_disks_of_a_removed_template_are_detached_and_then_deleted() {
    for policy in ["Retain", "Delete"] {
        let mut world = LeaderWorld::new();
        let mut pool = kept(2, &json!({}));
        second_disk(&mut pool, &json!({ "onScaleDown": policy }));
        world.server.create("virtualmachinepools", pool);
        world.lead();
        world.calm().await;
        roll(&world).await;
        assert_eq!(world.disks().len(), 4);

        remove_second_disk(&world).await;
        for machine in world.machines() {
            assert_eq!(machine["spec"]["blockDeviceRefs"].as_array().unwrap().len(), 1, "{policy}");
        }
        assert_eq!(events(&world, "DiskDetached"), 2, "{policy}");
        world.advance(MINUTE * 2).await;
        let templates: Vec<_> = world
            .disks()
            .iter()
            .map(|disk| disk["metadata"]["labels"][format!("{PREFIX}/disk-template")].clone())
            .collect();
        assert_eq!(templates, ["root", "root"], "{policy}");
        shows(&world, "vmpool_disk_collections_total{reason=\"template_removed\"} 2");
    }
}

#[tokio::test]
async fn a_stopped_machine_gets_a_free_disk_for_a_lost_one() {
    let world = world(2, &json!({})).await;
    world.scale(1);
    world.calm().await;
    run(&world).await;
    let machine = world.machines().remove(0);
    let (name, lost) = (machine["metadata"]["name"].as_str().unwrap(), device(&machine));
    world.server.edit("virtualmachines", name, |machine| machine["status"]["phase"] = json!("Pending"));
    world.server.edit("virtualdisks", lost.as_str().unwrap(), |disk| {
        disk["status"] = json!({ "phase": "PVCLost" });
    });
    world.calm().await;
    let machine = world.server.get("virtualmachines", name).unwrap();
    assert_ne!(device(&machine), lost);
    let disk = world.server.get("virtualdisks", device(&machine).as_str().unwrap()).unwrap();
    assert_eq!(annotation(&disk, "claimed-by"), Some(name));
    assert_eq!(world.disks().len(), 2, "the free one was used");
    assert_eq!((events(&world, "DiskDetached"), events(&world, "DiskReused")), (1, 1));
    let log = world.server.take_log();
    let claim = log.iter().position(|call| call.is(MERGE_PATCH, "virtualdisks")).unwrap();
    let repoint = log.iter().position(|call| call.is(JSON_PATCH, "virtualmachines")).unwrap();
    assert!(claim < repoint, "it is claimed before the machine refers to it");
}

#[tokio::test]
async fn a_released_machine_keeps_its_disk_after_a_failed_transfer() {
    let world = world(1, &json!({})).await;
    let mut refused = 2;
    world.server.intercept(move |call| {
        if call.is(MERGE_PATCH, "virtualdisks") && refused > 0 {
            refused -= 1;
            return Fate::Refuse(Refusal::new(403, "Forbidden", "not now"));
        }
        Fate::Serve
    });
    let (machine, disk) = (world.machines().remove(0), world.disks().remove(0));
    let name = machine["metadata"]["name"].as_str().unwrap();
    world.server.edit("virtualmachines", name, |machine| machine["metadata"]["ownerReferences"] = json!([]));
    world.advance(SECOND * 10).await;
    let disk = world.server.get("virtualdisks", disk["metadata"]["name"].as_str().unwrap()).unwrap();
    assert_eq!(disk["metadata"]["ownerReferences"][0]["uid"], machine["metadata"]["uid"]);
    // The machine kept its markers while the pool owned it; otherwise no client would have updated it again.
    let log = world.server.take_log();
    let handed = log.iter().rposition(|call| call.is(MERGE_PATCH, "virtualdisks")).unwrap();
    let released = log.iter().position(|call| is_patch(call, "virtualmachines")).unwrap();
    assert!(handed < released);
    assert_eq!(count_patches(&log, "virtualmachines"), 1);
    shows(&world, "vmpool_failures_total{reason=\"FailedRepair\"} 2");
}

#[tokio::test]
async fn a_failed_ephemeral_disk_of_a_machine_that_never_ran_is_replaced_and_reported() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", crate::testing::pool_manifest("web", 1));
    world.lead();
    world.calm().await;
    let first = world.disks().remove(0)["metadata"]["name"].as_str().unwrap().to_owned();
    let fail = |name: &str| {
        world.server.edit("virtualdisks", name, |disk| {
            disk["status"] = json!({
                "phase": "Failed",
                "conditions": [{ "type": "Ready", "status": "False", "message": "no space left on node n1" }],
            });
        });
    };
    fail(&first);
    world.calm().await;
    let machine = world.machines().remove(0);
    assert_eq!(device(&machine), format!("{first}-2"), "the machine refers to another disk");
    assert!(world.server.get("virtualdisks", &format!("{first}-2")).is_some(), "which exists");
    let failure = world.condition("ReplicaFailure").expect("it does not run yet");
    assert_eq!(failure["reason"], "DiskFailure");
    let message = failure["message"].as_str().unwrap();
    let machine_name = machine["metadata"]["name"].as_str().unwrap();
    for part in [&*first, machine_name, "no space left on node n1"] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    // The next disk fails too, and the pause is longer.
    fail(&format!("{first}-2"));
    world.advance(MINUTE).await;
    assert_eq!(device(&world.machines()[0]), format!("{first}-3"));
    assert_eq!(names(&world.disks()), [format!("{first}-3")], "the failed disks are deleted");
    run(&world).await;
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert_eq!(events(&world, "DiskDetached"), 2);
}

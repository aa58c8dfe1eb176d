//! A pool that another controller of the same API managed before.

use serde_json::{Value, json};
use serde_yaml_ng::Value as Yaml;

use super::{SECOND, count};
use crate::testing::{Call, LeaderWorld, NAMESPACE, Verb, machine_names};

const PREFIX: &str = "vmpool.virtualization.deckhouse.io";
const MACHINES: &str = "virtualmachines";

/// The state that the other controller left: three machines run, and one was just created.
fn left_behind() -> LeaderWorld {
    let world = LeaderWorld::new();
    let mut objects: Yaml = serde_yaml_ng::from_str(include_str!("adoption.yaml")).unwrap();
    objects.apply_merge().unwrap();
    let objects: Vec<Value> = serde_yaml_ng::from_value(objects).unwrap();
    let mut uids: Vec<(String, String)> = Vec::new();
    for object in objects {
        let mut text = object.to_string().replace("\"NOW\"", &json!(world.env.now().to_string()).to_string());
        // Longer names first, because a name can be the prefix of another one.
        uids.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        for (name, uid) in &uids {
            text = text.replace(&format!("uid of {name}\""), &format!("{uid}\""));
        }
        let mut object: Value = serde_json::from_str(&text).unwrap();
        object["apiVersion"] = json!("virtualization.deckhouse.io/v1alpha2");
        let resource = match object["kind"].as_str().unwrap() {
            "VirtualMachinePool" => "virtualmachinepools",
            "VirtualMachine" => MACHINES,
            _ => "virtualdisks",
        };
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let created = world.server.create(resource, object);
        let uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
        if resource == "virtualmachinepools" {
            world.server.edit(resource, &name, |pool| {
                pool["status"]["selector"] = json!(format!("{PREFIX}/pool-uid={uid}"));
            });
        }
        uids.push((name, uid));
    }
    for disk in world.disks() {
        let name = disk["metadata"]["name"].as_str().unwrap();
        let user = world.machines().into_iter().find(|machine| devices(machine).contains(&name.to_owned()));
        let attached = user.map(|machine| json!({ "name": machine["metadata"]["name"], "mounted": true }));
        world.server.edit("virtualdisks", name, |disk| {
            disk["status"] =
                json!({ "phase": "Ready", "attachedToVirtualMachines": Vec::from_iter(attached) });
        });
    }
    for machine in machine_names(&world.machines()) {
        let starts = machine == "lab-t8v2x";
        world.server.edit(MACHINES, &machine, |machine| {
            machine["status"] = json!({
                "phase": if starts { "Pending" } else { "Running" },
                "observedGeneration": machine["metadata"]["generation"],
            });
        });
    }
    world.server.take_log();
    world
}

fn devices(machine: &Value) -> Vec<String> {
    let devices = machine["spec"]["blockDeviceRefs"].as_array().unwrap().iter();
    devices.map(|device| device["name"].as_str().unwrap().to_owned()).collect()
}

fn machine(world: &LeaderWorld, name: &str) -> Value {
    world.server.get(MACHINES, name).unwrap()
}

fn markers(machine: &Value) -> (String, String) {
    let marker = |field: &str, key: &str| {
        machine["metadata"][field][format!("{PREFIX}/{key}")].as_str().unwrap_or_default().to_owned()
    };
    (marker("labels", "template-hash"), marker("annotations", "patched-template-hash"))
}

fn writes_to<'a>(writes: &'a [Call], name: &str) -> Vec<&'a Call> {
    writes.iter().filter(|call| call.name == name && call.is_write()).collect()
}

/// The state after the just created machine runs. Until then it counts as unavailable.
async fn taken_over() -> (LeaderWorld, Vec<Call>) {
    let mut world = left_behind();
    world.lead();
    world.calm().await;
    start(&world, "lab-t8v2x");
    world.calm().await;
    let writes = world.take_writes();
    (world, writes)
}

/// The platform evaluates a machine and starts it.
fn start(world: &LeaderWorld, name: &str) {
    world.server.edit(MACHINES, name, |machine| {
        machine["status"]["phase"] = json!("Running");
        machine["status"]["observedGeneration"] = machine["metadata"]["generation"].clone();
    });
}

#[tokio::test]
async fn a_settled_machine_gets_only_its_markers_in_one_write() {
    let (world, writes) = taken_over().await;
    let revision =
        world.server.get("virtualmachinepools", "lab").unwrap()["status"]["desiredTemplateHash"].clone();
    for (name, size) in [("lab-c5x2q", "1Gi"), ("lab-k7w9z", "3Gi")] {
        let [write] = writes_to(&writes, name)[..] else { panic!("{writes:?}") };
        assert_eq!(write.body.get("spec"), None, "{name} is not touched: {}", write.body);
        let machine = machine(&world, name);
        assert_eq!(machine["metadata"]["generation"], 1);
        assert_eq!(
            machine["spec"]["memory"]["size"], size,
            "what was changed by hand stays until the template changes"
        );
        let (label, written) = markers(&machine);
        assert_eq!((json!(label), json!(written)), (revision.clone(), revision.clone()));
    }
    assert_eq!(devices(&machine(&world, "lab-k7w9z")), ["lab-k7w9z-system", "lab-work-f6g7h8", "extras"]);
    let map = machine(&world, "lab-k7w9z")["metadata"]["annotations"][format!("{PREFIX}/disks")].clone();
    assert_eq!(map, r#"{"system":"lab-k7w9z-system","work":"lab-work-f6g7h8"}"#);
}

/// One machine of four does not run and uses the whole budget. The other machines get their markers
/// nevertheless.
#[tokio::test]
async fn labels_need_no_budget_and_changes_of_the_spec_do() {
    let mut world = left_behind();
    // Another hash of the same content, as another version of the controller would compute it.
    world.server.edit(MACHINES, "lab-c5x2q", |machine| {
        machine["metadata"]["labels"][format!("{PREFIX}/template-hash")] = json!("0badcafe");
        machine["metadata"]["annotations"][format!("{PREFIX}/patched-template-hash")] = json!("0badcafe");
    });
    world.lead();
    world.calm().await;
    assert_eq!(machine(&world, "lab-t8v2x")["status"]["phase"], "Pending");
    for name in ["lab-c5x2q", "lab-k7w9z"] {
        let machine = machine(&world, name);
        let (label, written) = markers(&machine);
        assert!(label == written && label.len() == 16, "{name}: {label} {written}");
        assert_eq!(machine["metadata"]["generation"], 1);
    }
    let late = machine(&world, "lab-m4n6p");
    assert_eq!((&late["metadata"]["generation"], markers(&late).0), (&json!(1), "77120fd3".to_owned()));
    assert!(writes_to(&world.take_writes(), "lab-m4n6p").is_empty(), "it has no place yet");
    start(&world, "lab-t8v2x");
    world.calm().await;
    assert_eq!(machine(&world, "lab-m4n6p")["metadata"]["generation"], 2);
}

#[tokio::test]
async fn while_rollouts_are_paused_disks_are_repaired_and_machines_are_not_updated() {
    let mut world = left_behind();
    world
        .server
        .edit("virtualmachinepools", "lab", |pool| pool["spec"]["rollout"] = json!({ "paused": true }));
    world.server.delete("virtualdisks", "lab-c5x2q-system");
    world.server.edit(MACHINES, "lab-k7w9z", |machine| machine["status"]["phase"] = json!("Pending"));
    world.server.edit("virtualdisks", "lab-work-f6g7h8", |disk| {
        disk["status"] = json!({ "phase": "PVCLost" });
    });
    world.lead();
    world.calm().await;
    let writes = world.take_writes();
    let made = world.server.get("virtualdisks", "lab-c5x2q-system").expect("it is made again");
    assert_eq!(
        made["metadata"]["ownerReferences"][0]["uid"],
        machine(&world, "lab-c5x2q")["metadata"]["uid"]
    );
    for name in ["lab-c5x2q", "lab-m4n6p"] {
        assert!(writes_to(&writes, name).is_empty(), "{name} was written to");
    }
    // A retained disk without its volume is replaced, and the machine refers to the replacement. Its other
    // devices are unchanged.
    let replaced = machine(&world, "lab-k7w9z");
    let now = devices(&replaced);
    assert!(now[1] != "lab-work-f6g7h8" && now[0] == "lab-k7w9z-system", "{now:?}");
    let map = replaced["metadata"]["annotations"][format!("{PREFIX}/disks")].clone();
    assert_eq!(map, json!({ "work": now[1] }).to_string());
}

#[tokio::test]
async fn no_machine_is_created_removed_or_restarted() {
    let (world, writes) = taken_over().await;
    assert_eq!(count(&writes, Verb::Create, MACHINES), 0);
    assert!(writes.iter().all(|call| call.verb != Verb::Delete), "{writes:?}");
    assert_eq!(world.machines().len(), 4);
    assert_eq!(count(&writes, Verb::Create, "controllerrevisions"), 1);
    // A settled running machine costs one write, and its disks cost none.
    let to_disks = writes.iter().filter(|call| call.resource == "virtualdisks" && call.verb != Verb::Create);
    let to_disks: Vec<String> = to_disks.map(ToString::to_string).collect();
    assert!(to_disks.iter().all(|call| !call.contains("b2c3d4") && !call.contains("f6g7h8")), "{to_disks:?}");
}

#[tokio::test]
async fn a_machine_that_lacks_the_last_change_gets_it() {
    let (world, _) = taken_over().await;
    let late = machine(&world, "lab-m4n6p");
    assert_eq!((&late["spec"]["cpu"]["cores"], &late["metadata"]["generation"]), (&json!(2), &json!(2)));
    assert_eq!(markers(&late).0, "77120fd3", "until the platform has evaluated the machine");
    start(&world, "lab-m4n6p");
    world.calm().await;
    let (label, written) = markers(&machine(&world, "lab-m4n6p"));
    assert_eq!(label, written);
}

#[tokio::test]
async fn a_machine_without_disks_gets_its_own_and_none_named_like_a_template() {
    let (world, writes) = taken_over().await;
    let young = machine(&world, "lab-t8v2x");
    let devices = devices(&young);
    assert_eq!((&*devices[0], &*devices[1]), ("lab-t8v2x-system", "extras"));
    assert_eq!(devices[2], "lab-work-z9y8x7", "the free retained disk");
    let stranger = world.server.get("virtualdisks", "work").unwrap();
    assert_eq!(
        (&stranger["metadata"]["labels"], &stranger["metadata"]["ownerReferences"]),
        (&Value::Null, &Value::Null)
    );
    assert!(writes_to(&writes, "work").is_empty());
    let own = world.server.get("virtualdisks", "lab-t8v2x-system").unwrap();
    assert_eq!(own["metadata"]["ownerReferences"][0]["uid"], young["metadata"]["uid"]);
    assert_eq!(own["metadata"]["namespace"], NAMESPACE);
}

#[tokio::test]
async fn after_its_adoption_a_pool_behaves_like_any_other() {
    let (world, _) = taken_over().await;
    for _ in 0..3 {
        world.run_machines();
        world.calm().await;
    }
    let status = world.server.get("virtualmachinepools", "lab").unwrap()["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(4), &json!(4)));
    world.server.take_log();
    world.advance(SECOND * 660).await;
    let requests: Vec<String> = world.server.take_log().iter().map(ToString::to_string).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

#[tokio::test]
async fn an_interrupted_adoption_is_completed_by_the_next_leader() {
    for killed_after in 0..6 {
        let mut world = left_behind();
        let mut left = killed_after;
        world.server.intercept(move |call| {
            if call.is_write() && call.resource != "events" {
                left -= 1;
            }
            if left < 0 { crate::testing::Fate::Unreachable } else { crate::testing::Fate::Serve }
        });
        world.lead();
        world.calm().await;
        world.kill_leader().await;
        world.server.behave();
        world.lead();
        for _ in 0..4 {
            world.calm().await;
            world.run_machines();
        }
        assert_eq!(world.machines().len(), 4);
        let settled = machine(&world, "lab-c5x2q");
        assert_eq!(settled["metadata"]["generation"], 1, "after {killed_after} writes");
        let (label, written) = markers(&settled);
        assert!(label == written && label.len() == 16, "after {killed_after} writes: {label} {written}");
    }
}

#[tokio::test]
async fn a_migrated_machine_that_a_user_detached_is_released_and_replaced() {
    let (world, _) = taken_over().await;
    world.server.edit(MACHINES, "lab-k7w9z", |machine| {
        machine["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    });
    world.calm().await;
    let released = machine(&world, "lab-k7w9z");
    let has_marker = |field: &str| {
        let keys = released["metadata"][field].as_object().into_iter().flatten();
        keys.into_iter().any(|(key, _)| key.starts_with(PREFIX))
    };
    assert!(!has_marker("labels") && !has_marker("annotations"), "{released}");
    // It keeps its disks, which are deleted with it.
    for disk in devices(&released).iter().filter(|name| *name != "extras") {
        let disk = world.server.get("virtualdisks", disk).unwrap();
        assert_eq!(disk["metadata"]["ownerReferences"][0]["uid"], released["metadata"]["uid"], "{disk}");
    }
    assert_eq!(world.machines().len(), 5, "the pool has another machine");
}

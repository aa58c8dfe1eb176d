//! What a pool shows and does while a machine is in a state that only KubeVirt has.

use super::*;

/// The pool `web` with the machines `web-0` and `web-1`, whose instances have the current revision and are
/// ready.
async fn running_world() -> LeaderWorld {
    let mut world = LeaderWorld::new();
    lead(&mut world, 2);
    world.calm().await;
    for name in ["web-0", "web-1"] {
        start(&world, name);
        world.server.edit(MACHINES, name, |machine| machine["status"] = status_of("Running", "True"));
    }
    world.calm().await;
    world.take_writes();
    assert_eq!(shown(&world), (2, 2, "True: 2 machines are ready and up to date".to_owned()));
    world
}

/// KubeVirt starts a machine with its present template.
fn start(world: &LeaderWorld, name: &str) {
    let machine = world.server.get(MACHINES, name).unwrap();
    let owner = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "controller": true,
        "uid": machine["metadata"]["uid"],
    });
    let template = &machine["spec"]["template"];
    let metadata = json!({
        "name": name, "namespace": NAMESPACE, "ownerReferences": [owner],
        "labels": template["metadata"]["labels"],
    });
    let status = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    let instance = json!({ "metadata": metadata, "spec": template["spec"], "status": status });
    world.server.create(INSTANCES, instance);
}

fn status_of(printable: &str, ready: &str) -> Value {
    json!({ "printableStatus": printable, "conditions": [{ "type": "Ready", "status": ready }] })
}

/// The ready and the updated replicas, and the condition `Ready`.
fn shown(world: &LeaderWorld) -> (u64, u64, String) {
    let status = world.server.get(POOLS, "web").unwrap()["status"].clone();
    let ready = status["conditions"].as_array().into_iter().flatten().find(|known| known["type"] == "Ready");
    let ready = ready.expect("the condition Ready");
    let text = |field: &str| ready[field].as_str().unwrap();
    let count = |field: &str| status[field].as_u64().unwrap_or_default();
    (count("readyReplicas"), count("updatedReplicas"), format!("{}: {}", text("status"), text("message")))
}

/// A state of `web-0`: the strategy of the machine, its status, and the phase of its instance, if it has one.
struct MachineCase {
    strategy: &'static str,
    status: Value,
    phase: Option<&'static str>,
}

fn state(strategy: &'static str, status: Value, phase: Option<&'static str>) -> MachineCase {
    MachineCase { strategy, status, phase }
}

fn with(mut status: Value, fields: &Value) -> Value {
    json_patch::merge(&mut status, fields);
    status
}

fn with_condition(mut status: Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.push(json!({ "type": kind, "status": "True", "message": "as KubeVirt says" }));
    status
}

/// A state without an effect on the numbers.
const READY: (u64, &str) = (2, "True: 2 machines are ready and up to date");

#[rstest]
#[case::always_requires_a_restart(
    state("Always", with_condition(status_of("Running", "True"), "RestartRequired"), Some("Running")),
    READY
)]
#[case::is_paused(
    state("Always", with_condition(status_of("Paused", "True"), "Paused"), Some("Running")),
    READY
)]
#[case::migrates(state("Always", status_of("Migrating", "True"), Some("Running")), READY)]
#[case::is_in_a_snapshot(
    state("Always", with(status_of("Running", "True"), &json!({ "snapshotInProgress": "s" })), Some("Running")), READY)]
#[case::was_shut_down_by_its_guest(
    state("RerunOnFailure", status_of("Stopped", "False"), Some("Succeeded")),
    (1, "its guest was shut down, and with its runStrategy RerunOnFailure KubeVirt does not start it again"))]
#[case::has_run_once(
    state("Once", status_of("Stopped", "False"), Some("Succeeded")),
    (1, "its guest has ended, and with its runStrategy Once KubeVirt does not start it again"))]
#[case::is_restored(
    state("Always", with(status_of("Stopped", "False"), &json!({ "restoreInProgress": "back" })), None),
    (1, "VirtualMachineRestore back is in progress"))]
#[case::is_paused_and_not_ready(
    state("Always", with_condition(status_of("Paused", "False"), "Paused"), Some("Running")),
    (1, "Paused: as KubeVirt says"))]
#[tokio::test]
async fn the_numbers_and_the_sentence_of_a_pool_are_right_if_a_machine(
    #[case] machine_case: MachineCase,
    #[case] expected: (u64, &str),
) {
    let (ready, sentence) = expected;
    let world = running_world().await;
    let MachineCase { strategy, status, phase } = machine_case;
    let is_ready = status["conditions"][0]["status"].clone();
    if let Some(phase) = phase {
        world.server.edit(INSTANCES, "web-0", |instance| {
            instance["status"]["phase"] = json!(phase);
            instance["status"]["conditions"][0]["status"] = is_ready;
        });
    } else {
        world.server.delete(INSTANCES, "web-0");
    }
    world.server.edit(MACHINES, "web-0", |machine| {
        machine["spec"]["runStrategy"] = json!(strategy);
        machine["status"] = status;
    });
    // A problem is shown when it lasts.
    world.advance(SECOND * 60).await;
    let (shown_ready, updated, message) = shown(&world);
    assert_eq!((shown_ready, updated), (ready, 2), "{message}");
    assert!(message.contains(sentence), "{message}");
    let writes = world.take_writes();
    assert!(
        writes.iter().all(|call| call.subresource == "status" || call.resource == "events"),
        "{writes:?}"
    );
}

/// KubeVirt reports that the machine needs another restart as soon as it has restarted.
#[tokio::test]
async fn a_machine_that_always_requires_a_restart_is_restarted_once_for_each_template() {
    let world = running_world().await;
    let requires = |world: &LeaderWorld| {
        world.server.edit(MACHINES, "web-0", |machine| {
            machine["status"] = with_condition(status_of("Running", "True"), "RestartRequired");
        });
    };
    requires(&world);
    world.server.edit(POOLS, "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["hostname"] = json!("other");
    });
    world.calm().await;
    assert_eq!(count(&world.take_writes(), Verb::Delete, "virtualmachineinstances"), 2);
    for name in ["web-0", "web-1"] {
        start(&world, name);
    }
    requires(&world);
    world.advance(SECOND * 60).await;
    assert_eq!(count(&world.take_writes(), Verb::Delete, "virtualmachineinstances"), 0);
    assert_eq!(shown(&world), (2, 2, "True: 2 machines are ready and up to date".to_owned()));
}

//! Hot-plugs: the instance changes at once, and its guest later.

use super::{KubeVirtObjectKind, KubeVirtTestbed, ms, running};
use serde_json::{Value, json};

/// What the status of the instance says about its guest: the sockets, the memory, and whether the conditions
/// of hot-plugs exist.
fn guest_size(stage: &KubeVirtTestbed) -> Value {
    let status = stage.get(KubeVirtObjectKind::Instance, "a")["status"].clone();
    let pending = ["HotVCPUChange", "HotMemoryChange"]
        .map(|kind| stage.condition(KubeVirtObjectKind::Instance, "a", kind) != "absent");
    json!([status["currentCPUTopology"]["sockets"], status["memory"]["guestCurrent"], pending])
}

/// The running machine with more sockets and memory, 50 ms after the change.
fn enlarged() -> KubeVirtTestbed {
    let mut stage = running(&[]);
    assert_eq!(guest_size(&stage), json!([1, "512Mi", [false, false]]));
    let larger = json!({"cpu": {"sockets": 4}, "memory": {"guest": "1Gi"}});
    let change = json!({"spec": {"template": {"spec": {"domain": larger}}}});
    stage.edit(KubeVirtObjectKind::Machine, "a", &change);
    stage.run(ms(50));
    stage
}

#[test]
fn a_hot_plug_changes_the_instance_at_once_and_the_guest_later() {
    let mut stage = enlarged();
    let domain = stage.get(KubeVirtObjectKind::Instance, "a")["spec"]["domain"].clone();
    assert_eq!(json!([domain["cpu"]["sockets"], domain["memory"]["guest"]]), json!([4, "1Gi"]));
    assert_eq!(guest_size(&stage), json!([1, "512Mi", [true, true]]));
    stage.settle();
    assert_eq!(guest_size(&stage), json!([4, "1Gi", [false, false]]));
    let memory = stage.get(KubeVirtObjectKind::Instance, "a")["status"]["memory"].clone();
    assert_eq!(memory, json!({"guestAtBoot": "512Mi", "guestCurrent": "1Gi", "guestRequested": "1Gi"}));
}

#[test]
fn the_next_guest_starts_with_all_of_the_spec() {
    let mut stage = enlarged();
    stage.delete(KubeVirtObjectKind::Instance, "a");
    stage.settle();
    assert_eq!(guest_size(&stage), json!([4, "1Gi", [false, false]]));
    let memory = stage.get(KubeVirtObjectKind::Instance, "a")["status"]["memory"].clone();
    assert_eq!(memory["guestAtBoot"], "1Gi");
}

#[test]
fn a_restarted_simulator_continues_a_hot_plug() {
    let mut stage = enlarged();
    stage.restart_simulator();
    stage.run(ms(20));
    assert_eq!(guest_size(&stage), json!([1, "512Mi", [true, true]]));
    stage.settle();
    assert_eq!(guest_size(&stage), json!([4, "1Gi", [false, false]]));
}

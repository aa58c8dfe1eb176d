use rstest::rstest;
use serde_json::json;

use crate::{
    conditions::{self, Conditions},
    v1alpha2::{BlockDeviceRef, DiskTemplate, VirtualDisk, VirtualMachine, VirtualMachinePool},
    words::{MachinePhase, ReclaimPolicy, ScaleDownPolicy},
};

fn machine(status: &serde_json::Value) -> VirtualMachine {
    serde_json::from_value(json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2",
        "kind": "VirtualMachine",
        "metadata": {"name": "web-7xk2d"},
        "spec": {
            "cpu": {"cores": 1},
            "memory": {"size": 536_870_912_000_u64},
            "blockDeviceRefs": [{"kind": "VirtualDisk", "name": "web-7xk2d-root"}],
        },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn a_machine_without_status_has_no_phase_and_no_conditions() {
    let machine = machine(&json!(null));
    assert_eq!(machine.phase(), None);
    assert!(machine.conditions().is_empty());
    assert!(machine.reported_devices().is_empty());
}

#[test]
fn a_phase_of_a_newer_platform_leaves_the_object_readable() {
    let machine = machine(&json!({"phase": "Hibernating", "nodeName": "node-1"}));
    assert_eq!(machine.phase(), None);
    let status = machine.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Hibernating"));
    assert_eq!(status.node_name.as_deref(), Some("node-1"));
}

#[test]
fn the_status_of_a_machine_is_read() {
    let machine = machine(&json!({
        "phase": "Running",
        "blockDeviceRefs": [{"kind": "VirtualDisk", "name": "web-7xk2d-root", "attached": true, "size": "1Gi"}],
        "restartAwaitingChanges": [{"operation": "replace", "path": "cpu.cores", "currentValue": 1, "desiredValue": 2}],
        "conditions": [{
            "type": "Running", "status": "True", "reason": "Running", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }],
    }));
    assert_eq!(machine.phase(), Some(MachinePhase::Running));
    assert!(machine.has_condition(conditions::machine::RUNNING));
    assert!(!machine.has_condition(conditions::machine::AWAITING_RESTART));
    assert!(machine.reported_devices()[0].attached);
    // A size in bytes beyond 32 bits, as a number.
    assert_eq!(machine.spec.memory.size.bytes(), Ok(536_870_912_000));
}

#[test]
fn a_disk_reports_the_machine_that_mounted_it() {
    let disk: VirtualDisk = serde_json::from_value(json!({
        "metadata": {"name": "cache"},
        "spec": {},
        "status": {"attachedToVirtualMachines": [{"name": "a", "mounted": false}, {"name": "b", "mounted": true}]},
    }))
    .unwrap();
    assert_eq!(disk.users().len(), 2);
    assert_eq!(disk.mounted_by(), Some("b"));
}

#[rstest]
#[case::absent(None, 0)]
#[case::some(Some(3), 3)]
#[case::negative(Some(-1), 0)]
fn desired_replicas_are_never_negative(#[case] replicas: Option<i32>, #[case] desired: usize) {
    let mut pool = VirtualMachinePool::sketch("web", ScaleDownPolicy::Explicit).build();
    pool.spec.replicas = replicas;
    assert_eq!(pool.desired_replicas(), desired);
}

#[rstest]
#[case::without_reclaim(json!(null), ReclaimPolicy::Delete)]
#[case::empty(json!({}), ReclaimPolicy::Delete)]
#[case::retain(json!({"onScaleDown": "Retain"}), ReclaimPolicy::Retain)]
#[case::unknown(json!({"onScaleDown": "Archive"}), ReclaimPolicy::Delete)]
fn only_retain_keeps_disks(#[case] reclaim: serde_json::Value, #[case] policy: ReclaimPolicy) {
    let mut template = DiskTemplate::blank("cache", "1Gi");
    template.reclaim = serde_json::from_value(reclaim).unwrap();
    assert_eq!(template.reclaim_policy(), policy);
}

#[test]
fn images_are_not_disks() {
    assert!(BlockDeviceRef::disk("root").is_disk());
    assert!(!BlockDeviceRef::image("root").is_disk());
    assert!(!BlockDeviceRef::cluster_image("root").is_disk());
}

use rstest::rstest;
use serde_json::json;

use crate::{
    conditions::{Conditions, pool},
    enums::{ReclaimPolicy, ScaleDownPolicy},
    v1alpha2::{DiskTemplate, VirtualMachine, VirtualMachinePool},
};

#[test]
fn a_pool_without_status_has_no_conditions() {
    let pool = VirtualMachinePool::builder("web", ScaleDownPolicy::Explicit).build();
    assert!(pool.conditions().is_empty());
    assert_eq!(pool.condition(pool::AVAILABLE), None);
}

#[test]
fn the_conditions_of_a_pool_are_read() {
    let mut pool = VirtualMachinePool::builder("web", ScaleDownPolicy::Explicit).build();
    pool.status = serde_json::from_value(json!({"conditions": [
        {"type": "Available", "status": "True", "reason": "AllReplicasReady", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z"},
        {"type": "Synced", "status": "False", "reason": "RolloutInProgress", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z"},
    ]}))
    .unwrap();
    assert!(pool.has_condition(pool::AVAILABLE));
    assert!(!pool.has_condition(pool::SYNCED));
    assert_eq!(pool.condition(pool::SYNCED).map(|synced| &*synced.reason), Some("RolloutInProgress"));
}

#[test]
fn a_phase_of_a_newer_platform_leaves_the_object_readable() {
    let machine: VirtualMachine = serde_json::from_value(json!({
        "metadata": {"name": "web-7xk2d"},
        "spec": {
            "cpu": {"cores": 1},
            "memory": {"size": 536_870_912_000_u64},
            "blockDeviceRefs": [{"kind": "VirtualDisk", "name": "web-7xk2d-root"}],
        },
        "status": {"phase": "Hibernating", "nodeName": "node-1"},
    }))
    .unwrap();
    // A size in bytes beyond 32 bits, as a number.
    assert_eq!(machine.spec.memory.size.bytes(), Ok(536_870_912_000));
    let status = machine.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Hibernating"));
    assert_eq!(status.node_name.as_deref(), Some("node-1"));
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

//! The pool manifests of the simulated user.

use serde_json::{Value, json};

/// The resource of machines.
pub(crate) const MACHINES: &str = "virtualmachines.virtualization.deckhouse.io";
/// The resource of disks.
pub(crate) const DISKS: &str = "virtualdisks.virtualization.deckhouse.io";
/// The resource of pools.
pub(crate) const POOLS: &str = "virtualmachinepools.virtualization.deckhouse.io";
/// Resources that the controllers watch.
pub const WATCHED: [&str; 4] =
    [POOLS, MACHINES, DISKS, "virtualmachineblockdeviceattachments.virtualization.deckhouse.io"];

/// Name of the only pool.
pub const POOL: &str = "web";

/// A disk template.
pub fn disk(name: &str, reclaim: &Value) -> Value {
    let mut disk = json!({
        "name": name,
        "spec": {
            "persistentVolumeClaim": { "size": "64Mi" },
            "dataSource": { "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": "alpine" } },
        },
    });
    if !reclaim.is_null() {
        disk["reclaim"] = reclaim.clone();
    }
    disk
}

/// A pool with this number of replicas, this scale-down policy and these disk templates.
pub fn pool(replicas: i64, policy: &str, disks: &[(&'static str, Value)]) -> Value {
    let devices: Vec<Value> =
        disks.iter().map(|(name, _)| json!({ "kind": "VirtualDisk", "name": name })).collect();
    let disks: Vec<Value> = disks.iter().map(|(name, reclaim)| disk(name, reclaim)).collect();
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool", "metadata": { "name": POOL },
        "spec": {
            "replicas": replicas,
            "scaleDownPolicy": policy,
            "virtualMachineTemplate": { "spec": {
                "virtualMachineClassName": "generic",
                "cpu": { "cores": 1 },
                "memory": { "size": "512Mi" },
                "blockDeviceRefs": devices,
            } },
            "virtualDiskTemplates": disks,
        },
    })
}

/// The part of a spec that contains the block devices and the disk templates.
pub fn templates(devices: &[Value], disks: &[Value]) -> Value {
    json!({ "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } }, "virtualDiskTemplates": disks })
}

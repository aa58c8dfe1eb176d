//! What users write into pools.

use serde_json::{Value, json};

/// The pool that everything is about.
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

/// A pool of so many machines, with this policy and these disk templates.
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

/// The part of a spec that says which devices machines have, and what their disks are.
pub fn templates(devices: &[Value], disks: &[Value]) -> Value {
    json!({ "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } }, "virtualDiskTemplates": disks })
}

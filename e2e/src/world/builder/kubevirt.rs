//! Pools of KubeVirt.

use serde_json::{Value, json};
use vmpool_api::kubevirt::POOL_API_VERSION;
use vmpool_invariants::object::TestedKind;

use super::parts::{PoolScaleDownPolicy, push_list_item};

/// A pool of small machines without disks that always run.
pub(super) fn kubevirt_pool_object(namespace: &str, name: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": POOL_API_VERSION,
        "kind": TestedKind::Pool.name(),
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "replicas": 0,
            "maxUnavailable": 1,
            "selector": { "matchLabels": labels },
            "virtualMachineTemplate": {
                "metadata": { "labels": labels },
                "spec": {
                    "runStrategy": "Always",
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": {
                            "domain": { "memory": { "guest": "512Mi" }, "devices": {} },
                        },
                    },
                },
            },
        },
    })
}

/// Sets how the pool is scaled in.
pub(super) fn set_policy(spec: &mut Value, policy: PoolScaleDownPolicy) {
    let sort = match policy {
        PoolScaleDownPolicy::NewestFirst => "Newest",
        PoolScaleDownPolicy::OldestFirst => "Oldest",
        PoolScaleDownPolicy::Explicit => {
            spec["scaleInStrategy"] = json!({ "unmanaged": {} });
            return;
        }
    };
    spec["scaleInStrategy"] = json!({ "proactive": { "selectionPolicy": { "sortPolicy": sort } } });
}

/// Adds an empty DataVolume to each machine.
pub(super) fn add_disk(spec: &mut Value, name: &str) {
    let machine = &mut spec["virtualMachineTemplate"]["spec"];
    let storage = json!({ "resources": { "requests": { "storage": "64Mi" } } });
    let volume =
        json!({ "metadata": { "name": name }, "spec": { "source": { "blank": {} }, "storage": storage } });
    append(&mut machine["dataVolumeTemplates"], volume);
    let guest = &mut machine["template"]["spec"];
    append(&mut guest["domain"]["devices"]["disks"], json!({ "name": name, "disk": { "bus": "virtio" } }));
    append(&mut guest["volumes"], json!({ "name": name, "dataVolume": { "name": name } }));
}

/// Adds to a list that may be absent.
fn append(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    push_list_item(list, item);
}

//! The pools that are measured.

use serde_json::{Value, json};
use vmpool_api::{kubevirt, v1alpha2};
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::Kind;

/// A pool of DVP with this number of disks per machine.
pub(crate) fn dvp(name: &str, replicas: usize, disks: usize) -> Value {
    let disk = |number: usize| format!("disk{number}");
    let image = json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": IMAGE } });
    let devices: Vec<Value> = if disks == 0 {
        vec![json!({ "kind": "ClusterVirtualImage", "name": IMAGE })]
    } else {
        (0..disks).map(|number| json!({ "kind": "VirtualDisk", "name": disk(number) })).collect()
    };
    let templates: Vec<Value> =
        (0..disks).map(|number| json!({ "name": disk(number), "spec": { "dataSource": image } })).collect();
    json!({
        "apiVersion": v1alpha2::API_VERSION,
        "kind": Kind::Pool.name(),
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "scaleDownPolicy": "NewestFirst",
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "virtualMachineClassName": CLASS,
                    "cpu": { "cores": 1, "coreFraction": "5%" },
                    "memory": { "size": "512Mi" },
                    "blockDeviceRefs": devices,
                },
            },
            "virtualDiskTemplates": templates,
        },
    })
}

/// A pool of KubeVirt with this number of DataVolume templates.
pub(crate) fn kubevirt(name: &str, replicas: usize, disks: usize) -> Value {
    let disk = |number: usize| format!("disk{number}");
    let templates: Vec<Value> = (0..disks)
        .map(|number| {
            json!({
                "metadata": { "name": disk(number) },
                "spec": {
                    "source": { "blank": {} },
                    "storage": { "resources": { "requests": { "storage": "1Gi" } } },
                },
            })
        })
        .collect();
    let image = json!({ "name": "boot", "containerDisk": { "image": "registry.example/alpine:3" } });
    let volume = |number: usize| json!({ "name": disk(number), "dataVolume": { "name": disk(number) } });
    let volumes: Vec<Value> = std::iter::once(image).chain((0..disks).map(volume)).collect();
    let devices: Vec<Value> =
        volumes.iter().map(|volume| json!({ "name": volume["name"], "disk": { "bus": "virtio" } })).collect();
    json!({
        "apiVersion": kubevirt::POOL_API_VERSION,
        "kind": Kind::Pool.name(),
        "metadata": { "name": name },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "scaleInStrategy": { "proactive": { "selectionPolicy": { "sortPolicy": "DescendingOrder" } } },
            "virtualMachineTemplate": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "runStrategy": "Always",
                    "dataVolumeTemplates": templates,
                    "template": {
                        "metadata": { "labels": { "app": name } },
                        "spec": {
                            "domain": {
                                "cpu": { "cores": 1 },
                                "memory": { "guest": "512Mi" },
                                "devices": { "disks": devices },
                            },
                            "volumes": volumes,
                        },
                    },
                },
            },
        },
    })
}

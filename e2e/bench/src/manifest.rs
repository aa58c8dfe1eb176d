//! The pools that are measured.

use serde_json::{Value, json};
use vmpool_api::{instancetype, kubevirt, v1alpha2};
use vmpool_installation::installation::{CLASS, IMAGE};
use vmpool_invariants::object::TestedKind;

/// A pool of DVP with this number of disks per machine.
pub(crate) fn dvp_pool(name: &str, replicas: usize, disks: usize) -> Value {
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
        "kind": TestedKind::Pool.name(),
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

/// The name of the instance type and of the preference.
const TYPES: &str = "bench";

/// The instance type and the preference of a namespace, with the paths of their collections.
pub(crate) fn instancetype_objects(namespace: &str) -> [(String, Value); 2] {
    let of = |plural: &str, kind: &str, spec: Value| {
        let collection = format!("/apis/{}/namespaces/{namespace}/{plural}", instancetype::API_VERSION);
        let metadata = json!({ "name": TYPES });
        let object = json!({ "apiVersion": instancetype::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec });
        (collection, object)
    };
    [
        of(
            "virtualmachineinstancetypes",
            "VirtualMachineInstancetype",
            json!({ "cpu": { "guest": 1 }, "memory": { "guest": "512Mi" } }),
        ),
        of(
            "virtualmachinepreferences",
            "VirtualMachinePreference",
            json!({ "devices": { "preferredDiskBus": "virtio", "preferredRng": {} } }),
        ),
    ]
}

/// The pool with an instance type and a preference instead of cores and memory.
pub(crate) fn pool_with_instancetype(mut pool: Value) -> Value {
    let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
    spec["instancetype"] = json!({ "name": TYPES, "kind": "VirtualMachineInstancetype" });
    spec["preference"] = json!({ "name": TYPES, "kind": "VirtualMachinePreference" });
    if let Some(domain) = spec["template"]["spec"]["domain"].as_object_mut() {
        domain.retain(|field, _| field == "devices");
    }
    pool
}

/// A pool of KubeVirt with this number of DataVolume templates.
pub(crate) fn kubevirt_pool(name: &str, replicas: usize, disks: usize) -> Value {
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
        "kind": TestedKind::Pool.name(),
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

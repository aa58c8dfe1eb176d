//! The KubeVirt pools of the simulated user.

use serde_json::{Value, json};

use crate::manifest::{DRAIN, LONGEST_DRAIN, LONGEST_PROTECTION, MAX_PROTECTION, POOL};

/// The label that the pool selects.
pub const LABEL: &str = "farm";

/// The preference that templates may name.
pub const PREFERENCE: &str = "linux";

/// The preference that templates may name. Machines keep their cores and their memory, which schedules
/// change.
pub fn preference_object() -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachinePreference",
        "metadata": { "name": PREFERENCE },
        "spec": { "devices": { "preferredRng": {} } },
    })
}

/// The instance types that templates may name. There are few, so that operations meet.
pub const INSTANCETYPES: [&str; 3] = ["small", "medium", "large"];

/// The name of one of them.
pub fn instancetype_name(which: usize) -> &'static str {
    INSTANCETYPES[which % INSTANCETYPES.len()]
}

/// What names one of them.
pub fn instancetype_matcher(which: usize) -> Value {
    json!({ "name": instancetype_name(which), "kind": "VirtualMachineInstancetype" })
}

/// One of them, with this number of vCPUs.
pub fn instancetype_object(which: usize, vcpus: i64) -> Value {
    json!({
        "apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype",
        "metadata": { "name": instancetype_name(which) },
        "spec": instancetype_spec(vcpus),
    })
}

/// The spec of an instance type.
pub fn instancetype_spec(vcpus: i64) -> Value {
    json!({ "cpu": { "guest": vcpus }, "memory": { "guest": format!("{}Mi", 512 * vcpus) } })
}

/// Where the name of the instance type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeSource {
    /// In the template.
    Name,
    /// In a label of a claim.
    Claim,
}

/// The claim whose labels name an instance type. All machines have it as a volume.
pub const CLAIM: &str = "golden";

/// The label of the claim with the name of the instance type.
pub const DEFAULT_INSTANCETYPE: &str = "instancetype.kubevirt.io/default-instancetype";

/// The claim, which names the first instance type.
pub fn claim_naming_instancetype() -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": CLAIM, "labels": {
            (DEFAULT_INSTANCETYPE): instancetype_name(0),
            "instancetype.kubevirt.io/default-instancetype-kind": "VirtualMachineInstancetype",
        } },
        "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "64Mi" } } },
    })
}

/// What takes the name of the instance type from the claim.
pub fn inferring_matcher() -> Value {
    json!({ "inferFromVolume": CLAIM })
}

/// The pool with an instance type instead of cores and memory.
pub fn pool_with_instancetype(mut pool: Value, from: TypeSource) -> Value {
    let spec = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
    spec["instancetype"] = match from {
        TypeSource::Name => instancetype_matcher(0),
        TypeSource::Claim => inferring_matcher(),
    };
    if let (TypeSource::Claim, Some(volumes)) = (from, spec["template"]["spec"]["volumes"].as_array_mut()) {
        volumes.push(shared_volume());
    }
    if let Some(domain) = spec["template"]["spec"]["domain"].as_object_mut() {
        domain.retain(|field, _| field == "devices");
    }
    pool
}

/// The volume with the claim.
fn shared_volume() -> Value {
    json!({ "name": CLAIM, "persistentVolumeClaim": { "claimName": CLAIM } })
}

/// A DataVolume template.
pub fn data_volume_template(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "source": { "blank": {} },
            "storage": { "resources": { "requests": { "storage": "64Mi" } } },
        },
    })
}

/// A volume for a DataVolume template.
pub fn data_volume_reference(name: &str) -> Value {
    json!({ "name": name, "dataVolume": { "name": name } })
}

/// A device for a volume.
pub fn disk_device(name: &str) -> Value {
    json!({ "name": name, "disk": { "bus": "virtio" } })
}

/// The fields of a spec that say how a pool with this policy is scaled in: a sort policy, `Opportunistic` or
/// `Unmanaged`.
pub fn scale_in_strategy(policy: &str, preserve: bool) -> Value {
    let preservation = if preserve { "Offline" } else { "Disabled" };
    match policy {
        "Unmanaged" => json!({ "unmanaged": {} }),
        "Opportunistic" => json!({ "opportunistic": { "statePreservation": preservation } }),
        policy => json!({ "proactive": {
            "statePreservation": preservation, "selectionPolicy": { "sortPolicy": policy },
        } }),
    }
}

/// A pool with this number of replicas, this policy and these DataVolume templates. If one of them is
/// retained, the pool preserves the storage of its machines.
pub fn kubevirt_pool(replicas: i64, policy: &str, disks: &[(&'static str, Value)]) -> Value {
    let preserve = disks.iter().any(|(_, reclaim)| !reclaim.is_null());
    let of = |make: fn(&str) -> Value| disks.iter().map(|(name, _)| make(name)).collect::<Vec<_>>();
    json!({
        "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
        "metadata": { "name": POOL, "annotations": { MAX_PROTECTION: LONGEST_PROTECTION, DRAIN: LONGEST_DRAIN } },
        "spec": {
            "replicas": replicas,
            "maxUnavailable": 1,
            "selector": { "matchLabels": { (LABEL): "render" } },
            "scaleInStrategy": scale_in_strategy(policy, preserve),
            "virtualMachineTemplate": {
                "metadata": { "labels": { (LABEL): "render" } },
                "spec": {
                    "runStrategy": "Always",
                    "dataVolumeTemplates": of(data_volume_template),
                    "template": {
                        "metadata": { "labels": { (LABEL): "render" } },
                        "spec": {
                            "domain": {
                                "cpu": { "cores": 1 }, "memory": { "guest": "512Mi" },
                                "devices": { "disks": of(disk_device) },
                            },
                            "volumes": of(data_volume_reference),
                        },
                    },
                },
            },
        },
    })
}

/// The part of a spec that contains the volumes and the DataVolume templates of these names, and the claim if
/// an instance type comes from it.
pub fn spec_with_data_volumes(names: &[String], from: Option<TypeSource>) -> Value {
    let of = |make: fn(&str) -> Value| names.iter().map(|name| make(name)).collect::<Vec<_>>();
    let mut volumes = of(data_volume_reference);
    volumes.extend((from == Some(TypeSource::Claim)).then(shared_volume));
    json!({ "virtualMachineTemplate": { "spec": {
        "dataVolumeTemplates": of(data_volume_template),
        "template": { "spec": {
            "domain": { "devices": { "disks": of(disk_device) } },
            "volumes": volumes,
        } },
    } } })
}

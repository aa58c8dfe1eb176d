//! The pool manifests of the simulated user.

use serde_json::{Value, json};
use vmpool_invariants::platform::TestedPlatform;

/// The resources of a platform, by their names with the group.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Pools.
    pub pools: &'static str,
    /// Machines.
    pub machines: &'static str,
    /// Disks.
    pub disks: &'static str,
    /// What the controllers watch.
    pub watched: &'static [&'static str],
}

const DVP: Resources = Resources {
    pools: "virtualmachinepools.virtualization.deckhouse.io",
    machines: "virtualmachines.virtualization.deckhouse.io",
    disks: "virtualdisks.virtualization.deckhouse.io",
    watched: &[
        "virtualmachinepools.virtualization.deckhouse.io",
        "virtualmachines.virtualization.deckhouse.io",
        "virtualdisks.virtualization.deckhouse.io",
        "virtualmachineblockdeviceattachments.virtualization.deckhouse.io",
    ],
};

const KUBEVIRT: Resources = Resources {
    pools: "virtualmachinepools.pool.kubevirt.io",
    machines: "virtualmachines.kubevirt.io",
    disks: "datavolumes.cdi.kubevirt.io",
    watched: &[
        "virtualmachinepools.pool.kubevirt.io",
        "virtualmachines.kubevirt.io",
        "virtualmachineinstances.kubevirt.io",
        "controllerrevisions.apps",
    ],
};

/// With disk images. What pools watch comes first.
const IMAGES: Resources = Resources {
    watched: &[
        "virtualmachinepools.pool.kubevirt.io",
        "virtualmachines.kubevirt.io",
        "virtualmachineinstances.kubevirt.io",
        "controllerrevisions.apps",
        "vmdiskimages.vmpool.dev",
        "wrappedvirtualmachines.vmpool.dev",
        "datavolumes.cdi.kubevirt.io",
        "volumesnapshots.snapshot.storage.k8s.io",
        "datasources.cdi.kubevirt.io",
        "persistentvolumeclaims",
        "vmdiskimagegrants.vmpool.dev",
    ],
    ..KUBEVIRT
};

/// The resources of a platform. Only KubeVirt has disk images.
pub fn resources_of_platform(platform: TestedPlatform, images: bool) -> &'static Resources {
    match (platform, images) {
        (TestedPlatform::Dvp, _) => &DVP,
        (TestedPlatform::KubeVirt, false) => &KUBEVIRT,
        (TestedPlatform::KubeVirt, true) => &IMAGES,
    }
}

/// Group and version of a resource of a platform, or of vmpool.
pub fn group_version(platform: TestedPlatform, plural: &str) -> (&'static str, &'static str) {
    match (platform, plural) {
        (_, "poolautoscalers" | "vmdiskimages" | "vmdiskimagegrants" | "wrappedvirtualmachines") => {
            ("vmpool.dev", "v1alpha1")
        }
        (TestedPlatform::Dvp, _) => ("virtualization.deckhouse.io", "v1alpha2"),
        (TestedPlatform::KubeVirt, "virtualmachinepools") => ("pool.kubevirt.io", "v1beta1"),
        (TestedPlatform::KubeVirt, "datavolumes" | "datasources") => ("cdi.kubevirt.io", "v1beta1"),
        (TestedPlatform::KubeVirt, "volumesnapshots") => ("snapshot.storage.k8s.io", "v1"),
        (TestedPlatform::KubeVirt, "persistentvolumeclaims") => ("", "v1"),
        (TestedPlatform::KubeVirt, "controllerrevisions") => ("apps", "v1"),
        (TestedPlatform::KubeVirt, "virtualmachinepreferences" | "virtualmachineinstancetypes") => {
            ("instancetype.kubevirt.io", "v1beta1")
        }
        (TestedPlatform::KubeVirt, _) => ("kubevirt.io", "v1"),
    }
}

/// The annotation of a pool that limits the protection of its machines.
pub(crate) const MAX_PROTECTION: &str = "vmpool.dev/max-protection";
/// The longest protection. A run that ends with a protected machine takes longer.
pub(crate) const LONGEST_PROTECTION: &str = "5m";

/// The annotation of a pool that limits the drains of its machines.
pub(crate) const DRAIN: &str = "vmpool.dev/drain";
/// The longest drain. A run that ends with a draining machine takes longer.
pub(crate) const LONGEST_DRAIN: &str = r#"{"timeout":"2m"}"#;

/// The annotation of a pool that limits how many of its machines provision at the same time.
pub(crate) const MAX_PROVISIONING: &str = "vmpool.dev/max-provisioning";

/// The annotation of a pool with its standby machines, and the label of such a machine.
pub(crate) const STANDBY: &str = "vmpool.dev/standby";

/// Name of the only pool.
pub const POOL: &str = "web";

/// A disk template.
pub fn disk_template(name: &str, reclaim: &Value) -> Value {
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
pub fn dvp_pool(replicas: i64, policy: &str, disks: &[(&'static str, Value)]) -> Value {
    let devices: Vec<Value> =
        disks.iter().map(|(name, _)| json!({ "kind": "VirtualDisk", "name": name })).collect();
    let disks: Vec<Value> = disks.iter().map(|(name, reclaim)| disk_template(name, reclaim)).collect();
    json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool",
        "metadata": { "name": POOL, "annotations": { MAX_PROTECTION: LONGEST_PROTECTION, DRAIN: LONGEST_DRAIN } },
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
pub fn spec_with_disk_templates(devices: &[Value], disks: &[Value]) -> Value {
    json!({ "virtualMachineTemplate": { "spec": { "blockDeviceRefs": devices } }, "virtualDiskTemplates": disks })
}

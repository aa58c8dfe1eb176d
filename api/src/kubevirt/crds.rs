//! The CRDs as YAML, for tests and tools that install them.

use crate::crds::Crd;

#[cfg(test)]
mod tests;

macro_rules! crd {
    ($folder:literal, $name:literal, $kind:literal) => {
        Crd {
            name: $name,
            kind: $kind,
            yaml: include_str!(concat!("../../crds/", $folder, "/", $name, ".yaml")),
        }
    };
}

/// The CRD of the pool, the only kind that vmpool serves. On a cluster with KubeVirt, KubeVirt's operator
/// owns this CRD and restores its own version.
pub const POOL_CRD: Crd = crd!("kubevirt", "virtualmachinepools.pool.kubevirt.io", "VirtualMachinePool");

/// The CRDs of the platform, for tests on a cluster without it. They describe the fields that vmpool reads
/// and accept all others; on a cluster with KubeVirt, installing them would replace the platform's own.
pub const PLATFORM_CRDS: &[Crd] = &[
    crd!("kubevirt/platform", "virtualmachines.kubevirt.io", "VirtualMachine"),
    crd!("kubevirt/platform", "virtualmachineinstances.kubevirt.io", "VirtualMachineInstance"),
    crd!("kubevirt/platform", "kubevirts.kubevirt.io", "KubeVirt"),
    crd!("kubevirt/platform", "datavolumes.cdi.kubevirt.io", "DataVolume"),
    crd!("kubevirt/platform", "datasources.cdi.kubevirt.io", "DataSource"),
    crd!("kubevirt/platform", "volumesnapshots.snapshot.storage.k8s.io", "VolumeSnapshot"),
    crd!("kubevirt/platform", "volumesnapshotcontents.snapshot.storage.k8s.io", "VolumeSnapshotContent"),
];

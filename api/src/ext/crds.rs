//! The CRDs as YAML, for tests and tools that install them.

#[cfg(test)]
mod tests;

/// One CustomResourceDefinition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crd {
    /// Name of the object: plural and group.
    pub name: &'static str,
    /// The kind that it defines.
    pub kind: &'static str,
    /// The object as YAML, one document.
    pub yaml: &'static str,
}

macro_rules! crd {
    ($plural:literal, $kind:literal) => {
        Crd {
            name: concat!($plural, ".virtualization.deckhouse.io"),
            kind: $kind,
            yaml: include_str!(concat!("../../crds/", $plural, ".virtualization.deckhouse.io.yaml")),
        }
    };
}

/// The CRD of the pool, the only kind that vmpool serves and installs.
pub const POOL_CRD: Crd = crd!("virtualmachinepools", "VirtualMachinePool");

/// The CRDs of all kinds in this crate, the pool first. The others belong to the virtualization platform: on
/// a cluster with the platform, installing them would replace the platform's own.
pub const ALL_CRDS: &[Crd] = &[
    POOL_CRD,
    crd!("virtualmachines", "VirtualMachine"),
    crd!("virtualdisks", "VirtualDisk"),
    crd!("virtualimages", "VirtualImage"),
    crd!("clustervirtualimages", "ClusterVirtualImage"),
    crd!("virtualmachineclasses", "VirtualMachineClass"),
    crd!("virtualmachineoperations", "VirtualMachineOperation"),
    crd!("virtualmachineblockdeviceattachments", "VirtualMachineBlockDeviceAttachment"),
];

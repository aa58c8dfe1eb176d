//! The CRDs as YAML, for tests and tools that install them.

use crate::crds::Crd;

#[cfg(test)]
mod tests;

macro_rules! crd {
    ($name:literal, $kind:literal) => {
        Crd { name: $name, kind: $kind, yaml: include_str!(concat!("../../crds/diskimage/", $name, ".yaml")) }
    };
}

/// The CRDs of the group, the image first.
pub const ALL_CRDS: &[Crd] = &[
    crd!("vmdiskimages.vmpool.dev", "VMDiskImage"),
    crd!("wrappedvirtualmachines.vmpool.dev", "VirtualMachine"),
    crd!("vmdiskimagegrants.vmpool.dev", "VMDiskImageGrant"),
];

//! The CRDs as YAML, for tests and tools that install them.

use crate::crds::Crd;

#[cfg(test)]
mod tests;

macro_rules! crd {
    ($plural:literal, $kind:literal) => {
        Crd {
            name: concat!($plural, ".instancetype.kubevirt.io"),
            kind: $kind,
            yaml: include_str!(concat!(
                "../../crds/instancetype/",
                $plural,
                ".instancetype.kubevirt.io.yaml"
            )),
        }
    };
}

/// The CRDs of the four kinds, for clusters without KubeVirt. On a cluster with KubeVirt, its operator owns
/// them.
pub const CRDS: &[Crd] = &[
    crd!("virtualmachineinstancetypes", "VirtualMachineInstancetype"),
    crd!("virtualmachineclusterinstancetypes", "VirtualMachineClusterInstancetype"),
    crd!("virtualmachinepreferences", "VirtualMachinePreference"),
    crd!("virtualmachineclusterpreferences", "VirtualMachineClusterPreference"),
];

//! The kinds of objects that own others.

use vmpool_api::{OwnerIdentity, diskimage, kubevirt};

/// Group and kind of an owner. An owner counts only with group, kind, name and UID, and in the namespace of
/// what it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectOwnerKind {
    /// A disk image.
    Image,
    /// A wrapper.
    Wrapper,
    /// A machine of KubeVirt.
    Machine,
    /// A pool of KubeVirt.
    Pool,
    /// A DataVolume.
    DataVolume,
}

impl ObjectOwnerKind {
    /// Whether an owner has this group and kind.
    pub fn is_kind_of(self, owner: OwnerIdentity<'_>) -> bool {
        match self {
            Self::Image => owner.is_a(diskimage::GROUP, "VMDiskImage"),
            Self::Wrapper => owner.is_a(diskimage::GROUP, "VirtualMachine"),
            Self::Machine => owner.is_a(kubevirt::GROUP, "VirtualMachine"),
            Self::Pool => owner.is_a(kubevirt::POOL_GROUP, "VirtualMachinePool"),
            Self::DataVolume => owner.is_a(DATA_VOLUME_GROUP, "DataVolume"),
        }
    }
}

/// The group of DataVolumes.
const DATA_VOLUME_GROUP: &str = "cdi.kubevirt.io";

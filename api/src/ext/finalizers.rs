//! Finalizers of the virtualization platform.

/// On machines, until the machine and its pods are deleted.
pub const VM_CLEANUP: &str = "virtualization.deckhouse.io/vm-cleanup";
/// On disks, until the volume is deleted.
pub const VD_CLEANUP: &str = "virtualization.deckhouse.io/vd-cleanup";
/// On disks, while a machine has them mounted.
pub const VD_PROTECTION: &str = "virtualization.deckhouse.io/vd-protection";

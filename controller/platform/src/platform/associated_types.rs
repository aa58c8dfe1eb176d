//! The objects of a platform behind its seams.

use super::{Disks, Instances, MachineStorage, Platform};

/// The disks of a platform.
pub type DiskOf<P> = <<P as Platform>::Disks as Disks<<P as Platform>::Pool, <P as Platform>::Machine>>::Disk;

/// The attachments of a platform.
pub type AttachmentOf<P> =
    <<P as Platform>::Disks as Disks<<P as Platform>::Pool, <P as Platform>::Machine>>::Attachment;

/// The instances of a platform.
pub type InstanceOf<P> = <<P as Platform>::Instances as Instances<<P as Platform>::Machine>>::Instance;

/// The volumes of a platform.
pub type VolumeOf<P> = <<P as Platform>::Storage as MachineStorage<<P as Platform>::Machine>>::Volume;

/// The claims of a platform.
pub type ClaimOf<P> = <<P as Platform>::Storage as MachineStorage<<P as Platform>::Machine>>::Claim;

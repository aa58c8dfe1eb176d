//! The kinds of `virtualization.deckhouse.io/v1alpha2`.
//!
//! This module contains the type, spec and status of each kind. Nested types are in a submodule with the
//! kind's name; frequently used ones also have short names here.

pub use crate::generated::{
    cluster_virtual_image::{self, ClusterVirtualImage, ClusterVirtualImageSpec, ClusterVirtualImageStatus},
    virtual_disk::{self, VirtualDisk, VirtualDiskSpec, VirtualDiskStatus},
    virtual_image::{self, VirtualImage, VirtualImageSpec, VirtualImageStatus},
    virtual_machine::{self, VirtualMachine, VirtualMachineSpec, VirtualMachineStatus},
    virtual_machine_block_device_attachment::{
        self, VirtualMachineBlockDeviceAttachment, VirtualMachineBlockDeviceAttachmentSpec,
        VirtualMachineBlockDeviceAttachmentStatus,
    },
    virtual_machine_class::{self, VirtualMachineClass, VirtualMachineClassSpec, VirtualMachineClassStatus},
    virtual_machine_operation::{
        self, VirtualMachineOperation, VirtualMachineOperationSpec, VirtualMachineOperationStatus,
    },
    virtual_machine_pool::{self, VirtualMachinePool, VirtualMachinePoolSpec, VirtualMachinePoolStatus},
};

/// One entry of `spec.blockDeviceRefs` of a machine.
pub type BlockDeviceRef = virtual_machine::VirtualMachineBlockDeviceRefs;
/// One entry of `status.blockDeviceRefs` of a machine.
pub type AttachedDevice = virtual_machine::VirtualMachineStatusBlockDeviceRefs;
/// One entry of `status.attachedToVirtualMachines` of a disk.
pub type DiskUser = virtual_disk::VirtualDiskStatusAttachedToVirtualMachines;
/// One entry of `spec.virtualDiskTemplates` of a pool.
pub type DiskTemplate = virtual_machine_pool::VirtualMachinePoolVirtualDiskTemplates;
/// What happens to a disk when its machine is removed from the pool.
pub type Reclaim = virtual_machine_pool::VirtualMachinePoolVirtualDiskTemplatesReclaim;
/// `spec.rollout` of a pool: how a template change is applied to existing machines.
pub type Rollout = virtual_machine_pool::VirtualMachinePoolRollout;
/// `spec.virtualMachineTemplate` of a pool.
pub type MachineTemplate = virtual_machine_pool::VirtualMachinePoolVirtualMachineTemplate;
/// Labels and annotations of a machine template.
pub type TemplateMetadata = virtual_machine_pool::VirtualMachinePoolVirtualMachineTemplateMetadata;

/// Group of all kinds in this module.
pub const GROUP: &str = "virtualization.deckhouse.io";
/// Version of all kinds in this module.
pub const VERSION: &str = "v1alpha2";
/// Group and version of all kinds in this module, as in `apiVersion`.
pub const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";

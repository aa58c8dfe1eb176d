//! Convenience methods of the generated types.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    conditions::Conditions,
    v1alpha2::{
        AttachedDevice, BlockDeviceRef, ClusterVirtualImage, DiskTemplate, DiskUser, VirtualDisk,
        VirtualImage, VirtualMachine, VirtualMachineBlockDeviceAttachment, VirtualMachineClass,
        VirtualMachineOperation, VirtualMachinePool,
    },
    words::{
        AttachmentPhase, DeviceKind, DiskPhase, ImagePhase, MachinePhase, OperationPhase, ReclaimPolicy,
    },
};

#[cfg(test)]
mod tests;

macro_rules! conditions_of {
    ($($kind:ty),+ $(,)?) => {$(
        impl Conditions for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }
        }
    )+};
}

conditions_of!(
    ClusterVirtualImage,
    VirtualDisk,
    VirtualImage,
    VirtualMachine,
    VirtualMachineBlockDeviceAttachment,
    VirtualMachineClass,
    VirtualMachineOperation,
    VirtualMachinePool,
);

macro_rules! phase_of {
    ($($kind:ty => $phase:ty),+ $(,)?) => {$(
        impl $kind {
            /// The phase; `None` if there is none or if this crate does not know its value.
            pub fn phase(&self) -> Option<$phase> {
                self.status.as_ref()?.phase.as_deref()?.parse().ok()
            }
        }
    )+};
}

phase_of!(
    ClusterVirtualImage => ImagePhase,
    VirtualDisk => DiskPhase,
    VirtualImage => ImagePhase,
    VirtualMachine => MachinePhase,
    VirtualMachineBlockDeviceAttachment => AttachmentPhase,
    VirtualMachineOperation => OperationPhase,
);

impl VirtualMachinePool {
    /// The desired number of machines. A missing value is 0, and so is a negative one, which the schema refuses.
    pub fn desired_replicas(&self) -> usize {
        self.spec.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }

    /// The disk template with this name.
    pub fn disk_template(&self, name: &str) -> Option<&DiskTemplate> {
        self.spec.virtual_disk_templates.iter().find(|template| template.name == name)
    }
}

impl DiskTemplate {
    /// What happens to a disk when its machine is removed. Only `Retain` keeps the disk; a missing or unknown value means
    /// `Delete`.
    pub fn reclaim_policy(&self) -> ReclaimPolicy {
        self.reclaim
            .as_ref()
            .and_then(|reclaim| reclaim.on_scale_down.as_deref())
            .and_then(|word| word.parse().ok())
            .unwrap_or(ReclaimPolicy::Delete)
    }
}

impl BlockDeviceRef {
    /// Whether it refers to a disk, not to an image.
    pub fn is_disk(&self) -> bool {
        self.kind == DeviceKind::VirtualDisk.as_str()
    }
}

impl VirtualMachine {
    /// Devices that the platform reports as attached or as being attached.
    pub fn reported_devices(&self) -> &[AttachedDevice] {
        self.status.as_ref().and_then(|status| status.block_device_refs.as_deref()).unwrap_or_default()
    }
}

impl VirtualDisk {
    /// Machines that reference the disk, as the platform reports them.
    pub fn users(&self) -> &[DiskUser] {
        self.status
            .as_ref()
            .and_then(|status| status.attached_to_virtual_machines.as_deref())
            .unwrap_or_default()
    }

    /// Name of the machine that has mounted the disk, as the platform reports it.
    pub fn mounted_by(&self) -> Option<&str> {
        self.users().iter().find(|user| user.mounted == Some(true)).map(|user| user.name.as_str())
    }
}

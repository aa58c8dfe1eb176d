//! Convenience methods of the generated types.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    autoscaler,
    conditions::conditions_of,
    diskimage,
    enums::ReclaimPolicy,
    v1alpha2::{
        ClusterVirtualImage, DiskTemplate, VirtualDisk, VirtualImage, VirtualMachine,
        VirtualMachineBlockDeviceAttachment, VirtualMachineClass, VirtualMachineOperation,
        VirtualMachinePool,
    },
};

#[cfg(test)]
mod tests;

conditions_of!(
    Condition:
    ClusterVirtualImage,
    VirtualDisk,
    VirtualImage,
    VirtualMachine,
    VirtualMachineBlockDeviceAttachment,
    VirtualMachineClass,
    VirtualMachineOperation,
    VirtualMachinePool,
    diskimage::VmDiskImage,
    diskimage::VirtualMachine,
    autoscaler::PoolAutoscaler,
);

impl VirtualMachinePool {
    /// The desired number of machines. A missing value is 0, and so is a negative one, which the schema
    /// refuses.
    pub fn desired_replicas(&self) -> usize {
        self.spec.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    }
}

impl DiskTemplate {
    /// What happens to a disk when its machine is removed. Only `Retain` keeps the disk; a missing or unknown
    /// value means `Delete`.
    pub fn reclaim_policy(&self) -> ReclaimPolicy {
        self.reclaim
            .as_ref()
            .and_then(|reclaim| reclaim.on_scale_down.as_deref())
            .and_then(|text| text.parse().ok())
            .unwrap_or(ReclaimPolicy::Delete)
    }
}

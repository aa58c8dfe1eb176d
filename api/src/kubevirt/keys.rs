//! Keys of labels and annotations, and finalizers, that KubeVirt and its pools use.

#[cfg(test)]
mod tests;

/// Labels.
pub mod labels {
    /// On pinned copies of instance types and preferences: UID of the pool.
    pub const POOL_UID: &str = "vmpool.dev/pool-uid";
    /// On DataVolumes and claims that outlived their machine: name of the pool.
    pub const PRESERVED_POOL: &str = "vmpool.dev/preserved-pool";
    /// On DataVolumes and claims that outlived their machine: ordinal of the machine.
    pub const PRESERVED_ORDINAL: &str = "vmpool.dev/preserved-ordinal";
    /// By convention of KubeVirt, the label by which a pool selects its machines: name of the pool.
    pub const POOL: &str = "kubevirt.io/vmpool";
    /// On machines and in their `spec.template.metadata`: name of the revision from which the machine was
    /// created or updated. KubeVirt copies it to the VirtualMachineInstance and to its pod.
    pub const REVISION: &str = "kubevirt.io/vm-pool-revision-name";
    /// On DataVolumes: UID of the machine. On pods: UID of the VirtualMachineInstance.
    pub const CREATED_BY: &str = "kubevirt.io/created-by";
    /// On pods, with the value [`LAUNCHER`]: the pod runs a machine.
    pub const POD_ROLE: &str = "kubevirt.io";
    /// The value of [`POD_ROLE`] on pods that run a machine.
    pub const LAUNCHER: &str = "virt-launcher";
    /// On pods: name of the machine.
    pub const MACHINE: &str = "vm.kubevirt.io/name";
    /// On pods: an identifier of the VirtualMachineInstance.
    pub const INSTANCE: &str = "vmi.kubevirt.io/id";

    /// Labels that only KubeVirt may put into `spec.template.metadata.labels` of a machine.
    pub const RESERVED: [&str; 6] = [
        CREATED_BY,
        "kubevirt.io/migrationJobUID",
        "kubevirt.io/nodeName",
        "kubevirt.io/migrationTargetNodeName",
        "kubevirt.io/schedulable",
        "kubevirt.io/install-strategy",
    ];

    /// Whether only KubeVirt may put this label into `spec.template.metadata.labels` of a machine.
    pub fn is_reserved(key: &str) -> bool {
        RESERVED.contains(&key)
    }
}

/// Annotations.
pub mod annotations {
    /// On DataVolumes that KubeVirt creates, with the value `true`: CDI may use an existing claim of the same
    /// name.
    pub const ALLOW_CLAIM_ADOPTION: &str = "cdi.kubevirt.io/allowClaimAdoption";
    /// On a pool: the value of `spec.instancetypePolicy`, for a cluster whose definition of pools does not
    /// have the field.
    pub const INSTANCETYPE_POLICY: &str = "vmpool.dev/instancetype-policy";
    /// On a pool: the fields of `spec.nameGeneration` that are true, with commas between them, of those that
    /// only the definition of vmpool has. For a cluster with another definition.
    pub const NAME_GENERATION: &str = "vmpool.dev/name-generation";
    /// On a pool: the value of `spec.revisionHistoryLimit`, for a cluster whose definition of pools does not
    /// have the field. A number from 0.
    pub const REVISION_HISTORY_LIMIT: &str = "vmpool.dev/revision-history-limit";
    /// In the machine template of a pool: any change of the value is a change of the template, whose revision
    /// uses the instance type and the preference as they are then.
    pub const REFRESH_INSTANCETYPE: &str = "vmpool.dev/refresh-instancetype";
    /// On instance types and preferences, with the value `true`: a deletion does not wait until each pool and
    /// each machine that names the object has a copy.
    pub const FORCE_RELEASE: &str = "vmpool.dev/force-release";
    /// On a machine: names of the DataVolumes and claims that an update took out of its spec and that it
    /// still owns, with commas between them. They are preserved with its other storage. Only vmpool writes
    /// it.
    pub const FORMER_STORAGE: &str = "vmpool.dev/former-storage";
    /// On a machine: the name of the revision from whose DataVolume templates its storage was created, if an
    /// update has written other DataVolume templates since. Only vmpool writes it.
    pub const STORAGE_REVISION: &str = "vmpool.dev/storage-revision";
    /// On a pool, followed by an ordinal: the storage to which a user moved volumes of the machine with this
    /// ordinal. The next machine uses it. The controller writes it when the machine leaves.
    pub const MOVED_STORAGE: &str = "vmpool.dev/moved-storage-";
    /// On a pool: `<name>/<UID>` of the pool whose machines exist. A pool with another UID is a copy, for
    /// example from a backup, and has no machines until a user decides whose machines it gets.
    pub const MACHINES_OF: &str = "vmpool.dev/machines-of";
    /// On a pool: the removal record of targeted removals. Only vmpool writes it.
    pub const SCALE_IN_TARGETS: &str = "vmpool.pool.kubevirt.io/scale-in-targets";
    /// On a pool: the last machines that targeted removals deleted, whose names other machines can get. Only
    /// vmpool writes it.
    pub const REMOVED_MACHINES: &str = "vmpool.pool.kubevirt.io/removed-machines";
}

/// Finalizers.
pub mod finalizers {
    /// On instance types and preferences, until each pool and each machine that names the object has a copy.
    pub const INSTANCETYPE_PROTECTION: &str = "vmpool.dev/instancetype-protection";
    /// On pools and their machines, until the pool controller has released them.
    pub const POOL: &str = "pool.kubevirt.io/finalizer";
    /// On machines and their VirtualMachineInstances, until KubeVirt has stopped the guest. A pool controller
    /// must not remove it.
    pub const MACHINE: &str = "kubevirt.io/virtualMachineControllerFinalize";
    /// On VirtualMachineInstances, until KubeVirt has deleted what belongs to them.
    pub const INSTANCE: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
}

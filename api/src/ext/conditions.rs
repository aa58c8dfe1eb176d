//! Reading the conditions of an object, and the types and reasons of a pool's conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

#[cfg(test)]
mod tests;

/// An object that reports conditions.
pub trait Conditions {
    /// The conditions; empty if there is no status.
    fn conditions(&self) -> &[Condition];

    /// The condition of this type.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find_condition(self.conditions(), type_)
    }

    /// Whether the condition of this type exists and is True.
    fn has_condition(&self, type_: &str) -> bool {
        is_true(self.conditions(), type_)
    }
}

/// The condition of this type.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type exists and is True. Missing and Unknown are not true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|condition| condition.status == "True")
}

/// Conditions of a pool.
pub mod pool {
    /// Whether the desired number of machines is running.
    pub const AVAILABLE: &str = "Available";
    /// Present while the number of machines differs from the desired one.
    pub const PROGRESSING: &str = "Progressing";
    /// Whether every machine runs with the current template.
    pub const SYNCED: &str = "Synced";
    /// Present while creating or deleting machines or disks fails.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";
    /// Present on pools of KubeVirt while a machine lacks a volume that a user removed.
    pub const DISK_DETACHED: &str = "DiskDetached";
    /// Present while another program gave other values to fields of the template in machines.
    pub const TEMPLATE_OVERRIDDEN: &str = "TemplateOverridden";

    /// Reasons in the conditions of a pool.
    pub mod reason {
        /// Available is True: enough machines run.
        pub const ALL_REPLICAS_READY: &str = "AllReplicasReady";
        /// Available is False: too few machines run.
        pub const INSUFFICIENT_READY_REPLICAS: &str = "InsufficientReadyReplicas";
        /// Progressing is True: machines are created, deleted or replaced.
        pub const REPLICAS_PROGRESSING: &str = "ReplicasProgressing";
        /// Synced is True: every machine is updated.
        pub const POOL_SYNCED: &str = "PoolSynced";
        /// Synced is False: machines are not updated yet, and none of them waits for a restart.
        pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
        /// Synced is False: machines wait for an approved restart.
        pub const RESTART_PENDING_APPROVAL: &str = "RestartPendingApproval";
        /// Synced is False: machines differ in fields that only new machines can get.
        pub const RECREATION_REQUIRED: &str = "RecreationRequired";
        /// Synced is False, or DiskDetached is True: a disk was detached from a machine by hand.
        pub const DISK_DETACHED_BY_HAND: &str = "DiskDetachedByHand";
        /// Synced is False, or TemplateOverridden is True: machines have other values than the template.
        pub const FIELDS_OVERRIDDEN: &str = "FieldsOverridden";
        /// ReplicaFailure is True: machines could not be created.
        pub const FAILED_CREATE: &str = "FailedCreate";
        /// ReplicaFailure is True: machines could not be deleted.
        pub const FAILED_DELETE: &str = "FailedDelete";
        /// ReplicaFailure is True: disks could not be created, attached, resized or deleted.
        pub const DISK_FAILURE: &str = "DiskFailure";
    }
}

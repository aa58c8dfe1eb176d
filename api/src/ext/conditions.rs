//! Kubernetes conditions: reading and writing them, and their types and reasons.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

#[cfg(test)]
mod tests;

/// An object that reports conditions.
pub trait Conditions {
    /// The conditions; empty if there is no status.
    fn conditions(&self) -> &[Condition];

    /// The condition of this type.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find(self.conditions(), type_)
    }

    /// Whether the condition of this type exists and is True.
    fn has_condition(&self, type_: &str) -> bool {
        is_true(self.conditions(), type_)
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type exists and is True. Missing and Unknown are not true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::TRUE)
}

/// Whether the condition of this type exists and is False. Missing and Unknown are not false.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::FALSE)
}

/// A condition with its transition at `now`, computed for `generation` of the object.
pub fn new(
    type_: &str,
    status: Status,
    reason: &str,
    message: impl Into<String>,
    generation: i64,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: Some(generation),
        last_transition_time: Time(now),
    }
}

/// Replaces the condition of the same type, or appends the condition.
///
/// Guarantee: the last transition time changes only if the status changes.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|present| present.type_ == condition.type_) {
        Some(present) => {
            if present.status == condition.status {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

/// Removes the condition of this type. Returns whether it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// The status could not be determined.
    Unknown,
}

impl Status {
    /// The value in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => status::TRUE,
            Self::False => status::FALSE,
            Self::Unknown => status::UNKNOWN,
        }
    }
}

/// Values of `status` in a condition.
pub mod status {
    /// The condition holds.
    pub const TRUE: &str = "True";
    /// The condition does not hold.
    pub const FALSE: &str = "False";
    /// It could not be determined whether the condition holds.
    pub const UNKNOWN: &str = "Unknown";
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
        /// Synced is False: a disk was detached from a machine by hand.
        pub const DISK_DETACHED_BY_HAND: &str = "DiskDetachedByHand";
        /// ReplicaFailure is True: machines could not be created.
        pub const FAILED_CREATE: &str = "FailedCreate";
        /// ReplicaFailure is True: machines could not be deleted.
        pub const FAILED_DELETE: &str = "FailedDelete";
        /// ReplicaFailure is True: disks could not be created, attached, resized or deleted.
        pub const DISK_FAILURE: &str = "DiskFailure";
    }
}

/// Conditions of a machine.
pub mod machine {
    /// Present and True while a change waits for a restart.
    pub const AWAITING_RESTART: &str = "AwaitingRestartToApplyConfiguration";
    /// False while a change is not in effect, otherwise absent.
    pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";
    /// Whether the machine can use all its disks and images.
    pub const BLOCK_DEVICES_READY: &str = "BlockDevicesReady";
    /// Whether the guest runs.
    pub const RUNNING: &str = "Running";

    /// Reasons in the conditions of a machine.
    pub mod reason {
        /// AwaitingRestartToApplyConfiguration is True: a restart applies the changes.
        pub const CHANGES_PENDING_RESTART: &str = "ChangesPendingRestart";
        /// AwaitingRestartToApplyConfiguration is True: the effect of a restart is unknown.
        pub const UNEXPECTED_STATE: &str = "UnexpectedState";
        /// ConfigurationApplied is False: the machine runs with a different configuration.
        pub const CONFIGURATION_NOT_APPLIED: &str = "ConfigurationNotApplied";
        /// BlockDevicesReady is True.
        pub const BLOCK_DEVICES_READY: &str = "BlockDevicesReady";
        /// BlockDevicesReady is False: a device is missing, not ready, terminating, or used by another machine.
        pub const BLOCK_DEVICES_NOT_READY: &str = "BlockDevicesNotReady";
        /// BlockDevicesReady is False: the disks become ready when the machine starts.
        pub const WAITING_FOR_FIRST_CONSUMER: &str = "WaitingForWaitForFirstConsumerBlockDevicesToBeReady";
        /// BlockDevicesReady is False: the machine has more than 16 devices.
        pub const BLOCK_DEVICE_LIMIT_EXCEEDED: &str = "BlockDeviceLimitExceeded";
        /// Running is True.
        pub const RUNNING: &str = "Running";
    }
}

/// Conditions of a disk.
pub mod disk {
    /// Whether the disk can be used.
    pub const READY: &str = "Ready";
    /// Whether the disk is in use. It becomes False for a stopped machine, although that machine still references the
    /// disk.
    pub const IN_USE: &str = "InUse";
    /// Whether the disk is being expanded.
    pub const RESIZING: &str = "Resizing";

    /// Reasons in the conditions of a disk.
    pub mod reason {
        /// Ready is True.
        pub const READY: &str = "Ready";
        /// Ready is False: the volume is being created and filled.
        pub const PROVISIONING: &str = "Provisioning";
        /// Ready is False: the volume is bound when a machine with the disk is scheduled.
        pub const WAITING_FOR_FIRST_CONSUMER: &str = "WaitingForFirstConsumer";
        /// Ready is False: the disk could not be created.
        pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
        /// Ready is False: the storage quota of the namespace is exceeded.
        pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
        /// Ready is False: the volume is gone.
        pub const PVC_LOST: &str = "PVCLost";
        /// InUse is True: a machine uses the disk.
        pub const ATTACHED_TO_VIRTUAL_MACHINE: &str = "AttachedToVirtualMachine";
        /// InUse is True: an image is being created from the disk.
        pub const USED_FOR_IMAGE_CREATION: &str = "UsedForImageCreation";
        /// InUse is True: the data is being exported.
        pub const USED_FOR_DATA_EXPORT: &str = "UsedForDataExport";
        /// InUse is False.
        pub const NOT_IN_USE: &str = "NotInUse";
        /// Resizing is True.
        pub const IN_PROGRESS: &str = "InProgress";
        /// Resizing is False: the disk cannot be expanded now.
        pub const NOT_AVAILABLE: &str = "NotAvailable";
    }
}

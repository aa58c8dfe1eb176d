//! Kubernetes conditions: finding them, writing them, and the words that stand in them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

#[cfg(test)]
mod tests;

/// An object that reports conditions.
pub trait Conditions {
    /// The conditions, none if there is no status.
    fn conditions(&self) -> &[Condition];

    /// The condition of this type.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find(self.conditions(), type_)
    }

    /// Whether the condition of this type is there and True.
    fn has_condition(&self, type_: &str) -> bool {
        is_true(self.conditions(), type_)
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is there and True. Absent and Unknown are not true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::TRUE)
}

/// Whether the condition of this type is there and False. Absent and Unknown are not false.
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status::FALSE)
}

/// A condition that became so at `now`, computed for `generation` of the object.
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

/// Puts a condition in the place of the one with its type, or at the end.
///
/// Guarantees: the time of the last transition moves only when the status value changes.
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

/// Takes the condition of this type away. Says whether it was there.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Value of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It could not be found out.
    Unknown,
}

impl Status {
    /// The word as it stands in a condition.
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
    /// It could not be found out whether the condition holds.
    pub const UNKNOWN: &str = "Unknown";
}

/// Conditions of a pool.
pub mod pool {
    /// Whether as many machines run as the pool should have.
    pub const AVAILABLE: &str = "Available";
    /// There while the number of machines differs from the wanted one, absent otherwise.
    pub const PROGRESSING: &str = "Progressing";
    /// Whether every machine has taken up the present template.
    pub const SYNCED: &str = "Synced";
    /// There while creating or deleting machines or disks fails, absent otherwise.
    pub const REPLICA_FAILURE: &str = "ReplicaFailure";

    /// Reasons in the conditions of a pool.
    pub mod reason {
        /// Available is True: enough machines run.
        pub const ALL_REPLICAS_READY: &str = "AllReplicasReady";
        /// Available is False: too few machines run.
        pub const INSUFFICIENT_READY_REPLICAS: &str = "InsufficientReadyReplicas";
        /// Progressing is True: machines are created, deleted or replaced.
        pub const REPLICAS_PROGRESSING: &str = "ReplicasProgressing";
        /// Synced is True: no machine lags behind the template.
        pub const POOL_SYNCED: &str = "PoolSynced";
        /// Synced is False: machines lag behind, and none of them waits for a restart.
        pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
        /// Synced is False: machines wait for somebody to approve a restart.
        pub const RESTART_PENDING_APPROVAL: &str = "RestartPendingApproval";
        /// Synced is False: machines differ in a part that only new machines get.
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
    /// There and True while a change waits for a restart, absent otherwise.
    pub const AWAITING_RESTART: &str = "AwaitingRestartToApplyConfiguration";
    /// False while a change is not in effect, absent once it is.
    pub const CONFIGURATION_APPLIED: &str = "ConfigurationApplied";
    /// Whether the machine can use all its disks and images.
    pub const BLOCK_DEVICES_READY: &str = "BlockDevicesReady";
    /// Whether the guest runs.
    pub const RUNNING: &str = "Running";

    /// Reasons in the conditions of a machine.
    pub mod reason {
        /// AwaitingRestartToApplyConfiguration is True: a restart applies the changes.
        pub const CHANGES_PENDING_RESTART: &str = "ChangesPendingRestart";
        /// AwaitingRestartToApplyConfiguration is True: what a restart would do is not known.
        pub const UNEXPECTED_STATE: &str = "UnexpectedState";
        /// ConfigurationApplied is False: the machine runs with another configuration.
        pub const CONFIGURATION_NOT_APPLIED: &str = "ConfigurationNotApplied";
        /// BlockDevicesReady is True.
        pub const BLOCK_DEVICES_READY: &str = "BlockDevicesReady";
        /// BlockDevicesReady is False: a device is missing, not ready, leaving, or held by another machine.
        pub const BLOCK_DEVICES_NOT_READY: &str = "BlockDevicesNotReady";
        /// BlockDevicesReady is False: starting the machine is what makes its disks ready.
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
    /// Whether something uses the disk. It turns False for a stopped machine, which still has the disk.
    pub const IN_USE: &str = "InUse";
    /// Whether the disk grows.
    pub const RESIZING: &str = "Resizing";

    /// Reasons in the conditions of a disk.
    pub mod reason {
        /// Ready is True.
        pub const READY: &str = "Ready";
        /// Ready is False: the volume is made, the data is copied.
        pub const PROVISIONING: &str = "Provisioning";
        /// Ready is False: the volume is bound when a machine with the disk is scheduled.
        pub const WAITING_FOR_FIRST_CONSUMER: &str = "WaitingForFirstConsumer";
        /// Ready is False: the disk could not be made.
        pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
        /// Ready is False: the namespace may have no more storage.
        pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
        /// Ready is False: the volume is gone.
        pub const PVC_LOST: &str = "PVCLost";
        /// InUse is True: a machine has the disk.
        pub const ATTACHED_TO_VIRTUAL_MACHINE: &str = "AttachedToVirtualMachine";
        /// InUse is True: an image is made from the disk.
        pub const USED_FOR_IMAGE_CREATION: &str = "UsedForImageCreation";
        /// InUse is True: the data is being read out.
        pub const USED_FOR_DATA_EXPORT: &str = "UsedForDataExport";
        /// InUse is False.
        pub const NOT_IN_USE: &str = "NotInUse";
        /// Resizing is True.
        pub const IN_PROGRESS: &str = "InProgress";
        /// Resizing is False: the disk cannot grow now.
        pub const NOT_AVAILABLE: &str = "NotAvailable";
    }
}

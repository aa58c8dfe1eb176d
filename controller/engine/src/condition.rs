//! Conditions of a pool: their types and reasons, which status, events and documentation share.

use std::fmt;

use jiff::Timestamp;

/// Declares an enum whose variants have texts in the status of a pool.
macro_rules! status_texts {
    ($(#[$about:meta])* $name:ident { $($(#[$meaning:meta])+ $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$meaning])+ $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The text in the status.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value with this text; `None` if the text is one of another controller.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

status_texts!(
    /// The type of a condition that the engine publishes. All other conditions in a status belong to other
    /// controllers.
    ConditionType {
        /// Whether at least the desired number of machines is ready.
        Available => "Available",
        /// Present and True while the number of machines differs from the desired number.
        Progressing => "Progressing",
        /// Whether the current template is in effect in every live machine.
        Synced => "Synced",
        /// Present and True while the last attempt at a write failed. Its reason is the
        /// [`FailureReason`](crate::failure::FailureReason) of the write.
        ReplicaFailure => "ReplicaFailure",
        /// Present and True while a setting of the pool cannot be read. The controller uses the safe value of
        /// that setting and continues to reconcile the pool.
        InvalidSettings => "InvalidSettings",
        /// Present and True while the protection of machines blocks a step of the controller.
        BlockedByProtection => "BlockedByProtection",
        /// Present and True while healing replaces no further machine, because too many are unhealthy.
        HealingBlocked => "HealingBlocked",
        /// Present and True while a limit on machines that have not been ready yet delays creates.
        ProvisioningLimited => "ProvisioningLimited",
        /// Present and True while machines of a pool with such a limit no longer count for it, because they
        /// have not been ready for too long.
        StartOverdue => "StartOverdue",
        /// Present and True while standby machines run because another client started them.
        StandbyStarted => "StandbyStarted",
        /// Present and True while machines have disks from other content than the sources of the pool lead
        /// to.
        ImageOutdated => "ImageOutdated",
        /// Present and True while the pool is paused.
        ReplicaPaused => "ReplicaPaused",
        /// Whether the pool is as its spec describes it, in the meaning of kstatus. Its reason is the
        /// [`PoolPhase`](crate::status::PoolPhase) of the pool.
        Ready => "Ready",
        /// Whether the controller works toward the spec of the pool, in the meaning of kstatus.
        Reconciling => "Reconciling",
        /// Whether the controller waits for a user action, in the meaning of kstatus.
        Stalled => "Stalled",
        /// Present and False while an object that the template refers to is missing or does not fit.
        TemplateResolved => "TemplateResolved",
        /// Present and True while the cluster does not let machines share copies of the objects that the
        /// template refers to.
        PinningUnavailable => "PinningUnavailable",
        /// Present and True while machines refer to other objects than the revision that was written to them.
        MembersDrifted => "MembersDrifted",
        /// Present and True while the copies that machines use differ from the objects as they are now.
        InstancetypeOutdated => "InstancetypeOutdated",
        /// Present and False while a disk image that the template names cannot be cloned.
        ImagesReady => "ImagesReady",
        /// Present and True while a machine lacks a volume of the template because a user removed it, on a
        /// platform without `Synced`. Its reason is [`ConditionReason::DiskDetachedByHand`].
        DiskDetached => "DiskDetached",
        /// Present and True while fields of the template have other values in machines than the controller
        /// wrote.
        TemplateOverridden => "TemplateOverridden",
    }
);

status_texts!(
    /// The reason of a condition that the engine publishes.
    ConditionReason {
        /// The phase of a pool that waits for a user action, as the reason of `Ready`, `Reconciling` and
        /// `Stalled`.
        Blocked => "Blocked",
        /// The phase of a pool that has made no progress until its deadline. A user must remove the cause.
        ProgressDeadlineExceeded => "ProgressDeadlineExceeded",
        /// The phase of a pool whose controller repeats a failed write, or with machines that are not ready
        /// for a cause that the platform reports.
        Failing => "Failing",
        /// The phase of a pool in which the current template is not in effect in all machines.
        RollingOut => "RollingOut",
        /// The phase of a pool with missing, surplus or unready machines.
        Scaling => "Scaling",
        /// The phase of a pool that is paused, or whose rollout is.
        Paused => "Paused",
        /// The phase of a pool that is as its spec describes it.
        Ready => "Ready",

        /// `Available` is True.
        AllReplicasReady => "AllReplicasReady",
        /// `Available` is False.
        InsufficientReadyReplicas => "InsufficientReadyReplicas",
        /// `Progressing` is True.
        ReplicasProgressing => "ReplicasProgressing",

        /// `Synced` is True.
        PoolSynced => "PoolSynced",
        /// `Synced` is False: live machines do not have the current template yet, and the rollout is in
        /// progress, paused, stopped or blocked.
        RolloutInProgress => "RolloutInProgress",
        /// `Synced` is False: the current template was written to a live machine, and takes effect after a
        /// user approves its restart.
        RestartPendingApproval => "RestartPendingApproval",
        /// `Synced` is False: a live machine keeps a disk of an earlier template until it is stopped or
        /// recreated.
        RecreationRequired => "RecreationRequired",
        /// `Synced` is False, or `DiskDetached` is True: a user detached a disk from a live machine. The
        /// controller does not attach it again.
        DiskDetachedByHand => "DiskDetachedByHand",
        /// `Synced` is False: the platform has not evaluated changes of machines in time, so it is unknown
        /// whether they are in effect.
        ChangesNotEvaluated => "ChangesNotEvaluated",
        /// `TemplateOverridden` is True, or `Synced` is False for this reason: an admission policy or the
        /// platform changed the fields.
        FieldsOverridden => "FieldsOverridden",
        /// `Synced` is False: the controller cannot read objects that it plans with, so it is unknown whether
        /// the current template is in effect. `ReplicaFailure` is True for the same reason.
        FailedRead => "FailedRead",

        /// `ReplicaFailure` is True: creating a machine failed.
        FailedCreate => "FailedCreate",
        /// `ReplicaFailure` is True: machines that the pool created do not belong to it.
        MachineLost => "MachineLost",
        /// `ReplicaFailure` is True: disks that the pool created do not belong to it.
        DiskLost => "DiskLost",
        /// `ReplicaFailure` is True: deleting a machine failed.
        FailedDelete => "FailedDelete",
        /// `ReplicaFailure` is True: creating a disk, or changing the disk that a machine refers to, failed.
        DiskFailure => "DiskFailure",
        /// `ReplicaFailure` is True: restoring labels and annotations of the controller failed.
        FailedRepair => "FailedRepair",
        /// `ReplicaFailure` is True: writing a template to a machine failed.
        FailedTemplateUpdate => "FailedTemplateUpdate",
        /// `ReplicaFailure` is True: deleting revisions that no machine needs failed.
        FailedRevisionPruning => "FailedRevisionPruning",
        /// `ReplicaFailure` is True: another client keeps overwriting the status of the pool.
        StatusDisputed => "StatusDisputed",

        /// `InvalidSettings` is True.
        UnreadableSettings => "UnreadableSettings",
        /// `BlockedByProtection` is True.
        ProtectedMachines => "ProtectedMachines",
        /// `HealingBlocked` is True.
        TooManyUnhealthy => "TooManyUnhealthy",
        /// `ProvisioningLimited` is True: the limit of the pool.
        MaxProvisioningReached => "MaxProvisioningReached",
        /// `ProvisioningLimited` is True: the limit of a storage class over all pools.
        StorageClassLimitReached => "StorageClassLimitReached",
        /// `StartOverdue` is True.
        StartTimeoutExceeded => "StartTimeoutExceeded",
        /// `StandbyStarted` is True.
        StartedByClient => "StartedByClient",
        /// `ImageOutdated` is True.
        SourceChanged => "SourceChanged",
        /// `ReplicaPaused` is True.
        SuccessfulPaused => "SuccessfulPaused",

        /// `TemplateResolved` is False: the instance type that the template names does not exist, or cannot
        /// be read.
        InstancetypeNotFound => "InstancetypeNotFound",
        /// `TemplateResolved` is False: the same for a preference.
        PreferenceNotFound => "PreferenceNotFound",
        /// `TemplateResolved` is False: the template sets what its instance type sets.
        InstancetypeConflict => "InstancetypeConflict",
        /// `TemplateResolved` is False: the template does not meet the requirements of its preference.
        RequirementsNotMet => "RequirementsNotMet",
        /// `TemplateResolved` is False: no name can be inferred from a volume.
        InferenceFailed => "InferenceFailed",
        /// `TemplateResolved` is False: a ControllerRevision is not a copy of the object that the template
        /// names.
        RevisionMismatch => "RevisionMismatch",

        /// `PinningUnavailable` is True: the platform writes instance types and preferences into machines.
        ClusterPolicyExpands => "ClusterPolicyExpands",
        /// `MembersDrifted` is True.
        ReferencesChanged => "ReferencesChanged",
        /// `InstancetypeOutdated` is True: the object was deleted.
        Deleted => "Deleted",
        /// `InstancetypeOutdated` is True: the object was created again with another spec.
        Recreated => "Recreated",
        /// `InstancetypeOutdated` is True: the spec of the object was changed.
        SpecChanged => "SpecChanged",

        /// `ImagesReady` is False: the data of an image is not there yet.
        ImageSyncing => "ImageSyncing",
        /// `ImagesReady` is False: the import of an image failed.
        ImageFailed => "ImageFailed",
        /// `ImagesReady` is False: an image is being deleted.
        ImageTerminating => "ImageTerminating",
        /// `ImagesReady` is False: no grant permits to use an image of another namespace.
        RefNotPermitted => "RefNotPermitted",
    }
);

/// One condition. Other controllers write conditions, too, so type and reason are texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCondition {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason: one CamelCase word, for programs.
    pub reason: String,
    /// The message: a sentence, for users.
    pub message: String,
    /// When `status` last changed.
    pub last_transition: Timestamp,
    /// The generation of the pool that it was computed for.
    pub observed_generation: Option<i64>,
}

impl ConditionType {
    /// The conditions in the meaning of kstatus, with which clients wait. They repeat what other conditions
    /// and counters show, so a pool can lack them.
    pub const KSTATUS: [Self; 3] = [Self::Ready, Self::Reconciling, Self::Stalled];
}

impl StatusCondition {
    /// Whether it has one of the types in the meaning of kstatus.
    pub fn is_kstatus(&self) -> bool {
        ConditionType::KSTATUS.into_iter().any(|kind| self.is(kind))
    }

    /// Whether it has this type.
    pub fn is(&self, kind: ConditionType) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether the engine publishes conditions of its type.
    pub fn is_of_engine(&self) -> bool {
        ConditionType::parse(&self.kind).is_some()
    }
}

/// A condition before it is compared with the published one.
pub(crate) struct ComputedCondition {
    pub(crate) kind: ConditionType,
    pub(crate) holds: bool,
    pub(crate) reason: ConditionReason,
    pub(crate) message: String,
}

/// Sets the transition times of `wanted`: a condition whose status did not change keeps its time. Conditions
/// of other controllers stay unchanged.
pub(crate) fn merge_conditions(
    wanted: Vec<ComputedCondition>,
    published: &[StatusCondition],
    now: Timestamp,
    generation: i64,
) -> Vec<StatusCondition> {
    let mut merged: Vec<StatusCondition> = wanted
        .into_iter()
        .map(|condition| {
            let status = if condition.holds { "True" } else { "False" };
            let last_transition = published
                .iter()
                .find(|old| old.is(condition.kind) && old.status == status)
                .map_or(now, |old| old.last_transition);
            StatusCondition {
                kind: condition.kind.as_str().to_owned(),
                status: status.into(),
                reason: condition.reason.as_str().to_owned(),
                message: condition.message,
                last_transition,
                observed_generation: Some(generation),
            }
        })
        .collect();
    merged.extend(published.iter().filter(|old| !old.is_of_engine()).cloned());
    merged
}

#[cfg(test)]
mod tests;

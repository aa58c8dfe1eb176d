//! Types and reasons of the conditions of a pool, on both platforms.

use crate::ext::constants::text_constants;

text_constants! {
    "All types of conditions that vmpool publishes in a pool.";
    /// Whether at least the desired number of machines is ready.
    AVAILABLE = "Available";
    /// Present and True while the number of machines differs from the desired number.
    PROGRESSING = "Progressing";
    /// Whether the current template is in effect in every live machine.
    SYNCED = "Synced";
    /// Present and True while the last attempt at a write failed. Its reason is that of the write, for
    /// example [`reason::FAILED_CREATE`].
    REPLICA_FAILURE = "ReplicaFailure";
    /// Present and True while a setting of the pool cannot be read. The controller uses the safe value of
    /// that setting and continues to reconcile the pool.
    INVALID_SETTINGS = "InvalidSettings";
    /// Present and True while the protection of machines blocks a step of the controller.
    BLOCKED_BY_PROTECTION = "BlockedByProtection";
    /// Present and True while healing replaces no further machine, because too many are unhealthy.
    HEALING_BLOCKED = "HealingBlocked";
    /// Present and True while a limit on machines that have not been ready yet delays creates.
    PROVISIONING_LIMITED = "ProvisioningLimited";
    /// Present and True while machines of a pool with such a limit no longer count for it, because they have
    /// not been ready for too long.
    START_OVERDUE = "StartOverdue";
    /// Present and True while standby machines run because another client started them.
    STANDBY_STARTED = "StandbyStarted";
    /// Present and True while machines have disks from earlier content of their source.
    IMAGE_OUTDATED = "ImageOutdated";
    /// Present and True while the pool is paused.
    REPLICA_PAUSED = "ReplicaPaused";
    /// Whether the pool is as its spec describes it, in the meaning of kstatus. Its reason is the phase of
    /// the pool, for example [`reason::SCALING`].
    READY = "Ready";
    /// Whether the controller works toward the spec of the pool, in the meaning of kstatus.
    RECONCILING = "Reconciling";
    /// Whether the controller waits for a user action, in the meaning of kstatus.
    STALLED = "Stalled";
    /// Present and False while an object that the template refers to is missing or does not fit.
    TEMPLATE_RESOLVED = "TemplateResolved";
    /// Present and True while the cluster does not let machines share copies of the objects that the template
    /// refers to.
    PINNING_UNAVAILABLE = "PinningUnavailable";
    /// Present and True while machines refer to other objects than the revision that was written to them.
    MEMBERS_DRIFTED = "MembersDrifted";
    /// Present and True while the copies that machines use differ from the objects as they are now.
    INSTANCETYPE_OUTDATED = "InstancetypeOutdated";
    /// Present and False while a disk image that the template names cannot be cloned.
    IMAGES_READY = "ImagesReady";
    /// Present and True while a machine lacks a volume of the template because a user removed it, on a
    /// platform without `Synced`. Its reason is [`reason::DISK_DETACHED_BY_HAND`].
    DISK_DETACHED = "DiskDetached";
    /// Present and True while fields of the template have other values in machines than the controller wrote.
    TEMPLATE_OVERRIDDEN = "TemplateOverridden";
}

/// Reasons of the conditions of a pool.
pub mod reason {
    use crate::ext::constants::text_constants;

    text_constants! {
        "All reasons of conditions that vmpool publishes in a pool.";
        /// The phase of a pool that waits for a user action, as the reason of `Ready`, `Reconciling` and
        /// `Stalled`.
        BLOCKED = "Blocked";
        /// The phase of a pool that has made no progress until its deadline. A user must remove the cause.
        PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded";
        /// The phase of a pool whose controller repeats a failed write, or with machines that do not start.
        FAILING = "Failing";
        /// The phase of a pool in which the current template is not in effect in all machines.
        ROLLING_OUT = "RollingOut";
        /// The phase of a pool with missing, surplus or unready machines.
        SCALING = "Scaling";
        /// The phase of a pool that is paused, or whose rollout is.
        PAUSED = "Paused";
        /// The phase of a pool that is as its spec describes it.
        READY = "Ready";
        /// `Available` is True.
        ALL_REPLICAS_READY = "AllReplicasReady";
        /// `Available` is False.
        INSUFFICIENT_READY_REPLICAS = "InsufficientReadyReplicas";
        /// `Progressing` is True.
        REPLICAS_PROGRESSING = "ReplicasProgressing";
        /// `Synced` is True.
        POOL_SYNCED = "PoolSynced";
        /// `Synced` is False: live machines do not have the current template yet, and the rollout is in
        /// progress, paused, stopped or blocked.
        ROLLOUT_IN_PROGRESS = "RolloutInProgress";
        /// `Synced` is False: the current template was written to a live machine, and takes effect after a
        /// user approves its restart.
        RESTART_PENDING_APPROVAL = "RestartPendingApproval";
        /// `Synced` is False: a live machine keeps a disk of an earlier template until it is stopped or
        /// recreated.
        RECREATION_REQUIRED = "RecreationRequired";
        /// `Synced` is False, or `DiskDetached` is True: a user detached a disk from a live machine. The
        /// controller does not attach it again.
        DISK_DETACHED_BY_HAND = "DiskDetachedByHand";
        /// `Synced` is False: the platform has not evaluated changes of machines in time, so it is unknown
        /// whether they are in effect.
        CHANGES_NOT_EVALUATED = "ChangesNotEvaluated";
        /// `TemplateOverridden` is True, or `Synced` is False for this reason: an admission policy or the
        /// platform changed the fields.
        FIELDS_OVERRIDDEN = "FieldsOverridden";
        /// `Synced` is False: the controller cannot read objects that it plans with, so it is unknown whether
        /// the current template is in effect. `ReplicaFailure` is True for the same reason.
        FAILED_READ = "FailedRead";
        /// `ReplicaFailure` is True: creating a machine failed.
        FAILED_CREATE = "FailedCreate";
        /// `ReplicaFailure` is True: machines that the pool created do not belong to it.
        MACHINE_LOST = "MachineLost";
        /// `ReplicaFailure` is True: disks that the pool created do not belong to it.
        DISK_LOST = "DiskLost";
        /// `ReplicaFailure` is True: deleting a machine failed.
        FAILED_DELETE = "FailedDelete";
        /// `ReplicaFailure` is True: creating a disk, or changing the disk that a machine refers to, failed.
        DISK_FAILURE = "DiskFailure";
        /// `ReplicaFailure` is True: restoring labels and annotations of the controller failed.
        FAILED_REPAIR = "FailedRepair";
        /// `ReplicaFailure` is True: writing a template to a machine failed.
        FAILED_TEMPLATE_UPDATE = "FailedTemplateUpdate";
        /// `ReplicaFailure` is True: deleting revisions that no machine needs failed.
        FAILED_REVISION_PRUNING = "FailedRevisionPruning";
        /// `ReplicaFailure` is True: another client keeps overwriting the status of the pool.
        STATUS_DISPUTED = "StatusDisputed";
        /// `InvalidSettings` is True.
        UNREADABLE_SETTINGS = "UnreadableSettings";
        /// `BlockedByProtection` is True.
        PROTECTED_MACHINES = "ProtectedMachines";
        /// `HealingBlocked` is True.
        TOO_MANY_UNHEALTHY = "TooManyUnhealthy";
        /// `ProvisioningLimited` is True: the limit of the pool.
        MAX_PROVISIONING_REACHED = "MaxProvisioningReached";
        /// `ProvisioningLimited` is True: the limit of a storage class over all pools.
        STORAGE_CLASS_LIMIT_REACHED = "StorageClassLimitReached";
        /// `StartOverdue` is True.
        START_TIMEOUT_EXCEEDED = "StartTimeoutExceeded";
        /// `StandbyStarted` is True.
        STARTED_BY_CLIENT = "StartedByClient";
        /// `ImageOutdated` is True.
        SOURCE_CHANGED = "SourceChanged";
        /// `ReplicaPaused` is True.
        SUCCESSFUL_PAUSED = "SuccessfulPaused";
        /// `TemplateResolved` is False: the instance type that the template names does not exist, or cannot
        /// be read.
        INSTANCETYPE_NOT_FOUND = "InstancetypeNotFound";
        /// `TemplateResolved` is False: the preference that the template names does not exist, or cannot be
        /// read.
        PREFERENCE_NOT_FOUND = "PreferenceNotFound";
        /// `TemplateResolved` is False: the template sets what its instance type sets.
        INSTANCETYPE_CONFLICT = "InstancetypeConflict";
        /// `TemplateResolved` is False: the template does not meet the requirements of its preference.
        REQUIREMENTS_NOT_MET = "RequirementsNotMet";
        /// `TemplateResolved` is False: no name can be inferred from a volume.
        INFERENCE_FAILED = "InferenceFailed";
        /// `TemplateResolved` is False: a ControllerRevision is not a copy of the object that the template
        /// names.
        REVISION_MISMATCH = "RevisionMismatch";
        /// `PinningUnavailable` is True: the platform writes instance types and preferences into machines.
        CLUSTER_POLICY_EXPANDS = "ClusterPolicyExpands";
        /// `MembersDrifted` is True: machines refer to other objects than their revision.
        REFERENCES_CHANGED = "ReferencesChanged";
        /// `InstancetypeOutdated` is True: the object was deleted.
        DELETED = "Deleted";
        /// `InstancetypeOutdated` is True: the object was created again with another spec.
        RECREATED = "Recreated";
        /// `InstancetypeOutdated` is True: the spec of the object was changed.
        SPEC_CHANGED = "SpecChanged";
        /// `ImagesReady` is False: the data of an image is not there yet.
        IMAGE_SYNCING = "ImageSyncing";
        /// `ImagesReady` is False: the import of an image failed.
        IMAGE_FAILED = "ImageFailed";
        /// `ImagesReady` is False: an image is being deleted.
        IMAGE_TERMINATING = "ImageTerminating";
        /// `ImagesReady` is False: no grant permits to use an image of another namespace.
        REF_NOT_PERMITTED = "RefNotPermitted";
    }
}

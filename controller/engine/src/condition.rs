//! Conditions of a pool: their types and reasons, which status, events and documentation share.

use jiff::Timestamp;

/// Whether at least the desired number of machines is ready.
pub const AVAILABLE: &str = "Available";
/// Present and True while the number of machines differs from the desired number.
pub const PROGRESSING: &str = "Progressing";
/// Whether the current template is in effect in every live machine.
pub const SYNCED: &str = "Synced";
/// Present and True while the last attempt at a write failed.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Whether the pool is as its spec describes it, in the meaning of kstatus. Its reason is the
/// [`PoolPhase`](crate::status::PoolPhase) of the pool.
pub const READY: &str = "Ready";
/// The phase of a pool that waits for a user action, as the reason of `Ready`, `Reconciling` and `Stalled`.
pub const BLOCKED: &str = "Blocked";
/// The phase of a pool whose controller repeats a failed write, or with machines that do not start.
pub const FAILING: &str = "Failing";
/// The phase of a pool in which the current template is not in effect in all machines.
pub const ROLLING_OUT: &str = "RollingOut";
/// The phase of a pool with missing, surplus or unready machines.
pub const SCALING: &str = "Scaling";
/// The phase of a pool that is paused, or whose rollout is.
pub const PAUSED: &str = "Paused";
/// Whether the controller works toward the spec of the pool, in the meaning of kstatus.
pub const RECONCILING: &str = "Reconciling";
/// Whether the controller waits for a user action, in the meaning of kstatus.
pub const STALLED: &str = "Stalled";

/// Present and True while a setting of the pool cannot be read. The controller uses the safe value of that
/// setting and continues to reconcile the pool.
pub const INVALID_SETTINGS: &str = "InvalidSettings";

/// Present and True while the protection of machines blocks a step of the controller.
pub const BLOCKED_BY_PROTECTION: &str = "BlockedByProtection";
/// `BlockedByProtection` is True.
pub const PROTECTED_MACHINES: &str = "ProtectedMachines";

/// Present and True while the pool is paused.
pub const REPLICA_PAUSED: &str = "ReplicaPaused";
/// `ReplicaPaused` is True.
pub const SUCCESSFUL_PAUSED: &str = "SuccessfulPaused";

/// Present and False while an object that the template refers to is missing or does not fit. The reason is a
/// word of the platform.
pub const TEMPLATE_RESOLVED: &str = "TemplateResolved";

/// Present and True while the cluster does not let machines share copies of the objects that the template
/// refers to.
pub const PINNING_UNAVAILABLE: &str = "PinningUnavailable";
/// `PinningUnavailable` is True: KubeVirt writes instance types and preferences into machines.
pub const CLUSTER_POLICY_EXPANDS: &str = "ClusterPolicyExpands";

/// Present and True while machines refer to other objects than the revision that was written to them.
pub const MEMBERS_DRIFTED: &str = "MembersDrifted";
/// `MembersDrifted` is True.
pub const REFERENCES_CHANGED: &str = "ReferencesChanged";

/// Present and True while the copies that machines use differ from the objects as they are now. The reason is
/// a word of the platform.
pub const INSTANCETYPE_OUTDATED: &str = "InstancetypeOutdated";

/// Present and False while a disk image that the template names cannot be cloned.
pub const IMAGES_READY: &str = "ImagesReady";

/// Present and True while a machine lacks a volume of the template because a user removed it, on a platform
/// without `Synced`. Its reason is [`DISK_DETACHED_BY_HAND`].
pub const DISK_DETACHED: &str = "DiskDetached";

/// Present and True while fields of the template have other values in machines than the controller wrote.
pub const TEMPLATE_OVERRIDDEN: &str = "TemplateOverridden";
/// `TemplateOverridden` is True, or `Synced` is False for this reason: an admission policy or the platform
/// changed the fields.
pub const FIELDS_OVERRIDDEN: &str = "FieldsOverridden";

/// The condition types that the engine publishes. All others in a status belong to other controllers.
pub const CONTROLLER_CONDITIONS: [&str; 17] = [
    AVAILABLE,
    PROGRESSING,
    SYNCED,
    REPLICA_FAILURE,
    INVALID_SETTINGS,
    BLOCKED_BY_PROTECTION,
    REPLICA_PAUSED,
    READY,
    RECONCILING,
    STALLED,
    TEMPLATE_RESOLVED,
    PINNING_UNAVAILABLE,
    MEMBERS_DRIFTED,
    INSTANCETYPE_OUTDATED,
    IMAGES_READY,
    DISK_DETACHED,
    TEMPLATE_OVERRIDDEN,
];

/// `ImagesReady` is False: the data of an image is not there yet.
pub const IMAGE_SYNCING: &str = "ImageSyncing";
/// `ImagesReady` is False: the import of an image failed.
pub const IMAGE_FAILED: &str = "ImageFailed";
/// `ImagesReady` is False: an image is being deleted.
pub const IMAGE_TERMINATING: &str = "ImageTerminating";
/// `ImagesReady` is False: no grant permits to use an image of another namespace.
pub const REF_NOT_PERMITTED: &str = "RefNotPermitted";

/// `Available` is True.
pub const ALL_REPLICAS_READY: &str = "AllReplicasReady";
/// `Available` is False.
pub const INSUFFICIENT_READY_REPLICAS: &str = "InsufficientReadyReplicas";
/// `Progressing` is True.
pub const REPLICAS_PROGRESSING: &str = "ReplicasProgressing";
/// `Synced` is True.
pub const POOL_SYNCED: &str = "PoolSynced";
/// `Synced` is False: live machines do not have the current template yet, and the rollout is in progress,
/// paused, stopped or blocked.
pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
/// `Synced` is False: the current template was written to a live machine, and takes effect after a user
/// approves its restart.
pub const RESTART_PENDING_APPROVAL: &str = "RestartPendingApproval";
/// `Synced` is False: a live machine keeps a disk of an earlier template until it is stopped or recreated.
pub const RECREATION_REQUIRED: &str = "RecreationRequired";
/// `InvalidSettings` is True.
pub const UNREADABLE_SETTINGS: &str = "UnreadableSettings";
/// `Synced` is False: a user detached a disk from a live machine. The controller does not attach it again.
pub const DISK_DETACHED_BY_HAND: &str = "DiskDetachedByHand";
/// `Synced` is False: the platform has not evaluated changes of machines in time, so it is unknown whether
/// they are in effect.
pub const CHANGES_NOT_EVALUATED: &str = "ChangesNotEvaluated";

/// `Synced` is False: the controller cannot read objects that it plans with, so it is unknown whether the
/// current template is in effect.
pub const FAILED_READ: &str = "FailedRead";

/// One condition.
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

/// A condition before it is compared with the published one.
pub(crate) struct ComputedCondition {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
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
                .find(|old| old.kind == condition.kind && old.status == status)
                .map_or(now, |old| old.last_transition);
            StatusCondition {
                kind: condition.kind.into(),
                status: status.into(),
                reason: condition.reason.into(),
                message: condition.message,
                last_transition,
                observed_generation: Some(generation),
            }
        })
        .collect();
    merged
        .extend(published.iter().filter(|old| !CONTROLLER_CONDITIONS.contains(&old.kind.as_str())).cloned());
    merged
}

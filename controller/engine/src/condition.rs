//! Conditions of a pool: the words that status, events and docs share.

use jiff::Timestamp;

/// Whether the pool has at least as many ready replicas as desired.
pub const AVAILABLE: &str = "Available";
/// Present and True while the number of members differs from the desired one.
pub const PROGRESSING: &str = "Progressing";
/// Whether every live member is made from the current template.
pub const SYNCED: &str = "Synced";
/// Present and True while the last attempt to write something failed.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Present and True while a setting of the pool cannot be read. Its safe value holds, and the pool is served.
pub const INVALID_SETTINGS: &str = "InvalidSettings";

/// The condition types that the engine publishes; every other one in a status belongs to somebody else.
pub const OWN: [&str; 5] = [AVAILABLE, PROGRESSING, SYNCED, REPLICA_FAILURE, INVALID_SETTINGS];

/// `Available` is True.
pub const ALL_REPLICAS_READY: &str = "AllReplicasReady";
/// `Available` is False.
pub const INSUFFICIENT_READY_REPLICAS: &str = "InsufficientReadyReplicas";
/// `Progressing` is True.
pub const REPLICAS_PROGRESSING: &str = "ReplicasProgressing";
/// `Synced` is True.
pub const POOL_SYNCED: &str = "PoolSynced";
/// `Synced` is False: the current template is on its way to live members, or would be if nothing held it up.
pub const ROLLOUT_IN_PROGRESS: &str = "RolloutInProgress";
/// `Synced` is False: a live member that has the current template waits for somebody to restart it.
pub const RESTART_PENDING_APPROVAL: &str = "RestartPendingApproval";
/// `Synced` is False: a live member keeps something of another template until it is stopped or recreated.
pub const RECREATION_REQUIRED: &str = "RecreationRequired";
/// `InvalidSettings` is True.
pub const UNREADABLE_SETTINGS: &str = "UnreadableSettings";
/// `Synced` is False: a person detached a disk from a live member by hand. The controller does not attach it again.
pub const DISK_DETACHED_BY_HAND: &str = "DiskDetachedByHand";
/// `Synced` is False: for long the platform has not looked at changes of members, so that nobody knows what is in
/// effect.
pub const CHANGES_NOT_EVALUATED: &str = "ChangesNotEvaluated";

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word, for programs.
    pub reason: String,
    /// A sentence, for people.
    pub message: String,
    /// When `status` changed last.
    pub last_transition: Timestamp,
    /// The generation of the pool that it speaks of.
    pub observed_generation: Option<i64>,
}

/// A condition before it is compared with the published one.
pub(crate) struct Wanted {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Dates `wanted`: a condition whose status did not change keeps the time of its last transition. Conditions of
/// others are kept as they are.
pub(crate) fn merge(
    wanted: Vec<Wanted>,
    published: &[Condition],
    now: Timestamp,
    generation: i64,
) -> Vec<Condition> {
    let mut merged: Vec<Condition> = wanted
        .into_iter()
        .map(|condition| {
            let status = if condition.holds { "True" } else { "False" };
            let last_transition = published
                .iter()
                .find(|old| old.kind == condition.kind && old.status == status)
                .map_or(now, |old| old.last_transition);
            Condition {
                kind: condition.kind.into(),
                status: status.into(),
                reason: condition.reason.into(),
                message: condition.message,
                last_transition,
                observed_generation: Some(generation),
            }
        })
        .collect();
    merged.extend(published.iter().filter(|old| !OWN.contains(&old.kind.as_str())).cloned());
    merged
}

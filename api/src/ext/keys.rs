//! Names of the labels and annotations that pools put on objects.

#[cfg(test)]
mod tests;

/// What every key of ours begins with. Users must not set such keys in a machine template.
pub const PREFIX: &str = "vmpool.virtualization.deckhouse.io/";

/// Whether a label or annotation belongs to the pool controller.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Labels.
pub mod labels {
    /// On members and on all disks of a pool: UID of the pool.
    pub const POOL_UID: &str = "vmpool.virtualization.deckhouse.io/pool-uid";
    /// On members and on all disks of a pool: name of the pool, for people.
    pub const POOL: &str = "vmpool.virtualization.deckhouse.io/pool";
    /// On members: the template revision that is in effect.
    pub const TEMPLATE_HASH: &str = "vmpool.virtualization.deckhouse.io/template-hash";
    /// On all disks of a pool: name of the disk template they were made from.
    pub const DISK_TEMPLATE: &str = "vmpool.virtualization.deckhouse.io/disk-template";

    /// The selector that chooses the machines and pods of the pool with this UID, as the status publishes it.
    pub fn selector(pool_uid: &str) -> String {
        format!("{POOL_UID}={pool_uid}")
    }
}

/// Annotations.
pub mod annotations {
    /// On members: the template revision that was last written to their spec.
    pub const PATCHED_TEMPLATE_HASH: &str = "vmpool.virtualization.deckhouse.io/patched-template-hash";
    /// On disks with policy Retain: when the disk became free, RFC 3339 in UTC with whole seconds.
    pub const FREE_SINCE: &str = "vmpool.virtualization.deckhouse.io/free-since";
    /// On members: JSON object from the name of a disk template to the name of the disk that fills it.
    pub const DISKS: &str = "vmpool.virtualization.deckhouse.io/disks";
    /// On disks with policy Retain: name of the member that the disk is promised to.
    pub const CLAIMED_BY: &str = "vmpool.virtualization.deckhouse.io/claimed-by";
    /// On disks with policy Retain: since when the disk is about to be deleted, written like [`FREE_SINCE`].
    pub const COLLECTING_SINCE: &str = "vmpool.virtualization.deckhouse.io/collecting-since";
    /// On pools, the same as `spec.rollout.paused` where the cluster's definition of a pool has no such field: `true`
    /// or `false`.
    pub const ROLLOUT_PAUSED: &str = "vmpool.virtualization.deckhouse.io/rollout-paused";
    /// On pools, the same as `spec.rollout.maxUnavailable` where the cluster's definition of a pool has no such field:
    /// a number of machines from 1, or a percentage from `1%` to `100%`.
    pub const ROLLOUT_MAX_UNAVAILABLE: &str = "vmpool.virtualization.deckhouse.io/rollout-max-unavailable";
    /// On pools, the same as `spec.rollout.revision` where the cluster's definition of a pool has no such field: the id
    /// of a stored revision.
    pub const ROLLOUT_REVISION: &str = "vmpool.virtualization.deckhouse.io/rollout-revision";
    /// On pools, the same as `spec.revisionHistoryLimit` where the cluster's definition of a pool has no such field: a
    /// number from 0.
    pub const REVISION_HISTORY_LIMIT: &str = "vmpool.virtualization.deckhouse.io/revision-history-limit";
    /// On pools: JSON list of the machines that were asked to leave, each with `name` and `uid`.
    pub const SCALE_DOWN_TARGETS: &str = "vmpool.virtualization.deckhouse.io/scale-down-targets";
    /// On pools: the open block of numbers for machine names, `<first>-<end>`, the end not included.
    pub const NAMES: &str = "vmpool.virtualization.deckhouse.io/names";
}

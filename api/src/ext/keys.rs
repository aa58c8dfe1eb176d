//! Keys of labels and annotations: those for objects of DVP, and the annotations that have the same key on
//! all platforms.

#[cfg(test)]
mod tests;

/// Prefix of the keys for objects of DVP. Users must not set such keys in a machine template.
///
/// The keys that all platforms share, such as [`annotations::PROTECTED_UNTIL`], and those for objects of
/// KubeVirt have the prefix [`diskimage::PREFIX`](crate::diskimage::PREFIX).
pub const PREFIX: &str = "vmpool.virtualization.deckhouse.io/";

/// Whether a label or annotation key is reserved for the controller of pools of DVP.
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Labels of objects of DVP.
pub mod labels {
    /// On machines and all disks of a pool: UID of the pool.
    pub const POOL_UID: &str = "vmpool.virtualization.deckhouse.io/pool-uid";
    /// On machines and all disks of a pool: name of the pool, for users.
    pub const POOL: &str = "vmpool.virtualization.deckhouse.io/pool";
    /// On machines: the revision that is in effect.
    pub const TEMPLATE_HASH: &str = "vmpool.virtualization.deckhouse.io/template-hash";
    /// On all disks of a pool: name of the disk template from which the disk was created.
    pub const DISK_TEMPLATE: &str = "vmpool.virtualization.deckhouse.io/disk-template";
}

/// Annotations of objects of DVP, and annotations that all platforms share.
pub mod annotations {
    /// On machines: the revision that was last written to the spec.
    pub const PATCHED_TEMPLATE_HASH: &str = "vmpool.virtualization.deckhouse.io/patched-template-hash";
    /// On retained disks: when the disk became free, RFC 3339 in UTC with whole seconds.
    pub const FREE_SINCE: &str = "vmpool.virtualization.deckhouse.io/free-since";
    /// On machines: JSON object that maps the name of each disk template to the name of the machine's disk.
    pub const DISKS: &str = "vmpool.virtualization.deckhouse.io/disks";
    /// On retained disks: name of the machine to which the disk is allocated.
    pub const CLAIMED_BY: &str = "vmpool.virtualization.deckhouse.io/claimed-by";
    /// On retained disks: since when disk garbage collection is deleting the disk, in the format of
    /// [`FREE_SINCE`].
    pub const COLLECTING_SINCE: &str = "vmpool.virtualization.deckhouse.io/collecting-since";
    /// On pools: replaces `spec.rollout.paused` if the cluster's CRD lacks this field. `true` or `false`.
    pub const ROLLOUT_PAUSED: &str = "vmpool.virtualization.deckhouse.io/rollout-paused";
    /// On pools: replaces `spec.rollout.maxUnavailable` if the cluster's CRD lacks this field. A number of
    /// machines from 1, or a percentage from `1%` to `100%`.
    pub const ROLLOUT_MAX_UNAVAILABLE: &str = "vmpool.virtualization.deckhouse.io/rollout-max-unavailable";
    /// On pools: replaces `spec.rollout.revision` if the cluster's CRD lacks this field. The id of a stored
    /// revision.
    pub const ROLLOUT_REVISION: &str = "vmpool.virtualization.deckhouse.io/rollout-revision";
    /// On pools: replaces `spec.revisionHistoryLimit` if the cluster's CRD lacks this field. A number from 0.
    pub const REVISION_HISTORY_LIMIT: &str = "vmpool.virtualization.deckhouse.io/revision-history-limit";
    /// On pools: the removal record, a JSON list of machines, each with `name` and `uid`.
    pub const SCALE_DOWN_TARGETS: &str = "vmpool.virtualization.deckhouse.io/scale-down-targets";
    /// On pools: the open block of numbers for machine names, `<first>-<end>`, without the end.
    pub const NAMES: &str = "vmpool.virtualization.deckhouse.io/names";
    /// On pools: `<name>/<UID>` of the pool whose machines exist. A pool with another UID is a copy, for
    /// example from a backup, and has no machines until a user decides whose machines it gets.
    pub const MACHINES_OF: &str = "vmpool.virtualization.deckhouse.io/machines-of";

    /// On machines of all platforms: until when the machine is protected, RFC 3339. This annotation alone
    /// decides; [`PROTECTED_BY`] and [`PROTECTION_REASON`] are for users.
    pub const PROTECTED_UNTIL: &str = "vmpool.dev/protected-until";
    /// On machines of all platforms: which user or program protects the machine. At most 256 bytes.
    pub const PROTECTED_BY: &str = "vmpool.dev/protected-by";
    /// On machines of all platforms: why the machine is protected. At most 256 bytes.
    pub const PROTECTION_REASON: &str = "vmpool.dev/protection-reason";
    /// On machines of all platforms: the claim, as JSON. Only the aggregated API writes it, see
    /// [`MachineClaim`](crate::subresources::MachineClaim).
    pub const CLAIM: &str = "vmpool.dev/claim";
    /// On machines of all platforms: the revision for which the controller is restarting the machine. Until
    /// the controller removes it, the machine cannot be claimed.
    pub const RESTARTING: &str = "vmpool.dev/restarting";
    /// On machines of all platforms: the drain, as JSON. Only the controller writes it.
    pub const DRAINING: &str = "vmpool.dev/draining";
    /// Prefix of the annotations of machines that hold a drain up, until the drain's deadline. The rest of
    /// the key names the hook.
    pub const DRAIN_HOOK_PREFIX: &str = "drain.vmpool.dev/";
    /// On pools of all platforms: for how long a machine may drain, as JSON, for example `{"timeout":
    /// "10m"}`.
    pub const DRAIN: &str = "vmpool.dev/drain";
    /// On pools of all platforms: when healing replaces machines that are not ready, as JSON, for example
    /// `{"notReadyFor": "5m"}`.
    pub const HEALING: &str = "vmpool.dev/healing";
    /// On machines of all platforms: when a user requested that another machine replaces this one, RFC 3339.
    /// On pools: when the controller replaces machines, as JSON, for example `{"maxLifetime": "168h"}`.
    pub const RECYCLE: &str = "vmpool.dev/recycle";
    /// On machines of all platforms: how often the machine was claimed. Only the aggregated API writes it.
    pub const CLAIMS: &str = "vmpool.dev/claims";
    /// On pools of all platforms: the longest time for which a machine can be protected, for example `24h`.
    pub const MAX_PROTECTION: &str = "vmpool.dev/max-protection";
    /// On pools of all platforms: how many machines may exist that have not been ready yet, for example `5`
    /// or `10%`.
    pub const MAX_PROVISIONING: &str = "vmpool.dev/max-provisioning";
    /// On machines of all platforms, as a label: the machine is a standby machine, `warming` or `stopped`. On
    /// pools of all platforms, as an annotation: the standby machines, as JSON, for example
    /// `{"replicas": 2}`.
    pub const STANDBY: &str = "vmpool.dev/standby";
    /// On machines of all platforms: when the controller activated a standby machine, RFC 3339.
    pub const ACTIVATED_AT: &str = "vmpool.dev/activated-at";
    /// On pools of all platforms that an autoscaler names: the claims that found no machine, a JSON object
    /// that maps a digest of the user and the id to the Unix time in seconds at which the entry ends. Only
    /// the aggregated API writes it.
    pub const WAITING_CLAIMS: &str = "vmpool.dev/waiting-claims";
    /// On pools of all platforms: after how many seconds without progress the pool is stalled, for example
    /// `1800`.
    pub const PROGRESS_DEADLINE_SECONDS: &str = "vmpool.dev/progress-deadline-seconds";
    /// On pools of all platforms: what the controller does if a source of their disks leads to other content:
    /// `Off`, `Report` or `Recreate`.
    pub const IMAGE_REFRESH: &str = "vmpool.dev/image-refresh";
    /// On machines of all platforms: from which content their disks are created, a JSON object with names of
    /// disk templates. Only the controller writes it, when it creates the machine.
    pub const DISK_SOURCES: &str = "vmpool.dev/disk-sources";
    /// On the Lease of the controller: when the leader released it, RFC 3339.
    pub const LEASE_RELEASED: &str = "vmpool.dev/lease-released";
}

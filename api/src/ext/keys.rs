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
    /// On pools: JSON list of the machines that were asked to leave, each with `name` and `uid`.
    pub const SCALE_DOWN_TARGETS: &str = "vmpool.virtualization.deckhouse.io/scale-down-targets";
    /// On pools: the open block of numbers for machine names, `<first>-<end>`, the end not included.
    pub const NAMES: &str = "vmpool.virtualization.deckhouse.io/names";
}

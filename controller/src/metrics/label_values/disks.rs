//! The label values of metrics of disks.

use vmpool_runtime::words;

words!(
    /// The usage of a disk that a pool owns: the first one that applies.
    pub(crate) DiskUse {
        /// It has a deletion timestamp.
        Terminating => "terminating",
        /// A machine or an attachment refers to it, or it is mounted.
        InUse => "in_use",
        /// It is allocated to a machine that does not refer to it yet.
        Claimed => "claimed",
        /// It failed, or lost its volume.
        Broken => "broken",
        /// It is marked for deletion.
        Collecting => "collecting",
        /// It is free.
        Free => "free",
    }
);

words!(
    /// Why a disk was deleted.
    pub(crate) Collection {
        /// It was free for longer than the ttl of its template.
        Expired => "expired",
        /// It failed, or lost its volume.
        Broken => "broken",
        /// Its disk template was removed from the pool.
        TemplateRemoved => "template_removed",
    }
);

words!(
    /// The outcome of an attempt to allocate a free disk to a machine.
    pub(crate) ClaimOutcome {
        /// The disk is allocated.
        Done => "done",
        /// The disk had changed since the plan. The controller plans again.
        Outdated => "outdated",
        /// The write failed.
        Failed => "failed",
    }
);

//! Disks that the pools own: what has become of them, and what is done with them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::model::{DiskState, Lifetime};
use vmpool_engine::plan::DiskDeleteReason;
use vmpool_engine::{Disk, Pool};
use vmpool_runtime::metrics::Registry;
use vmpool_runtime::words;

use super::labels::{ClaimLabels, CollectionLabels, DiskLabels, each};
use super::pools::gauge;

words!(
    /// What has become of a disk that a pool owns; the first that applies.
    pub(crate) DiskUse {
        /// It has a deletion timestamp.
        Terminating => "terminating",
        /// A machine or an attachment refers to it, or it is mounted.
        InUse => "in_use",
        /// It is promised to a machine that does not refer to it yet.
        Claimed => "claimed",
        /// It failed, or its volume is gone.
        Broken => "broken",
        /// It is about to be deleted.
        Collecting => "collecting",
        /// It waits for a machine.
        Free => "free",
    }
);

words!(
    /// Why a disk was deleted.
    pub(crate) Collection {
        /// It was free for longer than its template allows.
        Expired => "expired",
        /// It failed, or its volume was gone.
        Broken => "broken",
        /// Its template left the pool.
        TemplateRemoved => "template_removed",
    }
);

words!(
    /// What came of the attempt to promise a free disk to a machine.
    pub(crate) ClaimOutcome {
        /// It is the machine's.
        Done => "done",
        /// It was not any more what was planned for. Another plan is made.
        Outdated => "outdated",
        /// The write failed.
        Failed => "failed",
    }
);

/// The disks of one pool, or of several, by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounts {
    states: [usize; DiskUse::ALL.len()],
    /// Free ones that no ttl ends.
    endless: usize,
}

impl DiskCounts {
    /// Counts disks that `pool` owns, each with whether somebody refers to it.
    pub(crate) fn of<'a>(pool: &Pool, disks: impl Iterator<Item = (&'a Disk, bool)>) -> Self {
        let mut counts = Self::default();
        for (disk, referred) in disks {
            let state = use_of(disk, referred);
            counts.states[state as usize] += 1;
            let template = pool.disks.iter().find(|known| Some(&known.name) == disk.template.as_ref());
            let endless =
                template.is_some_and(|known| known.lifetime == Lifetime::Retained && known.ttl.is_none());
            counts.endless += usize::from(state == DiskUse::Free && endless);
        }
        counts
    }

    /// Adds those of another pool.
    pub(super) fn add(&mut self, other: &Self) {
        self.states.iter_mut().zip(other.states).for_each(|(sum, count)| *sum += count);
        self.endless += other.endless;
    }
}

fn use_of(disk: &Disk, referred: bool) -> DiskUse {
    if disk.terminating {
        DiskUse::Terminating
    } else if referred || disk.mounted_by.is_some() {
        DiskUse::InUse
    } else if disk.annotations.claimed_by.is_some() {
        DiskUse::Claimed
    } else if matches!(disk.state, DiskState::Failed | DiskState::Lost) {
        DiskUse::Broken
    } else if disk.annotations.collecting_since.is_some() {
        DiskUse::Collecting
    } else {
        DiskUse::Free
    }
}

/// The gauges that show the sums.
#[derive(Debug)]
pub(super) struct DiskGauges {
    disks: Family<DiskLabels, Gauge>,
    endless: Gauge,
}

impl DiskGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            disks: registry.register(
                "vmpool_disks",
                "disks",
                "Disks that outlive their machines, of all pools together, as the last pass of each pool saw them",
                each(DiskUse::ALL.iter().map(|&state| DiskLabels { state })),
            ),
            endless: registry.register(
                "vmpool_disks_without_ttl",
                "disks",
                "Those of the free ones whose template has no ttl: nothing ever deletes them",
                Gauge::default(),
            ),
        }
    }

    pub(super) fn show(&self, counts: &DiskCounts) {
        for (&state, count) in DiskUse::ALL.iter().zip(counts.states) {
            self.disks.get_or_create(&DiskLabels { state }).set(gauge(count));
        }
        self.endless.set(gauge(counts.endless));
    }
}

/// Counters of what is done with disks.
#[derive(Clone, Debug)]
pub(crate) struct DiskMetrics {
    claims: Family<ClaimLabels, Counter>,
    pub(crate) reused: Counter,
    pub(crate) grown: Counter,
    pub(crate) spared: Counter,
    collections: Family<CollectionLabels, Counter>,
}

impl DiskMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            claims: registry.register(
                "vmpool_disk_claims_total",
                "claims",
                "Attempts to promise a free disk to a machine, by what came of them",
                each(ClaimOutcome::ALL.iter().map(|&outcome| ClaimLabels { outcome })),
            ),
            reused: registry.register(
                "vmpool_disks_reused_total",
                "disks",
                "Free disks that another machine got",
                Counter::default(),
            ),
            grown: registry.register(
                "vmpool_disks_resized_total",
                "disks",
                "Disks that were made larger because their template was",
                Counter::default(),
            ),
            spared: registry.register(
                "vmpool_disks_spared_total",
                "disks",
                "Disks that were about to be deleted, and that the last look before found in use",
                Counter::default(),
            ),
            collections: registry.register(
                "vmpool_disk_collections_total",
                "disks",
                "Disks of pools whose deletion by the controller was accepted, by why",
                each(Collection::ALL.iter().map(|&reason| CollectionLabels { reason })),
            ),
        }
    }

    /// An attempt to claim a disk ended.
    pub(crate) fn claimed(&self, outcome: ClaimOutcome) {
        self.claims.get_or_create(&ClaimLabels { outcome }).inc();
    }

    /// A disk is being deleted.
    pub(crate) fn collected(&self, end: DiskDeleteReason) {
        let reason = match end {
            DiskDeleteReason::Expired => Collection::Expired,
            DiskDeleteReason::Broken => Collection::Broken,
            DiskDeleteReason::TemplateRemoved => Collection::TemplateRemoved,
        };
        self.collections.get_or_create(&CollectionLabels { reason }).inc();
    }
}

#[cfg(test)]
mod tests;

//! Metrics of retained disks: their usage, and the writes of them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::model::Lifetime;
use vmpool_engine::plan::DiskDeleteReason;
use vmpool_engine::{Disk, Pool};
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::family_with_series;

use super::label_values::{ClaimOutcome, Collection, DiskUse};
use super::labels::{ClaimLabels, CollectionLabels, DiskLabels, gauge_value};

/// The numbers of disks of one or several pools by their usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounts {
    states: [usize; DiskUse::ALL.len()],
    /// Free disks whose template has no ttl.
    endless: usize,
}

impl DiskCounts {
    /// Counts disks that `pool` owns. Each is given with whether an object refers to it.
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

    /// The number of free disks.
    pub(super) fn free(&self) -> usize {
        self.states[DiskUse::Free as usize]
    }

    /// Adds the numbers of another pool.
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
    } else if !disk.is_usable() {
        DiskUse::Broken
    } else if disk.annotations.collecting_since.is_some() {
        DiskUse::Collecting
    } else {
        DiskUse::Free
    }
}

metric_table!(
    /// The gauges of the sums.
    #[derive(Debug)]
    pub(super) struct DiskGauges {
        /// Retained disks of all pools, as of the last pass of each pool.
        disks: Family<DiskLabels, Gauge> = "vmpool_disks" in "disks", family_with_series();
        /// Free disks whose template has no ttl. Garbage collection never deletes them.
        endless: Gauge = "vmpool_disks_without_ttl" in "disks";
    }
);

impl DiskGauges {
    pub(super) fn show(&self, counts: &DiskCounts) {
        for (&state, count) in DiskUse::ALL.iter().zip(counts.states) {
            self.disks.get_or_create(&DiskLabels { state }).set(gauge_value(count));
        }
        self.endless.set(gauge_value(counts.endless));
    }
}

metric_table!(
    /// Counters of writes of disks.
    #[derive(Clone, Debug)]
    pub(crate) struct DiskMetrics {
        /// Attempts to allocate a free disk to a machine, by outcome.
        claims: Family<ClaimLabels, Counter> = "vmpool_disk_claims_total" in "claims", family_with_series();
        /// Free disks that were allocated to another machine.
        pub(crate) reused: Counter = "vmpool_disks_reused_total" in "disks";
        /// Disks that were expanded because their template asks for a larger size.
        pub(crate) grown: Counter = "vmpool_disks_resized_total" in "disks";
        /// Disks to delete that the last live read found in use.
        pub(crate) spared: Counter = "vmpool_disks_spared_total" in "disks";
        /// Retained disks that the controller deleted, by reason.
        collections: Family<CollectionLabels, Counter> = "vmpool_disk_collections_total" in "disks",
            family_with_series();
    }
);

impl DiskMetrics {
    /// Counts an attempt to allocate a disk.
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

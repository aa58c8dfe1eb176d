//! Metrics of retained disks: their usage, and the writes of them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::model::Lifetime;
use vmpool_engine::plan::DiskDeleteReason;
use vmpool_engine::{Disk, Pool};
use vmpool_runtime::metrics::MetricsRegistry;

use super::label_values::{ClaimOutcome, Collection, DiskUse};
use super::labels::{ClaimLabels, CollectionLabels, DiskLabels, family_with_series, gauge_value};

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

/// The gauges of the sums.
#[derive(Debug)]
pub(super) struct DiskGauges {
    disks: Family<DiskLabels, Gauge>,
    endless: Gauge,
}

impl DiskGauges {
    pub(super) fn new(registry: &mut MetricsRegistry) -> Self {
        Self {
            disks: registry.register(
                "vmpool_disks",
                "disks",
                "Retained disks of all pools, as of the last pass of each pool",
                family_with_series(DiskUse::ALL.iter().map(|&state| DiskLabels { state })),
            ),
            endless: registry.register(
                "vmpool_disks_without_ttl",
                "disks",
                "Free disks whose template has no ttl. Garbage collection never deletes them",
                Gauge::default(),
            ),
        }
    }

    pub(super) fn show(&self, counts: &DiskCounts) {
        for (&state, count) in DiskUse::ALL.iter().zip(counts.states) {
            self.disks.get_or_create(&DiskLabels { state }).set(gauge_value(count));
        }
        self.endless.set(gauge_value(counts.endless));
    }
}

/// Counters of writes of disks.
#[derive(Clone, Debug)]
pub(crate) struct DiskMetrics {
    claims: Family<ClaimLabels, Counter>,
    pub(crate) reused: Counter,
    pub(crate) grown: Counter,
    pub(crate) spared: Counter,
    collections: Family<CollectionLabels, Counter>,
}

impl DiskMetrics {
    pub(super) fn new(registry: &mut MetricsRegistry) -> Self {
        Self {
            claims: registry.register(
                "vmpool_disk_claims_total",
                "claims",
                "Attempts to allocate a free disk to a machine, by outcome",
                family_with_series(ClaimOutcome::ALL.iter().map(|&outcome| ClaimLabels { outcome })),
            ),
            reused: registry.register(
                "vmpool_disks_reused_total",
                "disks",
                "Free disks that were allocated to another machine",
                Counter::default(),
            ),
            grown: registry.register(
                "vmpool_disks_resized_total",
                "disks",
                "Disks that were expanded because their template asks for a larger size",
                Counter::default(),
            ),
            spared: registry.register(
                "vmpool_disks_spared_total",
                "disks",
                "Disks to delete that the last live read found in use",
                Counter::default(),
            ),
            collections: registry.register(
                "vmpool_disk_collections_total",
                "disks",
                "Retained disks that the controller deleted, by reason",
                family_with_series(Collection::ALL.iter().map(|&reason| CollectionLabels { reason })),
            ),
        }
    }

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

//! Metrics of deletions and of removal records.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use vmpool_engine::plan::DeleteReason;
use vmpool_engine::recycling::RecycleCause;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::family_with_series;

use super::label_values::{Deletion, SettledOutcome};
use super::labels::{DeletionLabels, SettledLabels};

metric_table!(
    /// Counters of removals.
    #[derive(Clone, Debug)]
    pub(crate) struct RemovalMetrics {
        /// Machines that the controller deleted, by reason. The API server for removals deletes targets as
        /// well; the controller does not count those.
        deletions: Family<DeletionLabels, Counter> = "vmpool_deletions_total" in "machines",
            family_with_series();
        /// Targets that were removed from the removal record of their pool, by reason.
        settled: Family<SettledLabels, Counter> = "vmpool_removal_targets_settled_total" in "targets",
            family_with_series();
    }
);

impl RemovalMetrics {
    /// A machine is being deleted.
    pub(crate) fn deleted(&self, reason: DeleteReason) {
        let reason = match reason {
            DeleteReason::Surplus { .. } => Deletion::Surplus,
            DeleteReason::Targeted { .. } => Deletion::Targeted,
            DeleteReason::StandbySurplus => Deletion::StandbySurplus,
            DeleteReason::StandbyReplaced => Deletion::StandbyReplaced,
            DeleteReason::Recycled { cause } => match cause {
                RecycleCause::Requested => Deletion::RecycledByRequest,
                RecycleCause::Lifetime => Deletion::RecycledByLifetime,
                RecycleCause::Claims => Deletion::RecycledByClaims,
                RecycleCause::Image => Deletion::RecycledByImage,
                RecycleCause::Released => Deletion::RecycledByHooks,
            },
            DeleteReason::StorageChanged { .. } => Deletion::StorageChanged,
            DeleteReason::Unhealthy => Deletion::Unhealthy,
            DeleteReason::NotReady => Deletion::NotReady,
        };
        self.deletions.get_or_create(&DeletionLabels { reason }).inc();
    }

    /// Counts targets that were removed from a record.
    pub(crate) fn settled(&self, removed: usize, expired: usize) {
        for (outcome, count) in [(SettledOutcome::Removed, removed), (SettledOutcome::Expired, expired)] {
            self.settled.get_or_create(&SettledLabels { outcome }).inc_by(count as u64);
        }
    }
}

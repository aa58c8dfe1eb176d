//! Who leaves, and what becomes of the records of named machines.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use vmpool_engine::plan::DeleteReason;
use vmpool_runtime::metrics::Registry;

use super::label_values::{Deletion, SettledOutcome};
use super::labels::{DeletionLabels, SettledLabels, each};

/// Counters of removals.
#[derive(Clone, Debug)]
pub(crate) struct RemovalMetrics {
    deletions: Family<DeletionLabels, Counter>,
    settled: Family<SettledLabels, Counter>,
}

impl RemovalMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            deletions: registry.register(
                "vmpool_deletions_total",
                "machines",
                "Machines whose deletion by the controller was accepted, by why they leave. Whoever names machines deletes them as well, and what was deleted by then is not counted here",
                each(Deletion::ALL.iter().map(|&reason| DeletionLabels { reason })),
            ),
            settled: registry.register(
                "vmpool_removal_targets_settled_total",
                "targets",
                "Targets of removals by name that left the record of their pool, by why",
                each(SettledOutcome::ALL.iter().map(|&outcome| SettledLabels { outcome })),
            ),
        }
    }

    /// A machine is being deleted.
    pub(crate) fn deleted(&self, reason: DeleteReason) {
        let reason = match reason {
            DeleteReason::Surplus => Deletion::Surplus,
            DeleteReason::Targeted => Deletion::Targeted,
        };
        self.deletions.get_or_create(&DeletionLabels { reason }).inc();
    }

    /// So many targets left a record.
    pub(crate) fn settled(&self, removed: usize, expired: usize) {
        for (outcome, count) in [(SettledOutcome::Removed, removed), (SettledOutcome::Expired, expired)] {
            self.settled.get_or_create(&SettledLabels { outcome }).inc_by(count as u64);
        }
    }
}

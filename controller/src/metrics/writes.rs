//! Metrics of writes and of their failures.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use vmpool_engine::failure::FailureReason;
use vmpool_runtime::metrics::Registry;

use super::label_values::{Failed, WriteKind, WriteOutcome};
use super::labels::{FailureLabels, WriteLabels, each};

/// Counters of writes. Clones count together.
#[derive(Clone, Debug)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
}

impl WriteMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let pairs = WriteKind::ALL
            .iter()
            .flat_map(|&kind| WriteOutcome::ALL.iter().map(move |&outcome| WriteLabels { kind, outcome }));
        Self {
            writes: registry.register(
                "vmpool_writes_total",
                "writes",
                "Writes of the controller by their outcome. Creates that get `AlreadyExists` and writes with a failed precondition count as refused",
                each(pairs),
            ),
            failures: registry.register(
                "vmpool_failures_total",
                "failures",
                "Batches of writes that failed, by the reason of the condition ReplicaFailure. The controller retries with a backoff of up to one minute",
                each(Failed::ALL.into_iter().map(|reason| FailureLabels { reason })),
            ),
        }
    }

    /// Counters that are not exported, for writers outside of a controller.
    pub fn detached() -> Self {
        Self::new(&mut Registry::new())
    }

    pub(crate) fn ended(&self, kind: WriteKind, outcome: WriteOutcome) {
        self.writes.get_or_create(&WriteLabels { kind, outcome }).inc();
    }

    pub(crate) fn batch_failed(&self, reason: FailureReason) {
        self.failures.get_or_create(&FailureLabels { reason: Failed(reason) }).inc();
    }
}

//! Metrics of writes and of their failures.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::failure::FailureReason;
use vmpool_kit::write::{WriteCategory, WriteObserver, WriteOutcome};
use vmpool_runtime::metrics::MetricsRegistry;

use super::label_values::{FailureReasonLabel, WriteKind};
use super::labels::{FailureLabels, WriteLabels, family_with_series};

/// Counters of writes. Clones count together.
#[derive(Clone, Debug)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    slow: Gauge,
}

impl WriteMetrics {
    pub(super) fn new(registry: &mut MetricsRegistry) -> Self {
        let pairs = WriteKind::ALL
            .iter()
            .flat_map(|&kind| WriteOutcome::ALL.iter().map(move |&outcome| WriteLabels { kind, outcome }));
        Self {
            writes: registry.register(
                "vmpool_writes_total",
                "writes",
                "Writes of the controller by their outcome. Creates that get `AlreadyExists` and writes with a failed precondition count as refused",
                family_with_series(pairs),
            ),
            failures: registry.register(
                "vmpool_failures_total",
                "failures",
                "Batches of writes and reads of plans that failed, by the reason of the condition ReplicaFailure. The controller retries with a backoff of up to one minute",
                family_with_series(FailureReasonLabel::ALL.into_iter().map(|reason| FailureLabels { reason })),
            ),
            slow: registry.register(
                "vmpool_slow_writes",
                "writes",
                "Writes in flight that have waited for longer than half of --request-deadline: admission or the API server is slow",
                Gauge::default(),
            ),
        }
    }

    /// Counters that are not exported, for writers outside of a controller.
    pub fn detached() -> Self {
        Self::new(&mut MetricsRegistry::new())
    }

    pub(crate) fn batch_failed(&self, reason: FailureReason) {
        self.failures.get_or_create(&FailureLabels { reason: FailureReasonLabel(reason) }).inc();
    }
}

impl WriteCategory for WriteKind {
    const EVENT: Self = Self::Event;
}

impl WriteObserver<WriteKind> for WriteMetrics {
    fn ended(&self, kind: WriteKind, outcome: WriteOutcome) {
        self.writes.get_or_create(&WriteLabels { kind, outcome }).inc();
    }

    fn slow_begins(&self) {
        self.slow.inc();
    }

    fn slow_ends(&self) {
        self.slow.dec();
    }
}

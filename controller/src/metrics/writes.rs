//! Metrics of writes and of their failures.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_engine::failure::FailureReason;
use vmpool_kit::write::{WriteCategory, WriteObserver, WriteOutcome};
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{MetricsRegistry, family_with_series};

use super::label_values::{FailureReasonLabel, WriteKind};
use super::labels::{FailureLabels, WriteLabels};

metric_table!(
    /// Counters of writes. Clones count together.
    #[derive(Clone, Debug)]
    pub struct WriteMetrics {
        /// Writes of the controller by their outcome. Creates that get `AlreadyExists` and writes with a
        /// failed precondition count as refused.
        writes: Family<WriteLabels, Counter> = "vmpool_writes_total" in "writes", family_with_series();
        /// Batches of writes and reads of plans that failed, by the reason of the condition ReplicaFailure.
        /// The controller retries with a backoff of up to one minute.
        failures: Family<FailureLabels, Counter> = "vmpool_failures_total" in "failures",
            family_with_series();
        /// Writes in flight that have waited for longer than half of --request-deadline: admission or the API
        /// server is slow.
        slow: Gauge = "vmpool_slow_writes" in "writes";
    }
);

impl WriteMetrics {
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

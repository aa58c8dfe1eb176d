//! Metrics of drains.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_engine::plan::FinishedDrain;
use vmpool_runtime::metric_table;

/// From seconds to the longest timeout.
const BUCKETS: [f64; 10] = [5.0, 15.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 10_800.0, 43_200.0, 86_400.0];

metric_table!(
    /// Drains of machines.
    #[derive(Clone, Debug)]
    pub(crate) struct DrainMetrics {
        /// How long machines drained before they were deleted or restarted. Drains that ended without that
        /// step do not count.
        lasted: Histogram = "vmpool_drain_duration_seconds" in "seconds", Histogram::new(BUCKETS);
        /// Machines that were deleted or restarted although hooks were not released, because the deadline of
        /// their drain had passed.
        deadlines: Counter = "vmpool_drain_deadlines_passed_total" in "machines";
    }
);

impl DrainMetrics {
    /// The step of these machines follows.
    pub(crate) fn finished(&self, drains: &[FinishedDrain]) {
        for drain in drains {
            self.lasted.observe(drain.lasted.as_secs_f64());
            self.deadlines.inc_by(u64::from(!drain.hooks.is_empty()));
        }
    }
}

//! Metrics of passes and of their queue.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_kit::queue::QueueObserver;
use vmpool_runtime::Env;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{MetricsRegistry, add_known_series, family_with_series, histogram_family};

use super::label_values::{PassResult, PassStep, WakeOutcome};
use super::labels::{PassLabels, StageLabels, WakeLabels};

/// From a pass over a small converged pool to a stuck pass.
const PASS_BUCKETS: [f64; 12] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];

/// From a free worker to workers that are all busy with long passes.
const WAIT_BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// The queue of pools. Its length is read at each scrape.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    /// Wakeups that made a pool due.
    queued: Counter,
    /// Wakeups of pools that were already due.
    merged: Counter,
    /// Passes that requested the next pass.
    pub(crate) requeued: Counter,
    wait: Histogram,
}

impl QueueMetrics {
    pub(super) fn new(registry: &mut MetricsRegistry) -> Self {
        let adds: Family<WakeLabels, Counter> = registry.register(
            "vmpool_workqueue_adds_total",
            "wakeups",
            "Wakeups of pools by events. Wakeups of a pool that was already due were merged into one pass",
            family_with_series(),
        );
        // Every watch event wakes a pool, so this avoids a lookup.
        let counter = |outcome| adds.get_or_create_owned(&WakeLabels { outcome });
        Self {
            queued: counter(WakeOutcome::Queued),
            merged: counter(WakeOutcome::Merged),
            requeued: registry.register(
                "vmpool_workqueue_requeues_total",
                "passes",
                "Passes that requested another pass before the regular one after ten minutes: to retry, to continue, or to check a blocker",
                Counter::default(),
            ),
            wait: registry.register(
                "vmpool_workqueue_wait_seconds",
                "seconds",
                "How long a due pool waited for a worker. The debounce is not included",
                Histogram::new(WAIT_BUCKETS),
            ),
        }
    }
}

impl QueueObserver for QueueMetrics {
    fn queued(&self) {
        self.queued.inc();
    }

    fn merged(&self) {
        self.merged.inc();
    }

    fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}

metric_table!(
    /// Passes by their result, and their duration.
    #[derive(Clone, Debug)]
    pub(crate) struct PassMetrics {
        /// Passes over pools by their result.
        passes: Family<PassLabels, Counter> = "vmpool_passes_total" in "passes", family_with_series();
        /// Duration of a pass over one pool, its requests included.
        duration: Histogram = "vmpool_pass_duration_seconds" in "seconds", Histogram::new(PASS_BUCKETS);
        /// Duration of the steps of a pass. Steps that a pass did not reach are omitted.
        stages: Family<StageLabels, Histogram> = "vmpool_pass_stage_duration_seconds" in "seconds",
            add_known_series(histogram_family(|| Histogram::new(PASS_BUCKETS)));
    }
);

impl PassMetrics {
    /// A pass ended.
    pub(crate) fn ended(&self, result: PassResult) {
        self.passes.get_or_create(&PassLabels { result }).inc();
    }

    /// Records the durations of a pass.
    pub(crate) fn took(&self, timer: &PassTimer) {
        self.duration.observe(timer.last.saturating_sub(timer.begun).as_secs_f64());
        for (&stage, time) in PassStep::ALL.iter().zip(timer.times) {
            if let Some(time) = time {
                self.stages.get_or_create(&StageLabels { stage }).observe(time.as_secs_f64());
            }
        }
    }
}

/// The timer of one pass. The times of a repeated step are added.
#[derive(Debug)]
pub(crate) struct PassTimer {
    begun: Duration,
    last: Duration,
    times: [Option<Duration>; PassStep::ALL.len()],
}

impl PassTimer {
    pub(crate) fn start(env: &Env) -> Self {
        let now = env.uptime();
        Self { begun: now, last: now, times: [None; PassStep::ALL.len()] }
    }

    /// Assigns the time since the last call to this step. Returns that time.
    pub(crate) fn record(&mut self, env: &Env, stage: PassStep) -> Duration {
        let now = env.uptime();
        let time = now.saturating_sub(std::mem::replace(&mut self.last, now));
        *self.times[stage as usize].get_or_insert_default() += time;
        time
    }
}

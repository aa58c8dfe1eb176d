//! Passes over pools, and the queue in front of them.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_runtime::Env;
use vmpool_runtime::metrics::Registry;

use super::label_values::{PassResult, PassStep, WakeOutcome};
use super::labels::{PassLabels, StageLabels, WakeLabels, each};

/// From a pass over a small settled pool to one that is stuck.
const PASS_BUCKETS: [f64; 12] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];

/// A worker is free at once, or all of them are busy with long passes.
const WAIT_BUCKETS: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0];

/// The queue of pools. Its length is read when somebody asks.
#[derive(Clone, Debug)]
pub(crate) struct QueueMetrics {
    /// A wake-up that made a pool due.
    pub(crate) queued: Counter,
    /// A wake-up of a pool that was due already.
    pub(crate) merged: Counter,
    /// A pass that asked for the next one itself.
    pub(crate) requeued: Counter,
    wait: Histogram,
}

impl QueueMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let adds: Family<WakeLabels, Counter> = registry.register(
            "vmpool_workqueue_adds_total",
            "wake-ups",
            "Wake-ups of pools by events. Those that found the pool due already were merged into one pass",
            each(WakeOutcome::ALL.iter().map(|&outcome| WakeLabels { outcome })),
        );
        // Every event of a watch wakes a pool: no lookup there.
        let counter = |outcome| adds.get_or_create_owned(&WakeLabels { outcome });
        Self {
            queued: counter(WakeOutcome::Queued),
            merged: counter(WakeOutcome::Merged),
            requeued: registry.register(
                "vmpool_workqueue_requeues_total",
                "passes",
                "Passes that asked for another one before the regular look after ten minutes: to retry, to go on, or to see what they waited for",
                Counter::default(),
            ),
            wait: registry.register(
                "vmpool_workqueue_wait_seconds",
                "seconds",
                "How long a pool waited for a worker once its time had come. The debounce is not part of it",
                Histogram::new(WAIT_BUCKETS),
            ),
        }
    }

    /// A worker took a pool that had been due for so long.
    pub(crate) fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }
}

/// Passes, by what came of them, and how long they took.
#[derive(Clone, Debug)]
pub(crate) struct PassMetrics {
    passes: Family<PassLabels, Counter>,
    duration: Histogram,
    stages: Family<StageLabels, Histogram>,
}

impl PassMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let stages: Family<StageLabels, Histogram> =
            Family::new_with_constructor((|| Histogram::new(PASS_BUCKETS)) as fn() -> Histogram);
        for &stage in PassStep::ALL {
            drop(stages.get_or_create(&StageLabels { stage }));
        }
        Self {
            passes: registry.register(
                "vmpool_passes_total",
                "passes",
                "Passes over pools, by what came of them",
                each(PassResult::ALL.iter().map(|&result| PassLabels { result })),
            ),
            duration: registry.register(
                "vmpool_pass_duration_seconds",
                "seconds",
                "Duration of a pass over one pool, its requests included",
                Histogram::new(PASS_BUCKETS),
            ),
            stages: registry.register(
                "vmpool_pass_stage_duration_seconds",
                "seconds",
                "Duration of the parts of a pass. A part that a pass did not come to is left out",
                stages,
            ),
        }
    }

    /// A pass ended.
    pub(crate) fn ended(&self, result: PassResult) {
        self.passes.get_or_create(&PassLabels { result }).inc();
    }

    /// What a pass took.
    pub(crate) fn took(&self, timer: &PassTimer) {
        self.duration.observe(timer.last.saturating_sub(timer.begun).as_secs_f64());
        for (&stage, time) in PassStep::ALL.iter().zip(timer.times) {
            if let Some(time) = time {
                self.stages.get_or_create(&StageLabels { stage }).observe(time.as_secs_f64());
            }
        }
    }
}

/// The stopwatch of one pass. A stage that comes twice is one time.
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

    /// What happened since the last lap was this stage. Returns how long it took.
    pub(crate) fn record(&mut self, env: &Env, stage: PassStep) -> Duration {
        let now = env.uptime();
        let time = now.saturating_sub(std::mem::replace(&mut self.last, now));
        *self.times[stage as usize].get_or_insert_default() += time;
        time
    }
}

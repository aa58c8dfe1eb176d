//! Gauges that are read from their source at each scrape: the queue, the caches and the counts of pools.

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_runtime::Env;
use vmpool_runtime::metrics::Registry;

use super::label_values::WatchResource;
use super::labels::{WatchLabels, each, gauge};
use super::pools::{PoolGauges, Totals};

/// The contents of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// Keys that are due.
    pub(crate) due: usize,
    /// Keys that will be due later.
    pub(crate) delayed: usize,
    /// Keys with a running pass.
    pub(crate) running: usize,
}

/// The state of a leader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Live {
    queue: QueueState,
    /// Number of objects in each cache.
    cached: [usize; WatchResource::ALL.len()],
    totals: Totals,
}

impl Live {
    /// `cached` is in the order of [`WatchResource::ALL`].
    pub(crate) fn new(queue: QueueState, totals: Totals, cached: impl Iterator<Item = usize>) -> Self {
        let mut live = Self { queue, totals, ..Self::default() };
        live.cached.iter_mut().zip(cached).for_each(|(place, count)| *place = count);
        live
    }
}

type Source = Box<dyn Fn() -> Option<Live> + Send + Sync>;

pub(super) struct LiveGauges {
    source: Mutex<Option<Source>>,
    due: Gauge,
    delayed: Gauge,
    running: Gauge,
    cached: Family<WatchLabels, Gauge>,
    pool_counts: PoolGauges,
}

impl fmt::Debug for LiveGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveGauges").finish_non_exhaustive()
    }
}

impl LiveGauges {
    pub(super) fn new(registry: &mut Registry, env: &Env) -> Self {
        Self {
            source: Mutex::new(None),
            pool_counts: PoolGauges::new(registry, env),
            due: registry.register(
                "vmpool_workqueue_depth",
                "pools",
                "Pools that are due and wait for a worker",
                Gauge::default(),
            ),
            delayed: registry.register(
                "vmpool_workqueue_delayed",
                "pools",
                "Pools whose next pass is due later: all converged pools, and those in backoff",
                Gauge::default(),
            ),
            running: registry.register(
                "vmpool_workqueue_running",
                "pools",
                "Pools with a running pass",
                Gauge::default(),
            ),
            cached: registry.register(
                "vmpool_cache_objects",
                "objects",
                "Objects in the caches of the leader, including objects that do not belong to a pool",
                each(WatchResource::ALL.iter().map(|&resource| WatchLabels { resource })),
            ),
        }
    }

    pub(super) fn follow(&self, source: Option<Source>) {
        *self.source.lock() = source;
    }

    pub(super) fn refresh(&self) {
        let live = self.source.lock().as_ref().and_then(|source| source()).unwrap_or_default();
        self.pool_counts.show(&live.totals);
        self.due.set(gauge(live.queue.due));
        self.delayed.set(gauge(live.queue.delayed));
        self.running.set(gauge(live.queue.running));
        for (&resource, count) in WatchResource::ALL.iter().zip(live.cached) {
            self.cached.get_or_create(&WatchLabels { resource }).set(gauge(count));
        }
    }
}

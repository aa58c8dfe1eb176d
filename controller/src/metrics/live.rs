//! Gauges that are read from their source at each scrape: the queue, the caches and the counts of pools.

use std::fmt;

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_kit::queue::QueueState;
use vmpool_runtime::Env;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{MetricsRegistry, family_with_series};

use super::kubevirt_names::KubeVirtNames;
use super::label_values::WatchResource;
use super::labels::{WatchLabels, gauge_value};
use super::pool_series::{PoolSeries, PoolSeriesGauges, cap_pool_series};
use super::pools::{PoolGauges, Totals};

/// The state of a leader.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaderSnapshot {
    queue: QueueState,
    /// Number of objects in each cache.
    cached: [usize; WatchResource::ALL.len()],
    totals: Totals,
    pools: PoolSeries,
    /// Maximum number of pools with series of their own.
    max_pool_series: usize,
    /// Whether pools have metrics under the names of KubeVirt, too.
    has_kubevirt_names: bool,
}

impl LeaderSnapshot {
    /// `cached` is in the order of [`WatchResource::ALL`].
    pub(crate) fn new(
        queue: QueueState,
        totals: Totals,
        pools: PoolSeries,
        max_pool_series: usize,
        cached: impl Iterator<Item = usize>,
    ) -> Self {
        let mut live = Self { queue, totals, pools, max_pool_series, ..Self::default() };
        live.cached.iter_mut().zip(cached).for_each(|(place, count)| *place = count);
        live
    }

    /// The state, with metrics under the names of KubeVirt if `is_enabled`.
    pub(crate) fn with_kubevirt_names(self, is_enabled: bool) -> Self {
        Self { has_kubevirt_names: is_enabled, ..self }
    }

    /// Adds the state of another platform.
    fn add(&mut self, other: Self) {
        self.queue.due += other.queue.due;
        self.queue.delayed += other.queue.delayed;
        self.queue.running += other.queue.running;
        self.cached.iter_mut().zip(other.cached).for_each(|(sum, count)| *sum += count);
        self.totals.add(&other.totals);
        self.pools.extend(other.pools);
        self.max_pool_series = self.max_pool_series.max(other.max_pool_series);
        self.has_kubevirt_names |= other.has_kubevirt_names;
    }
}

type Source = Box<dyn Fn() -> Option<LeaderSnapshot> + Send + Sync>;

pub(super) struct LiveGauges {
    /// One for each platform, with the number that identifies it.
    sources: Mutex<(u64, Vec<(u64, Source)>)>,
    pool_counts: PoolGauges,
    pool_series: PoolSeriesGauges,
    kubevirt_names: KubeVirtNames,
    queue: QueueGauges,
}

metric_table!(
    /// The gauges of queue and caches.
    #[derive(Debug)]
    struct QueueGauges {
        /// Pools that are due and wait for a worker.
        due: Gauge = "vmpool_workqueue_depth" in "pools";
        /// Pools whose next pass is due later: all converged pools, and those in backoff.
        delayed: Gauge = "vmpool_workqueue_delayed" in "pools";
        /// Pools with a running pass.
        running: Gauge = "vmpool_workqueue_running" in "pools";
        /// Objects in the caches of the leader, including objects that do not belong to a pool.
        cached: Family<WatchLabels, Gauge> = "vmpool_cache_objects" in "objects", family_with_series();
    }
);

impl fmt::Debug for LiveGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveGauges").finish_non_exhaustive()
    }
}

impl LiveGauges {
    pub(super) fn new(registry: &mut MetricsRegistry, env: &Env) -> Self {
        Self {
            sources: Mutex::default(),
            pool_counts: PoolGauges::new(registry, env),
            pool_series: PoolSeriesGauges::new(registry),
            kubevirt_names: KubeVirtNames::new(registry),
            queue: QueueGauges::new(registry),
        }
    }

    /// Reads `source` from now on. Returns its number.
    pub(super) fn follow(&self, source: Source) -> u64 {
        let (last, sources) = &mut *self.sources.lock();
        *last += 1;
        sources.push((*last, source));
        *last
    }

    /// Stops reading a source.
    pub(super) fn forget(&self, number: u64) {
        self.sources.lock().1.retain(|(known, _)| *known != number);
    }

    pub(super) fn refresh(&self) {
        let mut live = LeaderSnapshot::default();
        for (_, source) in &self.sources.lock().1 {
            if let Some(of_platform) = source() {
                live.add(of_platform);
            }
        }
        self.pool_counts.show(&live.totals);
        let pools = cap_pool_series(live.pools, live.max_pool_series);
        self.kubevirt_names.show(&pools, live.has_kubevirt_names);
        self.pool_series.show(pools);
        self.queue.due.set(gauge_value(live.queue.due));
        self.queue.delayed.set(gauge_value(live.queue.delayed));
        self.queue.running.set(gauge_value(live.queue.running));
        for (&resource, count) in WatchResource::ALL.iter().zip(live.cached) {
            self.queue.cached.get_or_create(&WatchLabels { resource }).set(gauge_value(count));
        }
    }
}

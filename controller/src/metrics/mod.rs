//! The metrics of the controller.
//!
//! Counters and histograms are updated by the code that they describe. Their labels have fixed sets of
//! values, so an update allocates nothing. Gauges are read from their sources at each scrape, and cost
//! nothing otherwise.
//!
//! Each process has one [`ControllerMetrics`]. Only the gauges of `pool_series` name pools, up to a limit, so
//! the number of time series is bounded.

mod api;
mod autoscalers;
mod disks;
mod drains;
mod followed;
mod images;
mod kubevirt_names;
mod label_values;
mod labels;
mod live;
mod passes;
mod platforms;
mod pool_series;
mod pools;
pub mod reference;
mod removals;
mod types;
mod wrappers;
mod writes;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_runtime::Env;
use vmpool_runtime::lease::LeaseHealth;
use vmpool_runtime::metric_table;
use vmpool_runtime::metrics::{Description, FloatGauge, MetricsPage, MetricsRegistry, family_with_series};

pub use api::{ApiMetrics, RequestCounter};
pub(crate) use autoscalers::{AutoscalerMetrics, ScaleDirection, ShownAutoscaler};
pub(crate) use disks::{DiskCounts, DiskMetrics};
pub(crate) use images::{HealReason, HealResult, ImageMetrics, ShownImage, ShownImages, SourceLabel};
pub use label_values::WriteKind;
pub(crate) use label_values::{
    ClaimOutcome, DelayingLimit, LeadershipChange, LedgerResource, PassResult, PassStep, PlatformState,
    WatchResource,
};
pub(crate) use live::LeaderSnapshot;
pub(crate) use passes::{PassMetrics, PassTimer, QueueMetrics};
pub(crate) use pool_series::MachineActions;
pub(crate) use pools::{PoolCounts, PoolReport};
pub(crate) use types::TypeMetrics;
pub(crate) use wrappers::{ShownWrappers, WrapperMetrics};
pub use writes::WriteMetrics;

use drains::DrainMetrics;
use labels::{LeadershipLabels, LedgerLabels, WatchLabels};
use live::LiveGauges;
use platforms::PlatformGauges;
use removals::RemovalMetrics;

/// All metrics of one controller.
#[derive(Debug)]
pub struct ControllerMetrics {
    /// Requests to the API server.
    pub(crate) api: ApiMetrics,
    /// The queue of pools.
    pub(crate) queue: QueueMetrics,
    /// Passes over pools.
    pub(crate) passes: PassMetrics,
    /// Writes and their failures.
    pub(crate) writes: WriteMetrics,
    /// Deletions of machines.
    pub(crate) removals: RemovalMetrics,
    /// Drains of machines.
    pub(crate) drains: DrainMetrics,
    /// Retained disks.
    pub(crate) disks: DiskMetrics,
    /// Disk images.
    pub(crate) images: ImageMetrics,
    /// Wrappers of machines.
    pub(crate) wrappers: WrapperMetrics,
    /// Instance types and preferences.
    pub(crate) types: TypeMetrics,
    /// Autoscalers.
    pub(crate) autoscalers: AutoscalerMetrics,
    leadership: LeadershipMetrics,
    caches: CacheMetrics,
    platforms: PlatformGauges,
    live: LiveGauges,
    lease: Mutex<Option<LeaseHealth>>,
    page: MetricsPage,
}

metric_table!(
    /// The leadership of this process.
    #[derive(Debug)]
    struct LeadershipMetrics {
        /// Whether this process is the leader. The sum over all replicas should be 1.
        leader: Gauge = "vmpool_leader" in "0 or 1";
        /// Remaining time until this process must stop leading if no renewal succeeds; 0 on a standby.
        lease_remaining: FloatGauge = "vmpool_lease_remaining_seconds" in "seconds";
        /// Changes of the leadership of this process.
        changes: Family<LeadershipLabels, Counter> = "vmpool_lease_transitions_total" in "transitions",
            family_with_series();
    }
);

metric_table!(
    /// Watches, and pending writes that the caches do not show.
    #[derive(Debug)]
    struct CacheMetrics {
        /// Pending writes that the cache did not show in time and that the controller resolved with a live
        /// read.
        ledger_overdue: Family<LedgerLabels, Counter> = "vmpool_ledger_overdue_total" in "entries",
            family_with_series();
        /// Watches that failed with an error. Regular restarts are not counted.
        watch_restarts: Family<WatchLabels, Counter> = "vmpool_watch_restarts_total" in "restarts",
            family_with_series();
        /// Complete lists: one when this process becomes the leader, and one whenever a watch cannot continue
        /// at its version.
        watch_lists: Family<WatchLabels, Counter> = "vmpool_watch_lists_total" in "lists",
            family_with_series();
    }
);

impl ControllerMetrics {
    /// Creates all metrics with the value zero. Series with known labels exist from the start, so that the
    /// first event of a kind is visible as an increase.
    pub fn new(env: &Env) -> Arc<Self> {
        let registry = &mut MetricsRegistry::new();
        let metrics = Self {
            leadership: LeadershipMetrics::new(registry),
            platforms: PlatformGauges::new(registry),
            queue: QueueMetrics::new(registry),
            passes: PassMetrics::new(registry),
            api: ApiMetrics::new(registry, env),
            writes: WriteMetrics::new(registry),
            removals: RemovalMetrics::new(registry),
            drains: DrainMetrics::new(registry),
            disks: DiskMetrics::new(registry),
            images: ImageMetrics::new(registry),
            wrappers: WrapperMetrics::new(registry),
            types: TypeMetrics::new(registry),
            autoscalers: AutoscalerMetrics::new(registry),
            caches: CacheMetrics::new(registry),
            live: LiveGauges::new(registry, env),
            lease: Mutex::new(None),
            page: MetricsPage::new(std::mem::take(registry), env!("CARGO_PKG_VERSION")),
        };
        Arc::new(metrics)
    }

    /// Reads leadership from `lease` from now on.
    pub fn follow_lease(&self, lease: LeaseHealth) {
        *self.lease.lock() = Some(lease);
    }

    /// Counts a change of leadership.
    pub(crate) fn leadership_changed(&self, event: LeadershipChange) {
        self.leadership.changes.get_or_create(&LeadershipLabels { event }).inc();
    }

    /// Shows the state of a platform; `None` removes its series.
    pub(crate) fn platform_is(&self, platform: &'static str, now: Option<PlatformState>) {
        self.platforms.show(platform, now);
    }

    /// Reads queue, caches and census from `source` until the guard is dropped.
    pub(crate) fn leading(
        self: &Arc<Self>,
        source: impl Fn() -> Option<LeaderSnapshot> + Send + Sync + 'static,
    ) -> LeaderMetricsGuard {
        let number = self.live.follow(Box::new(source));
        LeaderMetricsGuard(self.clone(), number)
    }

    /// Counts a pending write that a live read resolved.
    pub(crate) fn settled_live(&self, resource: LedgerResource) {
        self.caches.ledger_overdue.get_or_create(&LedgerLabels { resource }).inc();
    }

    /// Counts a failed watch.
    pub(crate) fn watch_broke_off(&self, resource: WatchResource) {
        self.caches.watch_restarts.get_or_create(&WatchLabels { resource }).inc();
    }

    /// Counts a complete list.
    pub(crate) fn list_begins(&self, resource: WatchResource) {
        self.caches.watch_lists.get_or_create(&WatchLabels { resource }).inc();
    }

    /// The page for Prometheus, in the OpenMetrics text format.
    pub fn page(&self) -> String {
        self.page.encode(|| {
            let remaining = self.lease.lock().as_ref().map(LeaseHealth::remaining).unwrap_or_default();
            self.leadership.leader.set(i64::from(!remaining.is_zero()));
            self.leadership.lease_remaining.set(remaining.as_secs_f64());
            self.live.refresh();
            self.images.refresh();
            self.wrappers.refresh();
            self.types.refresh();
            self.autoscalers.refresh();
        })
    }

    /// The descriptions of all metrics.
    pub fn catalogue(&self) -> &[Description] {
        self.page.catalogue()
    }
}

/// Stops reading the state of a leader when the leadership ends.
#[derive(Debug)]
pub(crate) struct LeaderMetricsGuard(Arc<ControllerMetrics>, u64);

impl Drop for LeaderMetricsGuard {
    fn drop(&mut self) {
        self.0.live.forget(self.1);
    }
}

#[cfg(test)]
mod tests;

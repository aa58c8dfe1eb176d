//! What the controller tells Prometheus.
//!
//! Counters and histograms are written where things happen; a word of a closed set is their only label, so no
//! observation allocates. Gauges are read from their sources when somebody asks for the page, and cost nothing else.
//!
//! There is one [`Metrics`] for each process, handed to all that observes. No label names a pool, a machine or a
//! namespace: the number of time series does not depend on what the cluster holds.

mod api;
mod disks;
mod label_values;
mod labels;
mod live;
mod passes;
mod pools;
pub mod reference;
mod removals;
mod writes;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_runtime::Env;
use vmpool_runtime::lease::LeaseHealth;
use vmpool_runtime::metrics::{Description, FloatGauge, Page, Registry};

pub use api::{ApiMetrics, RequestLayer};
pub(crate) use disks::{ClaimOutcome, DiskCounts, DiskMetrics};
pub use label_values::WriteKind;
pub(crate) use label_values::{LeadershipChange, LedgerResource, PassResult, PassStep, WatchResource};
pub(crate) use live::{Live, QueueState};
pub(crate) use passes::{PassMetrics, PassTimer, QueueMetrics};
pub(crate) use pools::{PoolCounts, PoolReport};
pub use writes::WriteMetrics;

use labels::{LeadershipLabels, LedgerLabels, WatchLabels, each};
use live::LiveGauges;
use removals::RemovalMetrics;

/// All metrics of one controller.
#[derive(Debug)]
pub struct Metrics {
    /// Requests to the API server.
    pub(crate) api: ApiMetrics,
    /// The queue of pools.
    pub(crate) queue: QueueMetrics,
    /// Passes over pools.
    pub(crate) passes: PassMetrics,
    /// Writes and their failures.
    pub(crate) writes: WriteMetrics,
    /// Who leaves.
    pub(crate) removals: RemovalMetrics,
    /// Disks that outlive their machines.
    pub(crate) disks: DiskMetrics,
    ledger_overdue: Family<LedgerLabels, Counter>,
    leadership_changes: Family<LeadershipLabels, Counter>,
    watch_restarts: Family<WatchLabels, Counter>,
    watch_lists: Family<WatchLabels, Counter>,
    leader: Gauge,
    lease_remaining: FloatGauge,
    live: LiveGauges,
    lease: Mutex<Option<LeaseHealth>>,
    page: Page,
}

impl Metrics {
    /// All of them, at zero. Series whose labels are known beforehand are there from the beginning, so that the first
    /// of a kind shows as an increase.
    pub fn new(env: &Env) -> Arc<Self> {
        let registry = &mut Registry::new();
        let metrics = Self {
            leader: registry.register(
                "vmpool_leader",
                "0 or 1",
                "Whether this process leads. Summed over all replicas it should be 1",
                Gauge::default(),
            ),
            lease_remaining: registry.register(
                "vmpool_lease_remaining_seconds",
                "seconds",
                "How long this process may still lead if no renewal succeeds; 0 if it does not lead",
                FloatGauge::default(),
            ),
            leadership_changes: registry.register(
                "vmpool_lease_transitions_total",
                "transitions",
                "Times that this process began to lead, gave the lease back, or lost it",
                each(LeadershipChange::ALL.iter().map(|&event| LeadershipLabels { event })),
            ),
            queue: QueueMetrics::new(registry),
            passes: PassMetrics::new(registry),
            api: ApiMetrics::new(registry, env),
            writes: WriteMetrics::new(registry),
            removals: RemovalMetrics::new(registry),
            disks: DiskMetrics::new(registry),
            ledger_overdue: registry.register(
                "vmpool_ledger_overdue_total",
                "entries",
                "Own writes that the cache did not show in time, so that they were settled by a live read",
                each(LedgerResource::ALL.iter().map(|&resource| LedgerLabels { resource })),
            ),
            watch_restarts: registry.register(
                "vmpool_watch_restarts_total",
                "restarts",
                "Times that a watch broke off with an error. Its regular renewal does not count",
                each(WatchResource::ALL.iter().map(|&resource| WatchLabels { resource })),
            ),
            watch_lists: registry.register(
                "vmpool_watch_lists_total",
                "lists",
                "Complete lists begun: one when this process begins to lead, and one whenever a watch cannot go on where it was",
                each(WatchResource::ALL.iter().map(|&resource| WatchLabels { resource })),
            ),
            live: LiveGauges::new(registry, env),
            lease: Mutex::new(None),
            page: Page::new(std::mem::take(registry), env!("CARGO_PKG_VERSION")),
        };
        Arc::new(metrics)
    }

    /// Reads leadership from `lease` from now on.
    pub fn follow_lease(&self, lease: LeaseHealth) {
        *self.lease.lock() = Some(lease);
    }

    /// Counts a change of leadership.
    pub(crate) fn leadership_changed(&self, event: LeadershipChange) {
        self.leadership_changes.get_or_create(&LeadershipLabels { event }).inc();
    }

    /// Reads queue, caches and census from `source` until the guard is dropped.
    pub(crate) fn leading(
        self: &Arc<Self>,
        source: impl Fn() -> Option<Live> + Send + Sync + 'static,
    ) -> Leading {
        self.live.follow(Some(Box::new(source)));
        Leading(self.clone())
    }

    /// An own write was settled by a live read.
    pub(crate) fn settled_live(&self, resource: LedgerResource) {
        self.ledger_overdue.get_or_create(&LedgerLabels { resource }).inc();
    }

    /// A watch broke off.
    pub(crate) fn watch_broke_off(&self, resource: WatchResource) {
        self.watch_restarts.get_or_create(&WatchLabels { resource }).inc();
    }

    /// A complete list begins.
    pub(crate) fn list_begins(&self, resource: WatchResource) {
        self.watch_lists.get_or_create(&WatchLabels { resource }).inc();
    }

    /// The page for Prometheus, in the OpenMetrics text format.
    pub fn page(&self) -> String {
        self.page.encode(|| {
            let remaining = self.lease.lock().as_ref().map(LeaseHealth::remaining).unwrap_or_default();
            self.leader.set(i64::from(!remaining.is_zero()));
            self.lease_remaining.set(remaining.as_secs_f64());
            self.live.refresh();
        })
    }

    /// What is on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.page.catalogue()
    }
}

/// Ends the look into a leader when leading ends, however it does.
#[derive(Debug)]
pub(crate) struct Leading(Arc<Metrics>);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.live.follow(None);
    }
}

#[cfg(test)]
mod tests;

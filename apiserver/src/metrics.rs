//! What the program tells Prometheus. No label names a pool, a machine, a user or a namespace.

pub(crate) mod reference;
mod words;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_runtime::label_set;
use vmpool_runtime::metrics::{Description, Page, Registry};

use words::Code;
pub(crate) use words::{CheckSource, Outcome, Resource, Verb};

/// From an answer out of memory to the deadline of a removal.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];
/// Requests that share a turn.
const SHARES: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// All metrics of one process. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<DurationLabels, Histogram>,
    removals: Family<RemovalLabels, Counter>,
    removal_duration: Histogram,
    targets: Counter,
    shares: Histogram,
    conflicts: Counter,
    checks: Family<CheckLabels, Counter>,
    page: Page,
}

label_set!(RequestLabels { verb: Verb, resource: Resource, code: Code });
label_set!(DurationLabels { verb: Verb, resource: Resource });
label_set!(RemovalLabels { result: Outcome });
label_set!(CheckLabels { source: CheckSource });

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// All of them, at zero, and what `others` adds to the page.
    ///
    /// Series whose labels are known beforehand are there from the beginning, so that the first of a kind shows as an
    /// increase.
    pub fn new(others: impl FnOnce(&mut Registry)) -> Self {
        let registry = &mut Registry::new();
        let inner = Inner {
            requests: registry.register(
                "vmpool_apiserver_requests_total",
                "requests",
                "Requests that were answered, refused ones included",
                Family::default(),
            ),
            request_duration: registry.register(
                "vmpool_apiserver_request_duration_seconds",
                "seconds",
                "Time from the head of a request to its answer",
                Family::new_with_constructor(histogram as fn() -> Histogram),
            ),
            removals: registry.register(
                "vmpool_removals_total",
                "requests",
                "Requests to remove named machines that were understood and permitted, by what came of them",
                Family::default(),
            ),
            removal_duration: registry.register(
                "vmpool_removal_duration_seconds",
                "seconds",
                "Time that a removal took, waiting for its turn included",
                histogram(),
            ),
            targets: registry.register(
                "vmpool_removal_targets_total",
                "machines",
                "Machines that replicas of their pool went down for",
                Counter::default(),
            ),
            shares: registry.register(
                "vmpool_removal_turn_requests",
                "requests",
                "Requests for one pool that shared a turn, and with it the writes on the pool",
                Histogram::new(SHARES),
            ),
            conflicts: registry.register(
                "vmpool_removal_conflicts_total",
                "writes",
                "Writes on pools that had to be repeated, because somebody else had changed the pool or the answer was lost",
                Counter::default(),
            ),
            checks: registry.register(
                "vmpool_authorization_checks_total",
                "questions",
                "Questions whether a caller may do what it asks for, by where the answer came from",
                Family::default(),
            ),
            page: {
                others(registry);
                Page::new(std::mem::take(registry), env!("CARGO_PKG_VERSION"))
            },
        };
        for &result in Outcome::ALL {
            drop(inner.removals.get_or_create(&RemovalLabels { result }));
        }
        for &source in CheckSource::ALL {
            drop(inner.checks.get_or_create(&CheckLabels { source }));
        }
        Self(Arc::new(inner))
    }

    /// The page for Prometheus, in the OpenMetrics text format.
    pub fn page(&self) -> String {
        self.0.page.encode(|| {})
    }

    /// What is on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.0.page.catalogue()
    }

    pub(crate) fn request(&self, verb: Verb, resource: Resource, code: StatusCode, took: Duration) {
        let code = Code(code.as_u16());
        self.0.requests.get_or_create(&RequestLabels { verb, resource, code }).inc();
        self.0.request_duration.get_or_create(&DurationLabels { verb, resource }).observe(took.as_secs_f64());
    }

    pub(crate) fn removal(&self, result: Outcome, counted: usize, took: Duration) {
        self.0.removals.get_or_create(&RemovalLabels { result }).inc();
        self.0.targets.inc_by(counted as u64);
        self.0.removal_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn turn(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 requests wait")]
        self.0.shares.observe(requests as f64);
    }

    pub(crate) fn pool_conflict(&self) {
        self.0.conflicts.inc();
    }

    pub(crate) fn authorization(&self, source: CheckSource) {
        self.0.checks.get_or_create(&CheckLabels { source }).inc();
    }
}

#[cfg(test)]
mod tests;

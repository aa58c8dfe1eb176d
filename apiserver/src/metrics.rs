//! The metrics of the API server for removals. No label contains a pool, a machine, a user or a namespace.

mod label_values;
pub(crate) mod reference;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_runtime::label_set;
use vmpool_runtime::metrics::{Description, MetricsPage, MetricsRegistry};

use label_values::Expansion;
use label_values::StatusCodeLabel;
pub(crate) use label_values::{CheckSource, ClaimOutcome, Outcome, Resource, Verb};

/// From a response from memory to the deadline of a removal, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0];
/// Requests in one batch.
const BATCH_SIZES: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// All metrics of one process. Clones share them.
#[derive(Clone, Debug)]
pub struct ApiServerMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<DurationLabels, Histogram>,
    removals: Family<RemovalLabels, Counter>,
    removal_duration: Histogram,
    targets: Counter,
    batch_sizes: Histogram,
    conflicts: Counter,
    claims: Family<ClaimLabels, Counter>,
    claim_duration: Histogram,
    claim_batch_sizes: Histogram,
    claim_conflicts: Counter,
    expansions: ExpansionMetrics,
    checks: Family<CheckLabels, Counter>,
    page: MetricsPage,
}

label_set!(RequestLabels { verb: Verb, resource: Resource, code: StatusCodeLabel });
label_set!(DurationLabels { verb: Verb, resource: Resource });
label_set!(RemovalLabels { result: Outcome });
label_set!(ClaimLabels { result: ClaimOutcome });
label_set!(ExpandLabels { resource: Expansion, code: StatusCodeLabel });
label_set!(ExpandDurationLabels { resource: Expansion });
label_set!(CheckLabels { source: CheckSource });

fn duration_histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

/// The metrics of expansions.
#[derive(Debug)]
struct ExpansionMetrics {
    requests: Family<ExpandLabels, Counter>,
    duration: Family<ExpandDurationLabels, Histogram>,
}

impl ExpansionMetrics {
    fn new(registry: &mut MetricsRegistry) -> Self {
        let metrics = Self {
            requests: registry.register(
                "vmpool_expand_requests_total",
                "requests",
                "Requests for machines and pools with instance type and preference written out, in all groups and versions",
                Family::default(),
            ),
            duration: registry.register(
                "vmpool_expand_request_duration_seconds",
                "seconds",
                "Time from the headers of such a request to its response",
                Family::new_with_constructor(duration_histogram as fn() -> Histogram),
            ),
        };
        // The codes of failures are not known in advance.
        for &resource in Expansion::ALL {
            drop(metrics.requests.get_or_create(&ExpandLabels { resource, code: StatusCodeLabel(200) }));
            drop(metrics.duration.get_or_create(&ExpandDurationLabels { resource }));
        }
        metrics
    }
}

impl ApiServerMetrics {
    /// All metrics at zero, and the metrics that `others` registers.
    ///
    /// Series whose label values are known in advance exist from the start, so that their first event shows
    /// as an increase.
    pub fn new(others: impl FnOnce(&mut MetricsRegistry)) -> Self {
        let registry = &mut MetricsRegistry::new();
        let inner = Inner {
            requests: registry.register(
                "vmpool_apiserver_requests_total",
                "requests",
                "Requests that the API server answered, including refused ones",
                Family::default(),
            ),
            request_duration: registry.register(
                "vmpool_apiserver_request_duration_seconds",
                "seconds",
                "Time from the headers of a request to its response",
                Family::new_with_constructor(duration_histogram as fn() -> Histogram),
            ),
            removals: registry.register(
                "vmpool_removals_total",
                "requests",
                "Valid and authorized requests to remove machines, by result",
                Family::default(),
            ),
            removal_duration: registry.register(
                "vmpool_removal_duration_seconds",
                "seconds",
                "Duration of a removal, including the time in the queue",
                duration_histogram(),
            ),
            targets: registry.register(
                "vmpool_removal_targets_total",
                "machines",
                "Machines for which the API server decremented the replicas of their pool",
                Counter::default(),
            ),
            batch_sizes: registry.register(
                "vmpool_removal_turn_requests",
                "requests",
                "Requests for one pool in one batch, which share the writes to the pool",
                Histogram::new(BATCH_SIZES),
            ),
            conflicts: registry.register(
                "vmpool_removal_conflicts_total",
                "writes",
                "Writes to pools that the API server repeated, because another client had changed the pool or the response was lost",
                Counter::default(),
            ),
            claims: registry.register(
                "vmpool_claims_total",
                "requests",
                "Valid and authorized claims and releases of machines, by result",
                Family::default(),
            ),
            claim_duration: registry.register(
                "vmpool_claim_duration_seconds",
                "seconds",
                "Duration of a claim or a release, including the time in which it waited for a free machine",
                duration_histogram(),
            ),
            claim_batch_sizes: registry.register(
                "vmpool_claim_batch_requests",
                "requests",
                "Claims of machines of one pool in one batch, which share one list of its machines",
                Histogram::new(BATCH_SIZES),
            ),
            claim_conflicts: registry.register(
                "vmpool_claim_conflicts_total",
                "writes",
                "Writes to machines that the API server refused, because another client had changed the machine",
                Counter::default(),
            ),
            expansions: ExpansionMetrics::new(registry),
            checks: registry.register(
                "vmpool_authorization_checks_total",
                "checks",
                "Authorization checks, by the source of the decision",
                Family::default(),
            ),
            page: {
                others(registry);
                MetricsPage::new(std::mem::take(registry), env!("CARGO_PKG_VERSION"))
            },
        };
        for &result in Outcome::ALL {
            drop(inner.removals.get_or_create(&RemovalLabels { result }));
        }
        for &result in ClaimOutcome::ALL {
            drop(inner.claims.get_or_create(&ClaimLabels { result }));
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

    /// The descriptions of all metrics on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.0.page.catalogue()
    }

    pub(crate) fn request(&self, verb: Verb, resource: Resource, code: StatusCode, took: Duration) {
        let code = StatusCodeLabel(code.as_u16());
        self.0.requests.get_or_create(&RequestLabels { verb, resource, code }).inc();
        self.0.request_duration.get_or_create(&DurationLabels { verb, resource }).observe(took.as_secs_f64());
        if let Some(resource) = resource.expansion() {
            let ExpansionMetrics { requests, duration } = &self.0.expansions;
            requests.get_or_create(&ExpandLabels { resource, code }).inc();
            duration.get_or_create(&ExpandDurationLabels { resource }).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn removal(&self, result: Outcome, counted: usize, took: Duration) {
        self.0.removals.get_or_create(&RemovalLabels { result }).inc();
        self.0.targets.inc_by(counted as u64);
        self.0.removal_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn batch(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 requests wait")]
        self.0.batch_sizes.observe(requests as f64);
    }

    pub(crate) fn pool_conflict(&self) {
        self.0.conflicts.inc();
    }

    pub(crate) fn claim(&self, result: ClaimOutcome, took: Duration) {
        self.0.claims.get_or_create(&ClaimLabels { result }).inc();
        self.0.claim_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn claim_batch(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 requests wait")]
        self.0.claim_batch_sizes.observe(requests as f64);
    }

    pub(crate) fn claim_conflict(&self) {
        self.0.claim_conflicts.inc();
    }

    pub(crate) fn authorization(&self, source: CheckSource) {
        self.0.checks.get_or_create(&CheckLabels { source }).inc();
    }
}

#[cfg(test)]
mod tests;

//! The metrics of the API server for removals. No label contains a pool, a machine, a user or a namespace.

mod label_values;
pub(crate) mod reference;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_runtime::metrics::{
    Description, MetricsPage, MetricsRegistry, add_known_series, family_with_series, histogram_family,
};
use vmpool_runtime::{label_set, metric_table};

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
    series: RequestSeries,
    page: MetricsPage,
}

label_set!(RequestLabels { verb: Verb, resource: Resource, code: StatusCodeLabel });
label_set!(DurationLabels { verb: Verb, resource: Resource });
label_set!(RemovalLabels { result: Outcome });
label_set!(ClaimLabels { result: ClaimOutcome });
label_set!(ExpandLabels { resource: Expansion, code: StatusCodeLabel });
label_set!(ExpandDurationLabels { resource: Expansion });
label_set!(CheckLabels { source: CheckSource });

metric_table!(
    /// Requests, what became of them, and the checks that they needed.
    #[derive(Debug)]
    struct RequestSeries {
        /// Requests that the API server answered, including refused ones.
        requests: Family<RequestLabels, Counter> = "vmpool_apiserver_requests_total" in "requests";
        /// Time from the headers of a request to its response.
        request_duration: Family<DurationLabels, Histogram> =
            "vmpool_apiserver_request_duration_seconds" in "seconds",
            histogram_family(|| Histogram::new(BUCKETS));
        /// Valid and authorized requests to remove machines, by result.
        removals: Family<RemovalLabels, Counter> = "vmpool_removals_total" in "requests",
            family_with_series();
        /// Duration of a removal, including the time in the queue.
        removal_duration: Histogram = "vmpool_removal_duration_seconds" in "seconds", Histogram::new(BUCKETS);
        /// Machines for which the API server decremented the replicas of their pool.
        targets: Counter = "vmpool_removal_targets_total" in "machines";
        /// Requests for one pool in one batch, which share the writes to the pool.
        batch_sizes: Histogram = "vmpool_removal_turn_requests" in "requests", Histogram::new(BATCH_SIZES);
        /// Writes to pools that the API server repeated, because another client had changed the pool or the
        /// response was lost.
        conflicts: Counter = "vmpool_removal_conflicts_total" in "writes";
        /// Valid and authorized claims and releases of machines, by result.
        claims: Family<ClaimLabels, Counter> = "vmpool_claims_total" in "requests", family_with_series();
        /// Duration of a claim or a release, including the time in which it waited for a free machine.
        claim_duration: Histogram = "vmpool_claim_duration_seconds" in "seconds", Histogram::new(BUCKETS);
        /// Claims of machines of one pool in one batch, which share one list of its machines.
        claim_batch_sizes: Histogram = "vmpool_claim_batch_requests" in "requests",
            Histogram::new(BATCH_SIZES);
        /// Writes to machines that the API server refused, because another client had changed the machine.
        claim_conflicts: Counter = "vmpool_claim_conflicts_total" in "writes";
        /// Requests for machines and pools with instance type and preference written out, in all groups and
        /// versions.
        expansions: Family<ExpandLabels, Counter> = "vmpool_expand_requests_total" in "requests";
        /// Time from the headers of such a request to its response.
        expansion_duration: Family<ExpandDurationLabels, Histogram> =
            "vmpool_expand_request_duration_seconds" in "seconds",
            add_known_series(histogram_family(|| Histogram::new(BUCKETS)));
        /// Authorization checks, by the source of the decision.
        checks: Family<CheckLabels, Counter> = "vmpool_authorization_checks_total" in "checks",
            family_with_series();
    }
);

impl ApiServerMetrics {
    /// All metrics at zero, and the metrics that `others` registers.
    ///
    /// Series whose label values are known in advance exist from the start, so that their first event shows
    /// as an increase.
    pub fn new(others: impl FnOnce(&mut MetricsRegistry)) -> Self {
        let registry = &mut MetricsRegistry::new();
        let series = RequestSeries::new(registry);
        // The codes of failures are not known in advance.
        for &resource in Expansion::ALL {
            drop(series.expansions.get_or_create(&ExpandLabels { resource, code: StatusCodeLabel(200) }));
        }
        others(registry);
        let page = MetricsPage::new(std::mem::take(registry), env!("CARGO_PKG_VERSION"));
        Self(Arc::new(Inner { series, page }))
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
        self.0.series.requests.get_or_create(&RequestLabels { verb, resource, code }).inc();
        self.0
            .series
            .request_duration
            .get_or_create(&DurationLabels { verb, resource })
            .observe(took.as_secs_f64());
        if let Some(resource) = resource.expansion() {
            let RequestSeries { expansions, expansion_duration, .. } = &self.0.series;
            expansions.get_or_create(&ExpandLabels { resource, code }).inc();
            expansion_duration.get_or_create(&ExpandDurationLabels { resource }).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn removal(&self, result: Outcome, counted: usize, took: Duration) {
        self.0.series.removals.get_or_create(&RemovalLabels { result }).inc();
        self.0.series.targets.inc_by(counted as u64);
        self.0.series.removal_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn batch(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 requests wait")]
        self.0.series.batch_sizes.observe(requests as f64);
    }

    pub(crate) fn pool_conflict(&self) {
        self.0.series.conflicts.inc();
    }

    pub(crate) fn claim(&self, result: ClaimOutcome, took: Duration) {
        self.0.series.claims.get_or_create(&ClaimLabels { result }).inc();
        self.0.series.claim_duration.observe(took.as_secs_f64());
    }

    pub(crate) fn claim_batch(&self, requests: usize) {
        #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53 requests wait")]
        self.0.series.claim_batch_sizes.observe(requests as f64);
    }

    pub(crate) fn claim_conflict(&self) {
        self.0.series.claim_conflicts.inc();
    }

    pub(crate) fn authorization(&self, source: CheckSource) {
        self.0.series.checks.get_or_create(&CheckLabels { source }).inc();
    }
}

#[cfg(test)]
mod tests;

//! The metrics of the webhook.
//!
//! As in the controller, no label contains a pool, a user or a namespace, so users cannot increase the number
//! of series.

mod label_values;
pub mod reference;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_runtime::certificates::CertificateMetrics;
use vmpool_runtime::https::TrafficMetrics;
use vmpool_runtime::metrics::{
    Description, MetricsPage, MetricsRegistry, add_known_series, family_with_series, histogram_family,
};
use vmpool_runtime::{label_set, metric_table};

pub(crate) use label_values::{Operation, Path, ReadResult, Resource, Verdict};

/// From a review without reads to a review whose reads exceed their deadline, in seconds.
const BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 5.0];

label_set!(RequestLabels { path: Path, operation: Operation, verdict: Verdict });
label_set!(DurationLabels { path: Path });
label_set!(ReadLabels { resource: Resource, result: ReadResult });

metric_table!(
    /// Admission reviews, and what they read.
    #[derive(Debug)]
    struct ReviewMetrics {
        /// Admission reviews that the webhook answered, by reviewed resource, operation and verdict.
        requests: Family<RequestLabels, Counter> = "vmpool_webhook_requests_total" in "requests",
            family_with_series();
        /// Time from the headers of a review to its response, including reads.
        durations: Family<DurationLabels, Histogram> = "vmpool_webhook_request_duration_seconds" in "seconds",
            add_known_series(histogram_family(|| Histogram::new(BUCKETS)));
        /// Objects that the webhook read from the API server for a review, by result.
        reads: Family<ReadLabels, Counter> = "vmpool_webhook_reads_total" in "reads", family_with_series();
    }
);

/// All metrics of one webhook.
#[derive(Debug)]
pub struct WebhookMetrics {
    reviews: ReviewMetrics,
    /// Metrics of the serving certificate.
    pub(crate) certificates: CertificateMetrics,
    /// Metrics of connections.
    pub(crate) traffic: TrafficMetrics,
    page: MetricsPage,
}

impl WebhookMetrics {
    /// All metrics at zero. Every series exists from the start, so that its first event shows as an increase.
    pub fn new() -> Arc<Self> {
        let registry = &mut MetricsRegistry::new();
        Arc::new(Self {
            reviews: ReviewMetrics::new(registry),
            certificates: CertificateMetrics::new(registry),
            traffic: TrafficMetrics::new(registry),
            page: MetricsPage::new(std::mem::take(registry), env!("CARGO_PKG_VERSION")),
        })
    }

    pub(crate) fn answered(&self, path: Path, operation: Operation, verdict: Verdict) {
        self.reviews.requests.get_or_create(&RequestLabels { path, operation, verdict }).inc();
    }

    pub(crate) fn took(&self, path: Path, time: Duration) {
        self.reviews.durations.get_or_create(&DurationLabels { path }).observe(time.as_secs_f64());
    }

    pub(crate) fn read(&self, resource: Resource, result: ReadResult) {
        self.reviews.reads.get_or_create(&ReadLabels { resource, result }).inc();
    }

    /// The page for Prometheus, in the OpenMetrics text format.
    pub fn page(&self) -> String {
        self.page.encode(|| {})
    }

    /// The descriptions of all metrics on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.page.catalogue()
    }
}

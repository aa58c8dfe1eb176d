//! The API server's part of the reference page for metrics, generated from the registered metrics. It
//! includes the metrics that the API server shares with the webhook.

use vmpool_runtime::certificates::CertificateMetrics;
use vmpool_runtime::https::TrafficMetrics;
use vmpool_runtime::metrics::reference::{Section, metric_tables};

use super::ApiServerMetrics;

/// The controller's part contains the metrics that all programs have.
pub(super) const SECTIONS: &[Section] = &[
    (
        "The API server for removals",
        &[
            "vmpool_apiserver_",
            "vmpool_removals_",
            "vmpool_removal_",
            "vmpool_claims_",
            "vmpool_claim_",
            "vmpool_expand_",
            "vmpool_authorization_",
        ],
    ),
    ("Certificates and HTTPS, of webhook and API server", &["vmpool_tls_", "vmpool_https_"]),
];

/// The API server's part as Markdown.
pub fn metrics_reference() -> String {
    metric_tables(SECTIONS, all_metrics().catalogue())
}

/// All metrics that one process registers.
pub(super) fn all_metrics() -> ApiServerMetrics {
    ApiServerMetrics::new(|registry| {
        CertificateMetrics::new(registry);
        TrafficMetrics::new(registry);
    })
}

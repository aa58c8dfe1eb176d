//! The API server's part of the page about metrics in the docs, made from what is registered, with what it shares with the
//! webhook.

use vmpool_runtime::certificates::CertificateMetrics;
use vmpool_runtime::https::TrafficMetrics;
use vmpool_runtime::metrics::reference::{Section, tables};

use super::Metrics;

/// What every program has is in the controller's part.
pub(super) const SECTIONS: &[Section] = &[
    (
        "The API server for removals",
        &["vmpool_apiserver_", "vmpool_removals_", "vmpool_removal_", "vmpool_authorization_"],
    ),
    ("Certificates and HTTPS, of webhook and API server", &["vmpool_tls_", "vmpool_https_"]),
];

/// The part, as Markdown.
pub fn part() -> String {
    tables(SECTIONS, all().catalogue())
}

/// All that one process registers.
pub(super) fn all() -> Metrics {
    Metrics::new(|registry| {
        CertificateMetrics::new(registry);
        TrafficMetrics::new(registry);
    })
}

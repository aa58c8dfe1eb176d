//! The webhook's part of the reference page for metrics, generated from the registered metrics.

use vmpool_runtime::metrics::reference::{Section, metric_tables};

use super::WebhookMetrics;

/// The parts of the other programs contain the metrics that all programs have.
pub(super) const SECTIONS: &[Section] = &[("The webhook", &["vmpool_webhook_"])];

/// The webhook's part as Markdown.
pub fn metrics_reference() -> String {
    metric_tables(SECTIONS, WebhookMetrics::new().catalogue())
}

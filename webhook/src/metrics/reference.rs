//! The webhook's part of the reference page for metrics, generated from the registered metrics.

use vmpool_runtime::metrics::reference::{Section, tables};

use super::Metrics;

/// The parts of the other programs contain the metrics that all programs have.
pub(super) const SECTIONS: &[Section] = &[("The webhook", &["vmpool_webhook_"])];

/// The webhook's part as Markdown.
pub fn part() -> String {
    tables(SECTIONS, Metrics::new().catalogue())
}

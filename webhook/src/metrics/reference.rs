//! The webhook's part of the page about metrics in the docs, made from what is registered.

use vmpool_runtime::metrics::reference::{Section, tables};

use super::Metrics;

/// What every program has is in the parts of others.
pub(super) const SECTIONS: &[Section] = &[("The webhook", &["vmpool_webhook_"])];

/// The part, as Markdown.
pub fn part() -> String {
    tables(SECTIONS, Metrics::new().catalogue())
}

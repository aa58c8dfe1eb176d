//! Metrics: registration with unit and help text, encoding for Prometheus, and description for the reference
//! page.
//!
//! The full name of a metric is written where the metric is registered, so that a search for a name from a
//! dashboard finds the place. The suffix `_total` marks counters; `_seconds` and `_bytes` name the unit.

mod describe;
mod label_values;
mod page;
mod process;
pub mod reference;
mod registry;

pub use describe::{Describe, Description, InfoMetric, Label, LabelValue, MetricKind, MetricLabels, Values};
pub use page::MetricsPage;
pub use process::ProcessMetrics;
pub use registry::{FloatCounter, FloatGauge, MetricsRegistry};

#[doc(hidden)]
pub use LabelValue as Word;

#[cfg(test)]
mod tests;

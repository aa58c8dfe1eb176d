//! Metrics: registration with unit and help text, encoding for Prometheus, and description for the reference
//! page.
//!
//! Each area of a program has a table of its metrics ([`metric_table`](crate::metric_table)) next to the code
//! that updates them. Registration and reference page follow from it. It contains the full names, so that a
//! search for a name from a dashboard finds the place. The suffix `_total` marks counters; `_seconds` and
//! `_bytes` name the unit.

mod describe;
mod families;
mod label_values;
mod page;
mod process;
pub mod reference;
mod registry;
mod table;

pub use describe::{Describe, Description, InfoMetric, Label, LabelValue, MetricKind, MetricLabels, Values};
pub use families::{add_known_series, family_with_series, histogram_family};
pub use page::MetricsPage;
pub use process::ProcessMetrics;
pub use registry::{FloatCounter, FloatGauge, MetricsRegistry};

#[doc(hidden)]
pub use LabelValue as Word;

#[cfg(test)]
mod tests;

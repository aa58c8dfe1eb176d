//! Metrics: registered once with all that their reader needs, encoded for Prometheus, described for the docs.
//!
//! Names are written out in full where a metric is registered, so that a search for the name on a dashboard ends there.
//! The suffix says what a metric is: `_total` for counters, `_seconds` or `_bytes` for the unit.

mod describe;
mod page;
mod process;
pub mod reference;
mod words;

use prometheus_client::encoding::text;
use prometheus_client::registry::Unit;

pub use describe::{About, Describe, Description, Kind, Label, Labels, Values, Word};
pub use page::Page;
pub use process::ProcessMetrics;

/// A gauge of fractions, such as seconds.
pub type FloatGauge = prometheus_client::metrics::gauge::Gauge<f64, std::sync::atomic::AtomicU64>;

/// A counter of fractions, such as seconds.
pub type FloatCounter = prometheus_client::metrics::counter::Counter<f64, std::sync::atomic::AtomicU64>;

/// The metrics of a process.
#[derive(Debug, Default)]
pub struct Registry {
    registry: prometheus_client::registry::Registry,
    catalogue: Vec<Description>,
}

impl Registry {
    /// A registry without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers `metric` and returns it.
    ///
    /// `name` is the whole name, with the suffix of its kind and unit. `unit` says what the value counts or measures.
    /// `help` is a sentence without its full stop.
    pub fn register<M: Describe>(
        &mut self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        metric: M,
    ) -> M {
        // The encoder appends the suffixes again.
        let stem = name.strip_suffix(M::KIND.suffix()).unwrap_or(name);
        let handle = metric.clone();
        let registry = &mut self.registry;
        match unit {
            "seconds" => {
                registry.register_with_unit(without(stem, "_seconds"), help, Unit::Seconds, metric);
            }
            "bytes" => registry.register_with_unit(without(stem, "_bytes"), help, Unit::Bytes, metric),
            _ => registry.register(stem, help, metric),
        }
        self.catalogue.push(Description { name, kind: M::KIND, unit, labels: M::labels(), help });
        handle
    }

    /// What is registered, in that order.
    pub fn catalogue(&self) -> &[Description] {
        &self.catalogue
    }

    /// All metrics as they are now, in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut page = String::new();
        // A String takes every write.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

fn without<'a>(stem: &'a str, suffix: &str) -> &'a str {
    stem.strip_suffix(suffix).unwrap_or(stem)
}

#[cfg(test)]
mod tests;

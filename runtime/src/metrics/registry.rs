//! The registry of the metrics of a process.

use prometheus_client::encoding::text;
use prometheus_client::registry::Unit;

use super::describe::{Describe, Description};

/// A gauge of fractional numbers, such as seconds.
pub type FloatGauge = prometheus_client::metrics::gauge::Gauge<f64, std::sync::atomic::AtomicU64>;

/// A counter of fractional numbers, such as seconds.
pub type FloatCounter = prometheus_client::metrics::counter::Counter<f64, std::sync::atomic::AtomicU64>;

/// The metrics of a process.
#[derive(Debug, Default)]
pub struct MetricsRegistry {
    registry: prometheus_client::registry::Registry,
    catalogue: Vec<Description>,
}

impl MetricsRegistry {
    /// A registry without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers `metric` and returns it.
    ///
    /// `name` is the full name, with the suffixes of kind and unit. `unit` names what the metric counts or
    /// measures. `help` is a sentence, or several. The period at its end is dropped, because the encoder adds
    /// one.
    pub fn register<M: Describe>(
        &mut self,
        name: &'static str,
        unit: &'static str,
        help: &'static str,
        metric: M,
    ) -> M {
        let help = help.trim_ascii();
        let help = help.strip_suffix('.').unwrap_or(help);
        // The encoder appends the suffixes.
        let stem = name.strip_suffix(M::KIND.suffix()).unwrap_or(name);
        let handle = metric.clone();
        let registry = &mut self.registry;
        match unit {
            "seconds" => {
                registry.register_with_unit(strip_name_suffix(stem, "_seconds"), help, Unit::Seconds, metric);
            }
            "bytes" => {
                registry.register_with_unit(strip_name_suffix(stem, "_bytes"), help, Unit::Bytes, metric);
            }
            _ => registry.register(stem, help, metric),
        }
        self.catalogue.push(Description { name, kind: M::KIND, unit, labels: M::labels(), help });
        handle
    }

    /// The registered metrics, in the order of their registration.
    pub fn catalogue(&self) -> &[Description] {
        &self.catalogue
    }

    /// The current values of all metrics in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

fn strip_name_suffix<'a>(stem: &'a str, suffix: &str) -> &'a str {
    stem.strip_suffix(suffix).unwrap_or(stem)
}

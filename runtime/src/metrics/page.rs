//! The page that Prometheus scrapes.

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;

use super::describe::{Description, InfoMetric, Label, MetricLabels, Values};
use super::process::ProcessMetrics;
use super::registry::MetricsRegistry;

/// The metrics of a program, including those that all programs have.
#[derive(Debug)]
pub struct MetricsPage {
    registry: MetricsRegistry,
    process: ProcessMetrics,
    /// Allows one encoding at a time: two would mix the values that they refresh.
    encoding: Mutex<()>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl MetricLabels for BuildLabels {
    fn labels() -> Vec<Label> {
        vec![Label { name: "version", values: Values::Open("the version of this program") }]
    }
}

impl MetricsPage {
    /// The page of the registered metrics, of process metrics and of the program's `version`.
    pub fn new(mut registry: MetricsRegistry, version: &'static str) -> Self {
        let process = ProcessMetrics::new(&mut registry);
        let help = "The running program; the value is always 1";
        registry.register("vmpool_build_info", "", help, InfoMetric::new(BuildLabels { version }));
        Self { registry, process, encoding: Mutex::default() }
    }

    /// The current page in the OpenMetrics text format. `refresh` is called first, to set gauges that are not
    /// updated by events.
    pub fn encode(&self, refresh: impl FnOnce()) -> String {
        let _guard = self.encoding.lock();
        refresh();
        self.process.refresh();
        self.registry.encode()
    }

    /// The descriptions of all metrics on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.registry.catalogue()
    }
}

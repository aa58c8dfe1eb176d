//! The page that Prometheus reads.

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;

use super::{About, Description, Label, Labels, ProcessMetrics, Registry, Values};

/// The metrics of a program, together with those that every program has.
#[derive(Debug)]
pub struct Page {
    registry: Registry,
    process: ProcessMetrics,
    /// Two pages at a time would mix what they read.
    alone: Mutex<()>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl Labels for BuildLabels {
    fn labels() -> Vec<Label> {
        vec![Label { name: "version", values: Values::Open("the version of this program") }]
    }
}

impl Page {
    /// The page of all that is registered, and of the program itself, which has this `version`.
    pub fn new(mut registry: Registry, version: &'static str) -> Self {
        let process = ProcessMetrics::new(&mut registry);
        let help = "The program that runs; its value is always 1";
        registry.register("vmpool_build_info", "", help, About::new(BuildLabels { version }));
        Self { registry, process, alone: Mutex::default() }
    }

    /// The page as it is now, in the OpenMetrics text format. Before, `refresh` reads what is not written where it
    /// happens.
    pub fn encode(&self, refresh: impl FnOnce()) -> String {
        let _alone = self.alone.lock();
        refresh();
        self.process.refresh();
        self.registry.encode()
    }

    /// What is on the page.
    pub fn catalogue(&self) -> &[Description] {
        self.registry.catalogue()
    }
}

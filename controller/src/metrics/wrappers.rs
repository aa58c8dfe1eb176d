//! The metrics of wrappers. Gauges are read from the store of wrappers at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_api::diskimage::values::WrapperPhase;
use vmpool_runtime::metrics::{Values, Word, histogram_family};
use vmpool_runtime::{label_set, metric_table, words};

use super::followed::Followed;
use super::images::{ImageNamespace, phase};
use super::labels::gauge_value;

/// From half a minute to six hours: a wrapper may wait for the import of its image.
const BUCKETS: [f64; 10] = [30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0, 14400.0, 21600.0];

phase!(
    /// The phase of a wrapper.
    WrapperPhaseLabel(WrapperPhase), "the phase, as `status.phase` of the wrapper has it"
);

words!(
    /// Whether the image of a wrapper is older than the wrapper.
    pub(crate) Preexisting {
        /// The image existed before the wrapper.
        Yes => "true",
        /// The image was created later.
        No => "false",
    }
);

label_set!(WrapperLabels { namespace: ImageNamespace, phase: WrapperPhaseLabel });
label_set!(NamespaceLabels { namespace: ImageNamespace });
label_set!(ProvisioningLabels { image_preexisting: Preexisting });

/// The wrappers of one namespace at a scrape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownWrappers {
    /// Their number in each phase.
    pub(crate) phases: [usize; 3],
    /// Since when the image of that wrapper is ready that has waited longest for its machine, in seconds
    /// since 1970.
    pub(crate) waiting_since: Option<i64>,
    /// Those whose template differs from the image.
    pub(crate) mismatches: usize,
}

impl ShownWrappers {
    /// Counts a wrapper.
    pub(crate) fn add(&mut self, phase: WrapperPhase) {
        self.phases[phase as usize] += 1;
    }

    /// A wrapper waits for its machine, and its image is ready since this time.
    pub(crate) fn waits(&mut self, since: i64) {
        self.waiting_since = Some(self.waiting_since.map_or(since, |earlier| earlier.min(since)));
    }
}

metric_table!(
    /// The metrics of wrappers.
    #[derive(Debug)]
    pub(crate) struct WrapperMetrics {
        /// Wrappers of machines in this phase.
        phase: Family<WrapperLabels, Gauge> = "vmpool_wrapper_phase" in "wrappers";
        /// When the image became ready for the wrapper that has waited longest for its first machine, in Unix
        /// time; no series without such a wrapper.
        waiting: Family<NamespaceLabels, Gauge> =
            "vmpool_wrapper_waiting_since_timestamp_seconds" in "seconds";
        /// Wrappers whose template differs from the disk image that they use.
        mismatch: Family<NamespaceLabels, Gauge> = "vmpool_wrapper_template_mismatch" in "wrappers";
        /// Time from the creation of a wrapper until image and machine were ready for the first time.
        provisioning: Family<ProvisioningLabels, Histogram> =
            "vmpool_wrapper_provisioning_duration_seconds" in "seconds",
            histogram_family(|| Histogram::new(BUCKETS));
        /// Disks of machines that the controller deleted because their clone did not begin.
        kicks: Family<NamespaceLabels, Counter> = "vmpool_wrapper_kicks_total" in "disks";
        /// Disks of machines that were lost and made again from the image, without the data of the guest.
        recreated: Family<NamespaceLabels, Counter> = "vmpool_wrapper_disk_recreated_total" in "disks";
    } with { shown: Followed<BTreeMap<String, ShownWrappers>> }
);

impl WrapperMetrics {
    /// Reads the wrappers from `source` from now on.
    pub(crate) fn follow(
        &self,
        source: impl Fn() -> Option<BTreeMap<String, ShownWrappers>> + Send + Sync + 'static,
    ) {
        self.shown.follow(source);
    }

    /// Observes how long a wrapper took until it was ready for the first time.
    pub(crate) fn provisioned(&self, image_preexisting: bool, took: Duration) {
        let image_preexisting = if image_preexisting { Preexisting::Yes } else { Preexisting::No };
        self.provisioning
            .get_or_create(&ProvisioningLabels { image_preexisting })
            .observe(took.as_secs_f64());
    }

    /// Counts a disk whose clone did not begin.
    pub(crate) fn kicked(&self, namespace: &str) {
        self.kicks.get_or_create(&namespace_labels(namespace)).inc();
    }

    /// Counts a disk that was lost and made again.
    pub(crate) fn disk_recreated(&self, namespace: &str) {
        self.recreated.get_or_create(&namespace_labels(namespace)).inc();
    }

    pub(super) fn refresh(&self) {
        let shown = self.shown.read().unwrap_or_default();
        self.phase.clear();
        self.waiting.clear();
        self.mismatch.clear();
        for (namespace, wrappers) in shown {
            for (&phase, count) in WrapperPhase::ALL.iter().zip(wrappers.phases) {
                let (namespace, phase) =
                    (ImageNamespace(namespace.as_str().into()), WrapperPhaseLabel(phase));
                self.phase.get_or_create(&WrapperLabels { namespace, phase }).set(gauge_value(count));
            }
            let labels = namespace_labels(&namespace);
            if let Some(since) = wrappers.waiting_since {
                self.waiting.get_or_create(&labels).set(since);
            }
            self.mismatch.get_or_create(&labels).set(gauge_value(wrappers.mismatches));
        }
    }
}

fn namespace_labels(namespace: &str) -> NamespaceLabels {
    NamespaceLabels { namespace: ImageNamespace(namespace.into()) }
}

//! The metrics of disk images. Gauges are read from the store of images at each scrape.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use vmpool_api::diskimage::values::{ImagePhase, SourceType};
use vmpool_diskimage::failure::DiskImageReason;
use vmpool_runtime::metrics::{Values, Word, family_with_series, histogram_family};
use vmpool_runtime::{label_set, metric_table, words};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use super::followed::Followed;
use super::labels::gauge_value;
use super::pool_series::label;

/// The phase of an image or a wrapper.
macro_rules! phase {
    ($(#[doc = $doc:literal])* $name:ident($phase:ty), $values:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) struct $name(pub(crate) $phase);

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                fmt::Write::write_str(encoder, self.0.as_str())
            }
        }

        impl Word for $name {
            fn values() -> Values {
                Values::Open($values)
            }
        }
    };
}

pub(super) use phase;

phase!(
    /// The phase of an image.
    ImagePhaseLabel(ImagePhase), "the phase, as `status.phase` of the image has it"
);

/// Seconds from one minute to twelve hours: how long an attempt to import an image takes.
const SYNC_BUCKETS: [f64; 12] =
    [60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 10800.0, 14400.0, 21600.0, 43200.0];
/// Seconds from one second to twelve hours: how long an image waits for its turn.
const WAIT_BUCKETS: [f64; 10] = [1.0, 10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0];

words!(
    /// The kind of the objects that refer to an image.
    pub(crate) ReferrerLabel {
        /// Machines and wrappers.
        VirtualMachine => "VirtualMachine",
        /// Pools.
        VirtualMachinePool => "VirtualMachinePool",
        /// Unfinished clones that belong to no counted machine.
        DataVolume => "DataVolume",
    }
);

words!(
    /// The source of an image.
    pub(crate) SourceLabel {
        /// An object in S3 storage.
        S3 => "s3",
        /// A file of a web server.
        Http => "http",
        /// A container image.
        Registry => "registry",
        /// An empty disk.
        Blank => "blank",
        /// An object in Google Cloud Storage.
        Gcs => "gcs",
        /// A PersistentVolumeClaim.
        Pvc => "pvc",
        /// A VolumeSnapshot.
        Snapshot => "snapshot",
        /// A user sends the data.
        Upload => "upload",
        /// A source that this version does not know.
        Unknown => "unknown",
    }
);

words!(
    /// What was lost.
    pub(crate) HealReason {
        /// The snapshot. It is taken again from the claim.
        Snapshot => "SnapshotLost",
        /// Snapshot and claim. The data is imported again.
        Data => "BackingDataLost",
    }
);

words!(
    /// What became of a restoration.
    pub(crate) HealResult {
        /// It began.
        Began => "began",
        /// The image is ready again.
        Healed => "healed",
        /// Data was lost too often, so the controller does not restore it.
        Refused => "refused",
    }
);

impl SourceLabel {
    /// The label for the `sourceType` of an image.
    pub(crate) fn of(source_type: &str) -> Self {
        match source_type.parse() {
            Ok(SourceType::S3) => Self::S3,
            Ok(SourceType::Http) => Self::Http,
            Ok(SourceType::Registry) => Self::Registry,
            Ok(SourceType::Blank) => Self::Blank,
            Ok(SourceType::Gcs) => Self::Gcs,
            Ok(SourceType::Pvc) => Self::Pvc,
            Ok(SourceType::Snapshot) => Self::Snapshot,
            Ok(SourceType::Upload) => Self::Upload,
            Err(_) => Self::Unknown,
        }
    }
}

label!(
    /// The namespace of an image or a wrapper.
    ImageNamespace, "the namespace of the object"
);
label!(
    /// The namespace of an object that refers to an image.
    OriginNamespace, "the namespace of the object that refers to the image"
);
label!(
    /// The name of an image.
    ImageName, "the name of the image"
);

/// The result of an attempt to import an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttemptResult(pub(crate) Option<DiskImageReason>);

impl EncodeLabelValue for AttemptResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.map_or("success", DiskImageReason::as_str))
    }
}

impl Word for AttemptResult {
    fn values() -> Values {
        Values::Open("`success`, or the reason of the condition `Ready` after the attempt")
    }

    fn known_values() -> Vec<Self> {
        std::iter::once(None).chain(DiskImageReason::OF_ATTEMPTS.map(Some)).map(Self).collect()
    }
}

label_set!(PhaseLabels { namespace: ImageNamespace, name: ImageName, phase: ImagePhaseLabel });
label_set!(ReferenceLabels { namespace: ImageNamespace, name: ImageName, kind: ReferrerLabel });
label_set!(ImageLabels { namespace: ImageNamespace, name: ImageName });
label_set!(AttemptLabels { source_type: SourceLabel, result: AttemptResult });
label_set!(HealLabels { reason: HealReason, result: HealResult });
label_set!(NamespaceLabels { namespace: ImageNamespace });
label_set!(DeniedLabels { image_namespace: ImageNamespace, from_namespace: OriginNamespace });

/// One image at a scrape.
#[derive(Clone, Debug)]
pub(crate) struct ShownImage {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) phase: Option<ImagePhase>,
    /// Machines, pools and clones.
    pub(crate) references: [usize; 3],
    /// In seconds since 1970.
    pub(crate) unreferenced_since: Option<i64>,
    /// Whether references block the deletion; `None` if the image is not being deleted.
    pub(crate) blocked: Option<bool>,
}

/// All images of a leader at a scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownImages {
    pub(crate) images: Vec<ShownImage>,
    pub(crate) waiting: usize,
    pub(crate) transferring: usize,
}

metric_table!(
    /// The metrics of images.
    #[derive(Debug)]
    pub(crate) struct ImageMetrics {
        /// Whether the disk image is in this phase.
        phase: Family<PhaseLabels, Gauge> = "vmpool_vmdi_phase" in "0 or 1";
        /// Objects that refer to the disk image, as its status counts them.
        references: Family<ReferenceLabels, Gauge> = "vmpool_vmdi_references" in "references";
        /// Since when no object refers to the disk image, in Unix time; no series while one does.
        unreferenced: Family<ImageLabels, Gauge> =
            "vmpool_vmdi_unreferenced_since_timestamp_seconds" in "seconds";
        /// Whether references block the deletion of the disk image; no series if it is not being deleted.
        blocked: Family<ImageLabels, Gauge> = "vmpool_vmdi_deletion_blocked" in "0 or 1";
        /// Disk images that wait for their turn to be imported.
        waiting: Gauge = "vmpool_vmdi_queue_length" in "images";
        /// Disk images that are imported.
        transferring: Gauge = "vmpool_vmdi_syncs_in_progress" in "images";
        /// Time that disk images waited for their turn, from when an attempt could begin until it began.
        waited: Histogram = "vmpool_vmdi_queue_wait_seconds" in "seconds", Histogram::new(WAIT_BUCKETS);
        /// Duration of the attempts to import a disk image that ended, from the turn of the image.
        durations: Family<AttemptLabels, Histogram> = "vmpool_vmdi_sync_duration_seconds" in "seconds",
            histogram_family(|| Histogram::new(SYNC_BUCKETS));
        /// Attempts to import a disk image that ended.
        // The alerts need the series before the first attempt.
        attempts: Family<AttemptLabels, Counter> = "vmpool_vmdi_sync_attempts_total" in "attempts",
            family_with_series();
        /// Restorations of lost snapshots or data of disk images.
        // The alert needs the series before the first restoration.
        heals: Family<HealLabels, Counter> = "vmpool_vmdi_heals_total" in "restorations",
            family_with_series();
        /// Disk images that were deleted because their time to live was over.
        expired: Family<NamespaceLabels, Counter> = "vmpool_vmdi_expired_total" in "images";
        /// References from other namespaces that no VMDiskImageGrant permits, counted in each pass that finds
        /// them.
        denied: Family<DeniedLabels, Counter> = "vmpool_vmdi_references_denied_total" in "references";
    } with { shown: Followed<ShownImages> }
);

impl ImageMetrics {
    /// Reads the images from `source` from now on.
    pub(crate) fn follow(&self, source: impl Fn() -> Option<ShownImages> + Send + Sync + 'static) {
        self.shown.follow(source);
    }

    /// An attempt began after the image has waited for its turn.
    pub(crate) fn attempt_began(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    /// Counts the end of an attempt. The API server may refuse its first write, so that it took no time.
    pub(crate) fn attempt_ended(
        &self,
        source_type: SourceLabel,
        failure: Option<DiskImageReason>,
        took: Duration,
    ) {
        let labels = AttemptLabels { source_type, result: AttemptResult(failure) };
        self.attempts.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Counts a restoration.
    pub(crate) fn heal(&self, reason: HealReason, result: HealResult) {
        self.heals.get_or_create(&HealLabels { reason, result }).inc();
    }

    /// Counts a removal by age.
    pub(crate) fn expired(&self, namespace: &str) {
        let namespace = ImageNamespace(namespace.into());
        self.expired.get_or_create(&NamespaceLabels { namespace }).inc();
    }

    /// Counts references that no grant permits.
    pub(crate) fn denied(&self, image_namespace: &str, from_namespace: &str, count: usize) {
        let labels = DeniedLabels {
            image_namespace: ImageNamespace(image_namespace.into()),
            from_namespace: OriginNamespace(from_namespace.into()),
        };
        self.denied.get_or_create(&labels).inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(super) fn refresh(&self) {
        let shown = self.shown.read().unwrap_or_default();
        self.phase.clear();
        self.references.clear();
        self.unreferenced.clear();
        self.blocked.clear();
        self.waiting.set(gauge_value(shown.waiting));
        self.transferring.set(gauge_value(shown.transferring));
        for image in shown.images {
            let (namespace, name) = (ImageNamespace(image.namespace.into()), ImageName(image.name.into()));
            let labels = ImageLabels { namespace: namespace.clone(), name: name.clone() };
            for &phase in ImagePhase::ALL {
                let (namespace, name) = (namespace.clone(), name.clone());
                let labels = PhaseLabels { namespace, name, phase: ImagePhaseLabel(phase) };
                self.phase.get_or_create(&labels).set(i64::from(image.phase == Some(phase)));
            }
            for (&kind, count) in ReferrerLabel::ALL.iter().zip(image.references) {
                let labels = ReferenceLabels { namespace: namespace.clone(), name: name.clone(), kind };
                self.references.get_or_create(&labels).set(gauge_value(count));
            }
            if let Some(since) = image.unreferenced_since {
                self.unreferenced.get_or_create(&labels).set(since);
            }
            if let Some(blocked) = image.blocked {
                self.blocked.get_or_create(&labels).set(i64::from(blocked));
            }
        }
    }
}

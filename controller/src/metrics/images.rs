//! The metrics of disk images. Gauges are read from the store of images at each scrape.

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use vmpool_api::diskimage::values::ImagePhase;
use vmpool_diskimage::failure::Reason;
use vmpool_runtime::metrics::{Registry, Values, Word};
use vmpool_runtime::{label_set, words};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use super::followed::Followed;
use super::labels::gauge;
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

words!(
    /// The kind of the objects that refer to an image.
    pub(crate) ReferrerLabel {
        /// Machines and wrappers.
        Machines => "machines",
        /// Pools.
        Pools => "pools",
        /// Unfinished clones that belong to no counted machine.
        Clones => "clones",
    }
);

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
pub(crate) struct AttemptResult(pub(crate) Option<Reason>);

impl EncodeLabelValue for AttemptResult {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_str(encoder, self.0.map_or("success", Reason::as_str))
    }
}

impl Word for AttemptResult {
    fn values() -> Values {
        Values::Open("`success`, or the reason of the condition `Ready` after the attempt")
    }
}

label_set!(PhaseLabels { namespace: ImageNamespace, name: ImageName, phase: ImagePhaseLabel });
label_set!(ReferenceLabels { namespace: ImageNamespace, name: ImageName, kind: ReferrerLabel });
label_set!(ImageLabels { namespace: ImageNamespace, name: ImageName });
label_set!(AttemptLabels { result: AttemptResult });
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

/// The metrics of images.
#[derive(Debug)]
pub(crate) struct ImageMetrics {
    shown: Followed<ShownImages>,
    phase: Family<PhaseLabels, Gauge>,
    references: Family<ReferenceLabels, Gauge>,
    unreferenced: Family<ImageLabels, Gauge>,
    blocked: Family<ImageLabels, Gauge>,
    waiting: Gauge,
    transferring: Gauge,
    attempts: Family<AttemptLabels, Counter>,
    heals: Counter,
    expired: Counter,
    denied: Family<DeniedLabels, Counter>,
}

impl ImageMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            shown: Followed::default(),
            phase: registry.register(
                "vmpool_vmdi_phase",
                "0 or 1",
                "Whether the disk image is in this phase",
                Family::default(),
            ),
            references: registry.register(
                "vmpool_vmdi_references",
                "references",
                "Objects that refer to the disk image, as its status counts them",
                Family::default(),
            ),
            unreferenced: registry.register(
                "vmpool_vmdi_unreferenced_since_timestamp_seconds",
                "seconds",
                "Since when no object refers to the disk image, in Unix time; no series while one does",
                Family::default(),
            ),
            blocked: registry.register(
                "vmpool_vmdi_deletion_blocked",
                "0 or 1",
                "Whether references block the deletion of the disk image; no series if it is not being deleted",
                Family::default(),
            ),
            waiting: registry.register(
                "vmpool_vmdi_queue_length",
                "images",
                "Disk images that wait for their turn to be imported",
                Gauge::default(),
            ),
            transferring: registry.register(
                "vmpool_vmdi_syncs_in_progress",
                "images",
                "Disk images that are imported",
                Gauge::default(),
            ),
            attempts: registry.register(
                "vmpool_vmdi_sync_attempts_total",
                "attempts",
                "Attempts to import a disk image that ended",
                Family::default(),
            ),
            heals: registry.register(
                "vmpool_vmdi_heals_total",
                "restorations",
                "Restorations of lost snapshots or data that began",
                Counter::default(),
            ),
            expired: registry.register(
                "vmpool_vmdi_expired_total",
                "images",
                "Disk images that were deleted because their time to live was over",
                Counter::default(),
            ),
            denied: registry.register(
                "vmpool_vmdi_references_denied_total",
                "references",
                "References from other namespaces that no VMDiskImageGrant permits, counted in each pass that finds them",
                Family::default(),
            ),
        }
    }

    /// Reads the images from `source` from now on.
    pub(crate) fn follow(&self, source: impl Fn() -> Option<ShownImages> + Send + Sync + 'static) {
        self.shown.follow(source);
    }

    /// Counts the end of an attempt.
    pub(crate) fn attempt_ended(&self, failure: Option<Reason>) {
        self.attempts.get_or_create(&AttemptLabels { result: AttemptResult(failure) }).inc();
    }

    /// Counts the beginning of a restoration.
    pub(crate) fn heal_began(&self) {
        self.heals.inc();
    }

    /// Counts a removal by age.
    pub(crate) fn expired(&self) {
        self.expired.inc();
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
        self.waiting.set(gauge(shown.waiting));
        self.transferring.set(gauge(shown.transferring));
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
                self.references.get_or_create(&labels).set(gauge(count));
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

//! What a pass knows and what it decides.

use std::time::Duration;

use jiff::Timestamp;

use crate::corrections::Corrections;
use crate::model::{BackingObjects, DataKind, DataTarget, DiskImage, DiskImageStatus, ReferenceList};
use crate::settings::ImportLimits;

/// All that one pass may know.
#[derive(Clone, Copy, Debug)]
pub struct ImagePassInput<'a> {
    /// When the pass began.
    pub now: Timestamp,
    /// The limits.
    pub settings: &'a ImportLimits,
    /// The image.
    pub image: &'a DiskImage,
    /// The objects with its data.
    pub backing: &'a BackingObjects,
    /// Whether these objects were read from the API server in this pass, and not from a cache.
    pub backing_is_live: bool,
    /// The references to the image.
    pub references: &'a ReferenceList,
    /// Whether the queue lets the image start its import.
    pub queue_decision: QueueDecision,
    /// How often objects were corrected that another client changes.
    pub corrections: &'a Corrections,
    /// The uptime of the leader, for the corrections.
    pub uptime: Duration,
}

/// The answer of the queue of imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDecision {
    /// The queue was not asked: the stored status does not show that the image waits.
    NotAsked,
    /// Other images go first.
    MustWait,
    /// The image may start.
    MayStart,
}

/// One write. Deletes have the UID as a precondition, so that they cannot hit a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageAction {
    /// Adds the finalizer.
    Protect,
    /// Removes the finalizer.
    Unprotect,
    /// Removes the owner reference to the image from an object with its data.
    Disown {
        /// Its kind.
        kind: DataKind,
        /// Its UID.
        uid: String,
    },
    /// Gives an object with the data of the image the labels of the image again.
    Label {
        /// Its kind.
        kind: DataKind,
        /// Its UID.
        uid: String,
    },
    /// Creates the DataVolume, which starts the import. An existing one that belongs to the image is a
    /// success.
    CreateDataVolume,
    /// Tells CDI not to fill a new claim of the DataVolume on its own.
    MarkPrepopulated {
        /// UID of the DataVolume.
        uid: String,
    },
    /// Deletes the DataVolume, and with it its claim.
    DeleteDataVolume {
        /// Its UID.
        uid: String,
    },
    /// Creates the snapshot of the claim.
    CreateSnapshot,
    /// Deletes the snapshot.
    DeleteSnapshot {
        /// Its UID.
        uid: String,
    },
    /// Creates the DataSource or corrects it.
    ApplyDataSource {
        /// What it points to.
        target: DataTarget,
    },
    /// Deletes the DataSource.
    DeleteDataSource {
        /// Its UID.
        uid: String,
    },
    /// Deletes the image because its time to live is over. The version is a precondition, too: any write to
    /// the image since the plan cancels the deletion.
    Expire {
        /// UID of the image.
        uid: String,
        /// The version of the image that the plan used.
        resource_version: String,
    },
}

/// What the shell must read from the API server before the next plan of this pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequiredReads {
    /// All objects that may refer to the image. A list that fails is no answer: the pass then ends with this
    /// plan.
    pub references: bool,
    /// The objects with the data of the image.
    pub backing: bool,
}

/// An event on the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// Whether it is a warning.
    pub warning: bool,
    /// The reason.
    pub reason: &'static str,
    /// The text.
    pub message: String,
}

/// What a pass does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePlan {
    /// The writes, in their order. If one fails, the shell leaves out the rest.
    pub actions: Vec<ImageAction>,
    /// The status to publish after the writes.
    pub status: DiskImageStatus,
    /// What to read before the writes. If anything, `actions` contains only writes that do not depend on it.
    pub reads: RequiredReads,
    /// After which time to look again, if no event comes earlier.
    pub again: Option<Duration>,
    /// The events.
    pub events: Vec<PlannedEvent>,
}

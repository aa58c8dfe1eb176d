//! Facts for tests: an image in a state, with the objects that belong to it.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use crate::corrections::Corrections;
use crate::failure::DiskImageReason;
use crate::model::{
    BackingClaim, BackingDataSource, BackingDataVolume, BackingObjects, BackingSnapshot, DataTarget,
    DiskImage, DiskImageStatus, FoundObject, ObjectKey, ReferenceList, Transfer,
};
use crate::plan::{ImagePassInput, ImagePlan, QueueDecision, plan_image};
use crate::settings::ImportLimits;

/// A moment, in seconds after the beginning of the tests.
pub(crate) fn test_time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn image_without_status() -> DiskImage {
    DiskImage {
        key: ObjectKey::new("images", "debian"),
        uid: "uid-image".to_owned(),
        resource_version: "7".to_owned(),
        generation: 1,
        deleting: false,
        protected: true,
        force_release: false,
        retry: None,
        ttl: None,
        blank: false,
        upload: false,
        invalid: None,
        status: DiskImageStatus::default(),
    }
}

pub(crate) fn volume_with_transfer(transfer: Transfer) -> BackingDataVolume {
    BackingDataVolume {
        uid: "uid-volume".to_owned(),
        created: test_time(0),
        deleting: false,
        transfer,
        progress: Some("42.10%".to_owned()),
        restarts: 0,
        not_running: None,
        over_quota: None,
        prepopulated: transfer == Transfer::Succeeded,
    }
}

pub(crate) fn bound_claim() -> BackingClaim {
    BackingClaim { uid: "uid-claim".to_owned(), deleting: false, bound: true, lost: false, owned: true }
}

pub(crate) fn snapshot_with_readiness(ready: bool) -> BackingSnapshot {
    BackingSnapshot {
        uid: "uid-snapshot".to_owned(),
        created: test_time(10),
        deleting: false,
        ready,
        unready_for: None,
        error: None,
        content_lost: false,
        restore_size: None,
    }
}

pub(crate) fn snapshot_data_source() -> BackingDataSource {
    BackingDataSource { uid: "uid-source".to_owned(), deleting: false, target: Some(DataTarget::Snapshot) }
}

/// All objects of a ready image.
pub(crate) fn complete_backing() -> BackingObjects {
    BackingObjects {
        data_volume: FoundObject::Ours(volume_with_transfer(Transfer::Succeeded)),
        claim: FoundObject::Ours(bound_claim()),
        snapshot: FoundObject::Ours(snapshot_with_readiness(true)),
        data_source: FoundObject::Ours(snapshot_data_source()),
        ..BackingObjects::empty()
    }
}

/// A pass of an image, with all that it may know.
#[derive(Clone)]
pub(crate) struct ImagePassCase {
    pub(crate) now: Timestamp,
    pub(crate) settings: ImportLimits,
    pub(crate) image: DiskImage,
    pub(crate) backing: BackingObjects,
    pub(crate) live: bool,
    pub(crate) references: ReferenceList,
    pub(crate) turn: QueueDecision,
    pub(crate) corrections: Corrections,
}

impl ImagePassCase {
    /// An image without a status and without objects, whose turn it is.
    pub(crate) fn new() -> Self {
        Self {
            now: test_time(100),
            settings: ImportLimits::default(),
            image: image_without_status(),
            backing: BackingObjects::empty(),
            live: false,
            references: ReferenceList::default(),
            turn: QueueDecision::MayStart,
            corrections: Corrections::default(),
        }
    }

    /// An image in this phase, for this reason.
    pub(crate) fn in_phase(phase: ImagePhase, reason: DiskImageReason) -> Self {
        let mut case = Self::new();
        case.image.status.phase = Some(phase);
        case.image.status.reason = Some(reason);
        case.image.status.queued_at = Some(test_time(0));
        case
    }

    /// An image whose data is imported.
    pub(crate) fn syncing(volume: BackingDataVolume) -> Self {
        let mut case = Self::in_phase(ImagePhase::Syncing, DiskImageReason::Syncing);
        case.image.status.sync_started_at = Some(test_time(0));
        case.image.status.data_volume = Some(volume.uid.clone());
        case.backing.data_volume = FoundObject::Ours(volume);
        case.backing.claim = FoundObject::Ours(bound_claim());
        case
    }

    /// A ready image with all its objects.
    pub(crate) fn ready() -> Self {
        let mut case = Self::in_phase(ImagePhase::Ready, DiskImageReason::Synced);
        case.image.status.queued_at = None;
        case.image.status.ready_at = Some(test_time(20));
        case.image.status.message = "machines can clone the image".to_owned();
        case.image.status.source_volume_lost = Some(false);
        case.backing = complete_backing();
        case.image.status.unreferenced_since = Some(test_time(20));
        case.plan_into_status();
        case
    }

    /// Stores the planned status.
    pub(crate) fn plan_into_status(&mut self) {
        self.image.status = self.plan().status;
    }

    pub(crate) fn after(mut self, elapsed: Duration) -> Self {
        self.now = self.now.checked_add(elapsed).unwrap();
        self
    }

    pub(crate) fn world(&self) -> ImagePassInput<'_> {
        ImagePassInput {
            now: self.now,
            settings: &self.settings,
            image: &self.image,
            backing: &self.backing,
            backing_is_live: self.live,
            references: &self.references,
            queue_decision: self.turn,
            corrections: &self.corrections,
            uptime: Duration::from_hours(1),
        }
    }

    pub(crate) fn plan(&self) -> ImagePlan {
        plan_image(&self.world())
    }
}

//! Facts for tests: an image in a state, with the objects that belong to it.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use crate::corrections::Corrections;
use crate::failure::Reason;
use crate::model::{
    Backing, Claim, DataSource, DataTarget, DataVolume, Found, Image, Key, References, Snapshot, Status,
    Transfer,
};
use crate::plan::{Plan, Turn, World, plan};
use crate::settings::Settings;

/// A moment, in seconds after the beginning of the tests.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

pub(crate) fn image() -> Image {
    Image {
        key: Key::new("images", "debian"),
        uid: "uid-image".to_owned(),
        resource_version: "7".to_owned(),
        generation: 1,
        deleting: false,
        protected: true,
        force_release: false,
        retry: None,
        ttl: None,
        blank: false,
        invalid: None,
        status: Status::default(),
    }
}

pub(crate) fn volume(transfer: Transfer) -> DataVolume {
    DataVolume {
        uid: "uid-volume".to_owned(),
        created: at(0),
        deleting: false,
        transfer,
        progress: Some("42.10%".to_owned()),
        restarts: 0,
        not_running: None,
        over_quota: None,
        prepopulated: transfer == Transfer::Succeeded,
    }
}

pub(crate) fn claim() -> Claim {
    Claim { uid: "uid-claim".to_owned(), deleting: false, bound: true, lost: false, owned: true }
}

pub(crate) fn snapshot(ready: bool) -> Snapshot {
    Snapshot {
        uid: "uid-snapshot".to_owned(),
        created: at(10),
        deleting: false,
        ready,
        unready_for: None,
        error: None,
        content_lost: false,
        restore_size: None,
    }
}

pub(crate) fn source() -> DataSource {
    DataSource { uid: "uid-source".to_owned(), deleting: false, target: Some(DataTarget::Snapshot) }
}

/// All objects of a ready image.
pub(crate) fn complete() -> Backing {
    Backing {
        data_volume: Found::Ours(volume(Transfer::Succeeded)),
        claim: Found::Ours(claim()),
        snapshot: Found::Ours(snapshot(true)),
        data_source: Found::Ours(source()),
        ..Backing::empty()
    }
}

/// A pass of an image, with all that it may know.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) now: Timestamp,
    pub(crate) settings: Settings,
    pub(crate) image: Image,
    pub(crate) backing: Backing,
    pub(crate) live: bool,
    pub(crate) references: References,
    pub(crate) turn: Turn,
    pub(crate) corrections: Corrections,
}

impl Case {
    /// An image without a status and without objects, whose turn it is.
    pub(crate) fn new() -> Self {
        Self {
            now: at(100),
            settings: Settings::default(),
            image: image(),
            backing: Backing::empty(),
            live: false,
            references: References::default(),
            turn: Turn::Given,
            corrections: Corrections::default(),
        }
    }

    /// An image in this phase, for this reason.
    pub(crate) fn in_phase(phase: ImagePhase, reason: Reason) -> Self {
        let mut case = Self::new();
        case.image.status.phase = Some(phase);
        case.image.status.reason = Some(reason);
        case.image.status.queued_at = Some(at(0));
        case
    }

    /// An image whose data is imported.
    pub(crate) fn syncing(volume: DataVolume) -> Self {
        let mut case = Self::in_phase(ImagePhase::Syncing, Reason::Syncing);
        case.image.status.sync_started_at = Some(at(0));
        case.image.status.data_volume = Some(volume.uid.clone());
        case.backing.data_volume = Found::Ours(volume);
        case.backing.claim = Found::Ours(claim());
        case
    }

    /// A ready image with all its objects.
    pub(crate) fn ready() -> Self {
        let mut case = Self::in_phase(ImagePhase::Ready, Reason::Synced);
        case.image.status.queued_at = None;
        case.image.status.ready_at = Some(at(20));
        case.image.status.message = "machines can clone the image".to_owned();
        case.image.status.source_volume_lost = Some(false);
        case.backing = complete();
        case.image.status.unreferenced_since = Some(at(20));
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

    pub(crate) fn world(&self) -> World<'_> {
        World {
            now: self.now,
            settings: &self.settings,
            image: &self.image,
            backing: &self.backing,
            backing_is_live: self.live,
            references: &self.references,
            turn: self.turn,
            corrections: &self.corrections,
            uptime: Duration::from_hours(1),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.world())
    }
}

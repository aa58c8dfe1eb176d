//! The plan while it is made.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;

use super::types::{ImageAction, ImagePassInput, ImagePlan, PlannedEvent, RequiredReads};
use crate::failure::DiskImageReason;
use crate::model::{BackingDataVolume, DeletionBlocked, DiskImageStatus, name_references};

/// The UID of the claim of the current import, as stored. While an image is queued, it is that of an earlier
/// import: a leader that exits after it has created the next DataVolume leaves it.
fn stored_claim<'a>(world: &ImagePassInput<'a>) -> Option<&'a String> {
    let status = &world.image.status;
    let volume = world.backing.data_volume.ours();
    let is_earlier = status.phase == Some(ImagePhase::Queued)
        && volume.is_some_and(|volume| status.data_volume.as_ref() != Some(&volume.uid));
    status.claim.as_ref().filter(|_| !is_earlier)
}

/// The message of an image that waits for its turn. The stored status thereby shows that the event was
/// published, so that another leader does not repeat it.
pub(super) const WAITS: &str = "as many images as diskImage.maxConcurrentSyncs, or of the namespace diskImage.maxConcurrentSyncsPerNamespace, allows are imported; the import waits for its turn";

pub(super) struct Pass<'a> {
    pub(super) world: &'a ImagePassInput<'a>,
    pub(super) status: DiskImageStatus,
    pub(super) reads: RequiredReads,
    actions: Vec<ImageAction>,
    again: Option<Duration>,
    events: Vec<PlannedEvent>,
}

impl<'a> Pass<'a> {
    /// Begins with the stored status, the counted references and the UIDs of the objects.
    pub(super) fn begin(world: &'a ImagePassInput<'a>) -> Self {
        let mut status = world.image.status.clone();
        status.clamp_future_times(world.now);
        let backing = world.backing;
        status.counts = world.references.counts;
        status.references = world.references.list.iter().take(20).cloned().collect();
        let or_stored = |found: Option<String>, stored: Option<String>| found.or(stored);
        status.data_volume =
            or_stored(backing.data_volume.ours().map(|found| found.uid.clone()), status.data_volume);
        // The claim of an import is the first one that was seen. What is in a later one, nothing says.
        let found = backing.claim.ours().map(|found| found.uid.clone());
        status.claim = or_stored(stored_claim(world).cloned(), found);
        status.snapshot = backing.snapshot.ours().map(|found| found.uid.clone());
        status.data_source = backing.data_source.ours().map(|found| found.uid.clone());
        Self {
            world,
            status,
            reads: RequiredReads::default(),
            actions: Vec::new(),
            again: None,
            events: Vec::new(),
        }
    }

    pub(super) fn act(&mut self, action: ImageAction) {
        self.actions.push(action);
    }

    /// Whether the plan deletes the object with this UID.
    pub(super) fn deletes(&self, object: &str) -> bool {
        self.actions.iter().any(|action| match action {
            ImageAction::DeleteDataVolume { uid }
            | ImageAction::DeleteSnapshot { uid }
            | ImageAction::DeleteDataSource { uid } => uid == object,
            _ => false,
        })
    }

    /// Looks again after this time at the latest.
    pub(super) fn again(&mut self, after: Duration) {
        // A time of zero would be a pass without a pause.
        let after = after.max(Duration::from_secs(1));
        self.again = Some(self.again.map_or(after, |earlier| earlier.min(after)));
    }

    pub(super) fn event(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(PlannedEvent { warning: false, reason, message: message.into() });
    }

    pub(super) fn warn(&mut self, reason: &'static str, message: impl Into<String>) {
        self.events.push(PlannedEvent { warning: true, reason, message: message.into() });
    }

    pub(super) fn now(&self) -> Timestamp {
        self.world.now
    }

    /// Whether the claim is usable, and the one of the current import. The data in it need not be complete.
    pub(super) fn claim_is_known(&self) -> bool {
        let stored = stored_claim(self.world);
        let claim = self.world.backing.usable_claim();
        claim.is_some_and(|claim| stored.is_none_or(|stored| *stored == claim.uid))
    }

    /// The DataVolume, if all data is in its claim, and the claim is that of the import.
    pub(super) fn complete(&self) -> Option<&'a BackingDataVolume> {
        self.world.backing.complete().filter(|_| self.claim_is_known())
    }

    /// Whether all data of the image is in its claim. The DataVolume of an image that was ready may be gone:
    /// CDI can remove it after its success, and the claim stays.
    pub(super) fn has_data(&self) -> bool {
        let was_ready = self.status.ready_at.is_some() && self.world.backing.data_volume.is_missing();
        self.complete().is_some() || (was_ready && self.claim_is_known())
    }

    /// How long the correction of an object has to wait, because another client changes it again and again.
    pub(super) fn correction_waits(&self, object_uid: &str) -> Option<Duration> {
        self.world.corrections.left(object_uid, self.world.uptime)
    }

    /// Time since a moment. A moment in the future counts as now.
    pub(super) fn since(&self, moment: Timestamp) -> Duration {
        Duration::try_from(self.world.now.duration_since(moment)).unwrap_or_default()
    }

    /// Sets phase, reason and message.
    pub(super) fn set(&mut self, phase: ImagePhase, reason: DiskImageReason, message: impl Into<String>) {
        self.status.phase = Some(phase);
        self.status.reason = Some(reason);
        self.status.message = message.into();
    }

    /// The plan, with the events that follow from the change of the status.
    pub(super) fn end(mut self) -> ImagePlan {
        self.add_transitions();
        ImagePlan {
            actions: self.actions,
            status: self.status,
            reads: self.reads,
            again: self.again,
            events: self.events,
        }
    }

    fn add_transitions(&mut self) {
        let before = &self.world.image.status;
        let (reason, message) = (self.status.reason, self.status.message.clone());
        let entered = |phase| self.status.phase == Some(phase) && before.phase != Some(phase);
        let new_reason = |wanted| reason == Some(wanted) && before.reason != Some(wanted);
        let mut events: Vec<(bool, &'static str, String)> = Vec::new();
        if entered(ImagePhase::Queued) && reason == Some(DiskImageReason::Queued) {
            events.push((false, "Queued", message.clone()));
        }
        if message == WAITS && before.message != WAITS {
            events.push((false, "WaitingToSync", message.clone()));
        }
        if self.status.transfers() && !before.transfers() {
            events.push((false, "SyncStarted", message.clone()));
        }
        if self.status.is_ready() && !before.is_ready() {
            let healed = before.reason.is_some_and(|reason| {
                matches!(reason, DiskImageReason::SnapshotLost | DiskImageReason::BackingDataLost)
            }) || (before.ready_at.is_none() && before.heal_count > 0);
            let name = if healed { "Healed" } else { "SyncCompleted" };
            events.push((false, name, message.clone()));
        }
        if self.status.failures > before.failures {
            let creation = reason == Some(DiskImageReason::ResourceCreationFailed);
            let name = if creation { "ResourceCreationFailed" } else { "SyncErrorOccurred" };
            events.push((true, name, message.clone()));
        }
        if entered(ImagePhase::Failed) {
            events.push((true, "SyncFailed", message.clone()));
        }
        if self.status.heal_count > before.heal_count {
            events.push((true, "Healing", message.clone()));
        }
        if new_reason(DiskImageReason::NameConflict) {
            events.push((true, "NameConflict", message));
        }
        let in_use = Some(DeletionBlocked::InUse);
        if self.status.deletion == in_use
            && (before.deletion != in_use || before.counts != self.status.counts)
        {
            let names = name_references(&self.world.references.list);
            events.push((true, "DeletionBlocked", format!("the deletion waits for {names}")));
        }
        if before.deletion == in_use && self.status.deletion != in_use {
            events.push((false, "DeletionUnblocked", "no object refers to the image".to_owned()));
        }
        self.events.extend(events.into_iter().map(|(warning, reason, message)| PlannedEvent {
            warning,
            reason,
            message,
        }));
    }
}

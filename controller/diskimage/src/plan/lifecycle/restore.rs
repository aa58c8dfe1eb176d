//! A ready image whose data or objects are lost.

use std::time::Duration;

use vmpool_api::diskimage::values::ImagePhase;

use super::super::pass::Pass;
use super::super::types::ImageAction;
use super::attempt::{RECHECK, enqueue_import};
use super::snapshot;
use crate::failure::DiskImageReason;
use crate::model::{DataTarget, Transfer};

/// More restorations within [`PERIOD`] mean that the storage loses data. Each could be a download.
const MAX_HEALS: usize = 5;
const PERIOD: Duration = Duration::from_hours(24);

pub(super) fn plan_ready_image(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    let claim = claim_is_complete(pass);
    let target = if backing.snapshots_served { DataTarget::Snapshot } else { DataTarget::Claim };
    let (usable, grace) = match target {
        DataTarget::Claim => (claim, None),
        DataTarget::Snapshot => snapshot_state(pass),
    };
    if usable {
        pass.status.source_volume_lost = (target == DataTarget::Snapshot).then_some(!claim);
        mark_prepopulated(pass);
        return republish_data_source(pass, target);
    }
    if claim && has_only_its_claim(pass) {
        mark_prepopulated(pass);
        republish_data_source(pass, DataTarget::Claim);
        return snapshot::take_first_snapshot(pass);
    }
    if let Some(left) = grace {
        return pass.again(left);
    }
    if !pass.world.backing_is_live {
        pass.reads.backing = true;
        return pass.again(RECHECK);
    }
    restore_lost_data(pass, claim);
}

/// An image that was ready, and is not in the phase Ready: because of a name conflict, for example, or while
/// its snapshot is taken again. If its snapshot can be cloned, or machines have always cloned its claim, the
/// image is ready. If only the snapshot has the data, and may recover, it is kept. Returns whether this was
/// decided here.
pub(super) fn restore_ready_phase(pass: &mut Pass<'_>) -> bool {
    if pass.status.ready_at.is_none() || !pass.world.backing.snapshots_served {
        return false;
    }
    match snapshot_state(pass) {
        (true, _) => plan_ready_image(pass),
        (false, _) if claim_is_complete(pass) && has_only_its_claim(pass) => plan_ready_image(pass),
        (false, Some(left)) if !claim_is_complete(pass) => {
            let text = "the claim is lost, and the controller waits until the snapshot is ready again";
            pass.set(ImagePhase::Syncing, DiskImageReason::SnapshotPending, text);
            pass.again(left);
        }
        (false, _) => return false,
    }
    true
}

/// Whether all data is in the claim. CDI may remove the DataVolume after its success.
fn claim_is_complete(pass: &Pass<'_>) -> bool {
    let backing = pass.world.backing;
    let volume = match backing.data_volume.ours() {
        Some(volume) => volume.transfer == Transfer::Succeeded && !volume.deleting,
        None => true,
    };
    volume && pass.claim_is_known()
}

/// Whether machines can clone the snapshot, and if not, how long it may still recover.
fn snapshot_state(pass: &Pass<'_>) -> (bool, Option<Duration>) {
    let Some(snapshot) = pass.world.backing.snapshot.ours() else { return (false, None) };
    if snapshot.deleting || snapshot.content_lost {
        return (false, None);
    }
    // The snapshot controller also reports passing problems of a snapshot that can be cloned. Another one
    // that has an error may recover, but is taken again at once if the claim has the data.
    if snapshot.error.is_some() && !snapshot.ready && claim_is_complete(pass) {
        return (false, None);
    }
    let grace = pass.world.settings.snapshot_unready_grace;
    let left = grace.saturating_sub(snapshot.unready_for.unwrap_or_default());
    (snapshot.ready, Some(left).filter(|left| !snapshot.ready && *left > Duration::ZERO))
}

fn mark_prepopulated(pass: &mut Pass<'_>) {
    let volume = pass.world.backing.data_volume.ours().filter(|volume| !volume.deleting);
    if let Some(volume) = volume.filter(|volume| !volume.prepopulated) {
        pass.act(ImageAction::MarkPrepopulated { uid: volume.uid.clone() });
    }
}

/// The data is there. A lost or edited DataSource is written again, and the image stays ready.
fn republish_data_source(pass: &mut Pass<'_>, target: DataTarget) {
    let source = pass.world.backing.data_source.ours();
    if source.is_some_and(|source| source.deleting) {
        return pass.again(RECHECK);
    }
    if snapshot::is_contested(pass, target) {
        return;
    }
    let current = source.and_then(|source| source.target);
    let gets_first_snapshot = current == Some(DataTarget::Claim) && has_only_its_claim(pass);
    if current != Some(target) && !gets_first_snapshot {
        let message = "the DataSource was lost or edited, and is written again";
        pass.warn("Healing", message);
    }
    snapshot::publish_data_source(pass, target);
}

/// The data that is left stays.
pub(super) fn set_heal_limit_exceeded(pass: &mut Pass<'_>) {
    let message =
        format!("data of the image was lost more than {MAX_HEALS} times within 24 hours; check the storage");
    pass.set(ImagePhase::Failed, DiskImageReason::HealLimitExceeded, message);
}

/// Whether the image was ready and has never had a usable snapshot, because the cluster serves snapshots only
/// since its import. Only an image with a snapshot can lose its claim and stay ready, so only its status says
/// whether it has.
pub(super) fn has_only_its_claim(pass: &Pass<'_>) -> bool {
    let status = &pass.world.image.status;
    let source = pass.world.backing.data_source.ours().and_then(|source| source.target);
    let had_snapshot = source == Some(DataTarget::Snapshot) || status.source_volume_lost.is_some();
    status.ready_at.is_some() && !had_snapshot
}

/// Counts a restoration. Returns false if there were too many, so that nothing is restored.
pub(super) fn count_restoration(pass: &mut Pass<'_>) -> bool {
    let now = pass.now();
    let mut times = std::mem::take(&mut pass.status.heal_times);
    times.retain(|time| pass.since(*time) < PERIOD);
    let is_first = times.len() < MAX_HEALS;
    if is_first {
        times.push(now);
        pass.status.heal_count = pass.status.heal_count.saturating_add(1);
        pass.status.source_volume_lost = None;
    }
    pass.status.heal_times = times;
    is_first
}

fn restore_lost_data(pass: &mut Pass<'_>, claim_is_complete: bool) {
    let now = pass.now();
    if !count_restoration(pass) {
        return set_heal_limit_exceeded(pass);
    }
    let backing = pass.world.backing;
    let snapshot = backing.snapshot.ours();
    if let Some(snapshot) = snapshot.filter(|snapshot| !snapshot.deleting) {
        pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
    }
    if claim_is_complete && backing.snapshots_served {
        if snapshot.is_none() {
            pass.act(ImageAction::CreateSnapshot);
        }
        pass.status.queued_at = Some(now);
        pass.set(
            ImagePhase::Syncing,
            DiskImageReason::SnapshotLost,
            "the snapshot was lost, and is taken again from the claim",
        );
    } else {
        if let Some(volume) = backing.data_volume.ours().filter(|volume| !volume.deleting) {
            pass.act(ImageAction::DeleteDataVolume { uid: volume.uid.clone() });
        }
        enqueue_import(pass, DiskImageReason::BackingDataLost, "the data was lost, and is imported again");
    }
    pass.again(RECHECK);
}

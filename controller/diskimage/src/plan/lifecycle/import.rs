//! From the queue to the end of the transfer, and the wait after a failure.

use std::time::Duration;

use vmpool_api::diskimage::values::ImagePhase;

use super::super::pass::{Pass, WAITS};
use super::super::types::{ImageAction, QueueDecision};
use super::attempt::{RECHECK, delete_failed_data_volume, end_attempt, fail_attempt, time_left};
use super::snapshot;
use crate::failure::{DiskImageReason, is_missing_artifact, without_queries};
use crate::model::{BackingDataVolume, Transfer};

/// The image waits for its turn, and for the end of its former objects.
pub(super) fn plan_queued_import(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    let reason = match pass.status.reason {
        Some(DiskImageReason::BackingDataLost) => DiskImageReason::BackingDataLost,
        _ => DiskImageReason::Queued,
    };
    if let Some(problem) = &pass.world.image.invalid {
        return pass.set(ImagePhase::Queued, DiskImageReason::ResourceCreationFailed, problem.clone());
    }
    if !backing.importer_served {
        let message =
            "the cluster does not serve the kinds DataVolume and DataSource of cdi.kubevirt.io; install CDI";
        pass.set(ImagePhase::Queued, DiskImageReason::ResourceCreationFailed, message);
        return pass.again(RECHECK);
    }
    if pass.has_data() {
        // The controller exited after the import, or a failed image with its data is tried again: no further
        // transfer.
        pass.status.sync_started_at = Some(pass.now());
        return snapshot::take_snapshot(pass);
    }
    if let Some(volume) = backing.data_volume.ours() {
        // The controller exited between the create and the status.
        if volume.transfer == Transfer::InProgress && !volume.deleting && !has_kept_claim(pass) {
            return start_attempt(pass);
        }
    }
    if let Some(left) = delete_import_leftovers(pass) {
        pass.set(
            ImagePhase::Queued,
            reason,
            format!("the import waits until {left} of an earlier import is gone"),
        );
        return pass.again(RECHECK);
    }
    match pass.world.queue_decision {
        QueueDecision::MayStart => {}
        QueueDecision::MustWait => return pass.set(ImagePhase::Queued, reason, WAITS),
        QueueDecision::NotAsked => {
            return pass.set(ImagePhase::Queued, reason, "the import waits for its turn");
        }
    }
    // While the image waited, the status got the UIDs of the objects that had to go first.
    end_attempt(&mut pass.status);
    pass.status.ready_at = None;
    pass.act(ImageAction::CreateDataVolume);
    start_attempt(pass);
}

fn start_attempt(pass: &mut Pass<'_>) {
    pass.status.sync_started_at = Some(pass.now());
    pass.set(ImagePhase::Syncing, DiskImageReason::Syncing, describe_transfer(pass));
    pass.again(attempt_limit(pass).min(time_left(pass)));
}

/// What the import does, or waits for.
fn describe_transfer(pass: &Pass<'_>) -> String {
    let image = pass.world.image;
    if image.upload {
        let name = &image.key.name;
        return format!(
            "the image waits for its data; send it to the DataVolume {name}, for example with `virtctl image-upload dv {name} \
             --no-create --image-path=FILE`"
        );
    }
    "the data is imported".to_owned()
}

/// How long one attempt may take. A user may send the data at any time, so only the limit of all attempts
/// ends an upload.
fn attempt_limit(pass: &Pass<'_>) -> Duration {
    let settings = pass.world.settings;
    if pass.world.image.upload { settings.max_sync_duration } else { settings.max_attempt_duration }
}

/// Removes what is left of an earlier import, and names the first object that is still there.
fn delete_import_leftovers(pass: &mut Pass<'_>) -> Option<&'static str> {
    let backing = pass.world.backing;
    let volume = backing.data_volume.ours();
    let snapshot = backing.snapshot.ours();
    let left = match (volume, snapshot) {
        (Some(_), _) => "the DataVolume",
        (None, Some(_)) => "the VolumeSnapshot",
        (None, None) if backing.claim_is_leaving() => "the PersistentVolumeClaim",
        // The controller has no right to delete claims.
        (None, None) if backing.claim.ours().is_some() => "the PersistentVolumeClaim, which you must delete,",
        (None, None) => return None,
    };
    if !pass.world.backing_is_live {
        // A cache that is behind may lack the claim of a complete import.
        pass.reads.backing = true;
        return Some(left);
    }
    if let Some(snapshot) = snapshot.filter(|snapshot| !snapshot.deleting) {
        pass.act(ImageAction::DeleteSnapshot { uid: snapshot.uid.clone() });
    }
    if let Some(volume) = volume.filter(|volume| !volume.deleting) {
        pass.act(ImageAction::DeleteDataVolume { uid: volume.uid.clone() });
    }
    Some(left)
}

/// The image is imported, or its snapshot is taken.
pub(super) fn plan_syncing_import(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    if pass.has_data() {
        return snapshot::take_snapshot(pass);
    }
    match backing.data_volume.ours().filter(|volume| !volume.deleting) {
        Some(volume) => plan_transfer(pass, volume),
        None if pass.status.data_volume.is_none()
            && backing.claim.ours().is_some()
            && !pass.world.backing_is_live =>
        {
            // The cache may lack the DataVolume of this claim.
            pass.reads.backing = true;
        }
        None if pass.status.data_volume.is_none() && backing.claim.ours().is_none() => {
            // The create is not confirmed. Its repetition finds the object if the API server has it.
            pass.act(ImageAction::CreateDataVolume);
            pass.set(ImagePhase::Syncing, DiskImageReason::Syncing, describe_transfer(pass));
            pass.again(RECHECK);
        }
        None => fail_attempt(
            pass,
            DiskImageReason::UnknownSyncFailure,
            "the DataVolume was deleted during the import",
        ),
    }
}

/// Whether the claim has no DataVolume as its owner: a user has deleted the DataVolume and kept the claim.
/// CDI does not import into such a claim.
fn has_kept_claim(pass: &Pass<'_>) -> bool {
    pass.world.backing.claim.ours().is_some_and(|claim| !claim.owned)
}

fn plan_transfer(pass: &mut Pass<'_>, volume: &BackingDataVolume) {
    let claim = pass.world.backing.claim.ours();
    let claim_was_there = pass.world.image.status.claim.as_ref();
    let problem = volume.problem();
    // The reason of the condition is a word of CDI, and no answer of the source.
    let answer = volume.not_running.as_ref().map_or("", |stopped| &stopped.message);
    if is_missing_artifact(answer) {
        return fail_attempt(pass, DiskImageReason::MissingSourceArtifact, &problem);
    }
    if volume.transfer == Transfer::Failed {
        let text = if problem.is_empty() { "CDI reports that the import failed" } else { &problem };
        return fail_attempt(pass, DiskImageReason::UnknownSyncFailure, text);
    }
    // A create that arrived late can have created the DataVolume again.
    if volume.transfer == Transfer::InProgress && has_kept_claim(pass) {
        if !pass.world.backing_is_live {
            pass.reads.backing = true;
            return pass.again(RECHECK);
        }
        let message = "CDI does not import into the PersistentVolumeClaim, because a user has kept it";
        return fail_attempt(pass, DiskImageReason::UnknownSyncFailure, message);
    }
    if claim_was_there.is_some_and(|uid| claim.is_none_or(|claim| claim.uid != *uid || claim.lost)) {
        return fail_attempt(
            pass,
            DiskImageReason::UnknownSyncFailure,
            "the PersistentVolumeClaim was lost during the import",
        );
    }
    // CDI does not create the claim of a DataVolume that has succeeded again, so no event would follow.
    if volume.transfer == Transfer::Succeeded && claim.is_none() {
        if !pass.world.backing_is_live {
            pass.reads.backing = true;
            return pass.again(RECHECK);
        }
        return fail_attempt(
            pass,
            DiskImageReason::UnknownSyncFailure,
            "the PersistentVolumeClaim was lost after the import",
        );
    }
    if exceeds_limits(pass, volume) {
        return;
    }
    let elapsed = running_for(pass);
    pass.status.progress.clone_from(&volume.progress);
    let text = if problem.is_empty() { describe_transfer(pass) } else { without_queries(&problem) };
    pass.set(ImagePhase::Syncing, DiskImageReason::Syncing, text);
    pass.again(attempt_limit(pass).saturating_sub(elapsed).min(time_left(pass)));
}

/// Time since the attempt began. One whose beginning is not recorded begins now: the creation time of its
/// DataVolume is that of the API server, whose clock can differ.
fn running_for(pass: &mut Pass<'_>) -> Duration {
    let now = pass.now();
    let started = *pass.status.sync_started_at.get_or_insert(now);
    pass.since(started)
}

/// Ends an attempt that takes too long, also together with earlier ones, or whose transfer was restarted too
/// often. Returns whether it did.
pub(super) fn exceeds_limits(pass: &mut Pass<'_>, volume: &BackingDataVolume) -> bool {
    let settings = pass.world.settings;
    let problem = volume.problem();
    if volume.restarts >= settings.max_attempt_restarts {
        let text = format!("the import was restarted {} times. {problem}", volume.restarts);
        fail_attempt(pass, DiskImageReason::RetryLimitExceeded, text.trim_end());
        return true;
    }
    let elapsed = running_for(pass);
    if time_left(pass).is_zero() {
        let text = format!("the attempt was still running. {problem}");
        fail_attempt(pass, DiskImageReason::SyncAttemptDurationExceeded, text.trim_end());
        return true;
    }
    let limit = attempt_limit(pass);
    if elapsed < limit {
        return false;
    }
    let minutes = limit.as_secs() / 60;
    let text = format!("the attempt took longer than {minutes} minutes. {problem}");
    fail_attempt(pass, DiskImageReason::SyncAttemptDurationExceeded, text.trim_end());
    true
}

/// The image waits after a failure.
pub(super) fn plan_next_attempt(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    delete_failed_data_volume(pass);
    let failed = pass.status.last_failure.unwrap_or(pass.now());
    let left = pass.world.settings.backoff(pass.status.failures).saturating_sub(pass.since(failed));
    if left > Duration::ZERO {
        return pass.again(left);
    }
    if pass.has_data() {
        pass.status.sync_started_at = Some(pass.now());
        return snapshot::take_snapshot(pass);
    }
    if backing.data_volume.ours().is_some() {
        return pass.again(RECHECK);
    }
    end_attempt(&mut pass.status);
    pass.set(ImagePhase::Queued, DiskImageReason::Queued, "the import waits for its turn");
    plan_queued_import(pass);
}

//! Beginning and end of an import and of its attempts.

use std::time::Duration;

use vmpool_api::diskimage::values::ImagePhase;

use super::super::pass::Pass;
use super::super::types::ImageAction;
use crate::failure::{DiskImageReason, without_queries};
use crate::model::DiskImageStatus;

/// How often a pass looks at a state that no event announces.
pub(super) const RECHECK: Duration = Duration::from_mins(1);

/// Begins an import: the queue, the attempts and their deadline start anew.
pub(super) fn enqueue_import(pass: &mut Pass<'_>, reason: DiskImageReason, message: &str) {
    pass.set(ImagePhase::Queued, reason, message);
    pass.status.queued_at = Some(pass.now());
    pass.status.failures = 0;
    pass.status.last_failure = None;
    pass.status.ready_at = None;
    end_attempt(&mut pass.status);
}

/// Clears what belongs to one attempt.
pub(super) fn end_attempt(status: &mut DiskImageStatus) {
    status.sync_started_at = None;
    status.progress = None;
    status.data_volume = None;
    status.claim = None;
}

/// Ends the attempt. The DataVolume goes, unless its data is complete; the finalizer stays.
pub(super) fn fail_attempt(pass: &mut Pass<'_>, reason: DiskImageReason, message: &str) {
    debug_assert!(DiskImageReason::OF_ATTEMPTS.contains(&reason), "metrics have no series for {reason}");
    let message = without_queries(message);
    let now = pass.now();
    pass.status.failures = pass.status.failures.saturating_add(1);
    pass.status.last_failure = Some(now);
    let left = time_left(pass);
    // Only the snapshot of complete data is tried again, from the same claim.
    let complete = pass.has_data().then(|| (pass.status.data_volume.take(), pass.status.claim.take()));
    end_attempt(&mut pass.status);
    (pass.status.data_volume, pass.status.claim) = complete.unwrap_or_default();
    if left.is_zero() {
        set_failed(pass, &message);
    } else {
        pass.set(ImagePhase::RetryableFailure, reason, message);
        pass.again(pass.world.settings.backoff(pass.status.failures).min(left));
    }
    delete_failed_data_volume(pass);
}

fn set_failed(pass: &mut Pass<'_>, last_failure: &str) {
    let minutes = pass.world.settings.max_sync_duration.as_secs() / 60;
    let text =
        format!("all attempts together took longer than {minutes} minutes; the last failure: {last_failure}");
    pass.set(ImagePhase::Failed, DiskImageReason::SyncDeadlineExceeded, text);
}

/// The time in which data may still be transferred: what is left of `max_sync_duration` since the image was
/// queued. The first attempt gets all of it, however long the image waited for its turn.
pub(super) fn time_left(pass: &Pass<'_>) -> Duration {
    let status = &pass.status;
    let begin = if status.failures == 0 { status.sync_started_at } else { status.queued_at };
    let elapsed = begin.map_or(Duration::ZERO, |begin| pass.since(begin));
    pass.world.settings.max_sync_duration.saturating_sub(elapsed)
}

/// Ends an import that waits for its next attempt when the time for all attempts is over. Returns whether it
/// did. Without the next attempt, nothing would notice the end of that time, and an attempt that begins later
/// would exceed it.
///
/// Complete data needs no transfer: its snapshot is taken at any time.
pub(super) fn end_import_at_deadline(pass: &mut Pass<'_>) -> bool {
    if pass.status.failures == 0 || pass.has_data() {
        return false;
    }
    let left = time_left(pass);
    if !left.is_zero() {
        pass.again(left);
        return false;
    }
    let last_failure = std::mem::take(&mut pass.status.message);
    end_attempt(&mut pass.status);
    set_failed(pass, &last_failure);
    delete_failed_data_volume(pass);
    true
}

/// Deletes a DataVolume of a failed attempt. Complete data stays: only its snapshot is tried again.
pub(super) fn delete_failed_data_volume(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    if pass.complete().is_some() || pass.status.reason == Some(DiskImageReason::HealLimitExceeded) {
        return;
    }
    if let Some(volume) = backing.data_volume.ours().filter(|volume| !volume.deleting) {
        pass.act(ImageAction::DeleteDataVolume { uid: volume.uid.clone() });
    }
}

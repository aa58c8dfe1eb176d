//! Beginning and end of an import and of its attempts.

use std::time::Duration;

use vmpool_api::diskimage::values::ImagePhase;

use super::super::pass::Pass;
use super::super::types::Action;
use crate::failure::{Reason, without_queries};
use crate::model::Status;

/// How often a pass looks at a state that no event announces.
pub(super) const RECHECK: Duration = Duration::from_mins(1);

/// Begins an import: the queue, the attempts and their deadline start anew.
pub(super) fn enqueue(pass: &mut Pass<'_>, reason: Reason, message: &str) {
    pass.set(ImagePhase::Queued, reason, message);
    pass.status.queued_at = Some(pass.now());
    pass.status.failures = 0;
    pass.status.last_failure = None;
    pass.status.ready_at = None;
    end_attempt(&mut pass.status);
}

/// Clears what belongs to one attempt.
pub(super) fn end_attempt(status: &mut Status) {
    status.sync_started_at = None;
    status.progress = None;
    status.data_volume = None;
    status.claim = None;
}

/// Ends the attempt. The DataVolume goes, unless its data is complete; the finalizer stays.
pub(super) fn fail(pass: &mut Pass<'_>, reason: Reason, message: &str) {
    debug_assert!(Reason::OF_ATTEMPTS.contains(&reason), "metrics have no series for {reason}");
    let message = without_queries(message);
    let now = pass.now();
    pass.status.failures = pass.status.failures.saturating_add(1);
    pass.status.last_failure = Some(now);
    let queued = pass.status.queued_at.unwrap_or(now);
    let limit = pass.world.settings.max_sync_duration;
    let late = pass.since(queued) >= limit;
    // Only the snapshot of complete data is tried again, from the same claim.
    let complete = pass.has_data().then(|| (pass.status.data_volume.take(), pass.status.claim.take()));
    end_attempt(&mut pass.status);
    (pass.status.data_volume, pass.status.claim) = complete.unwrap_or_default();
    if late {
        let minutes = limit.as_secs() / 60;
        let text =
            format!("all attempts together took longer than {minutes} minutes; the last failure: {message}");
        pass.set(ImagePhase::Failed, Reason::SyncDeadlineExceeded, text);
    } else {
        pass.set(ImagePhase::RetryableFailure, reason, message);
        pass.again(pass.world.settings.backoff(pass.status.failures));
    }
    discard(pass);
}

/// Deletes a DataVolume of a failed attempt. Complete data stays: only its snapshot is tried again.
pub(super) fn discard(pass: &mut Pass<'_>) {
    let backing = pass.world.backing;
    if pass.complete().is_some() || pass.status.reason == Some(Reason::HealLimitExceeded) {
        return;
    }
    if let Some(volume) = backing.data_volume.ours().filter(|volume| !volume.deleting) {
        pass.act(Action::DeleteDataVolume { uid: volume.uid.clone() });
    }
}

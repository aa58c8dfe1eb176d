//! The removal record: machines that must not be replaced, and entries that the controller can remove.

use std::time::Duration;

use super::action::{Action, Stage};
use super::observed::Observed;
use super::reservations::machine_uids;
use super::result::Plan;
use crate::backoff::MAX_BATCH;
use crate::ids::ObjectId;

/// While a target of an accepted removal still exists, the controller collects up to this number of entries of deleted
/// targets and removes them with one write. A large removal therefore needs few writes of the pool.
pub(super) const TOGETHER: usize = 100;

/// Removes finished entries: accepted targets that are gone, and reservations that were not accepted in time.
pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let record = &observed.pool.record;
    if record.is_empty() {
        return;
    }
    let mut expired = Vec::new();
    for request in record.requests() {
        match observed.memory.reservation_left(
            request,
            observed.settings.reservation_timeout,
            observed.uptime,
        ) {
            Some(left) => plan.requeue_in(left),
            None => expired.push(request.clone()),
        }
    }
    let present = machine_uids(observed);
    let (here, mut gone): (Vec<&ObjectId>, Vec<&ObjectId>) =
        record.may_leave().partition(|target| present.contains(&target.uid));
    if !here.is_empty() && gone.len() < TOGETHER {
        gone.clear();
    }
    if expired.is_empty() && gone.is_empty() {
        return;
    }
    plan.wants.clean_up = true;
    if let Err(left) = observed.memory.cleaning_up.batch_size(observed.uptime) {
        return plan.back_off(Stage::CleanUp, left);
    }
    // Both writes require the version of the pool that was read, so the second would be rejected.
    let opens = plan.actions.iter().any(|action| matches!(action, Action::OpenNameBlock { .. }));
    if opens || gone.len() > MAX_BATCH {
        plan.requeue_in(Duration::ZERO);
    }
    if !opens {
        let gone = gone.into_iter().take(MAX_BATCH).cloned().collect();
        plan.actions.push(Action::PruneRecord { gone, expired });
    }
}

#[cfg(test)]
mod tests;

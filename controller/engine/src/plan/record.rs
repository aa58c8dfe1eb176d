//! The record of machines that were named to be removed: what it holds back, and which of its entries may leave.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Blocker, Observed, Plan, Stage};
use crate::backoff::MAX_BATCH;
use crate::model::{ObjectId, Uid};

/// While a target of an accepted removal is still there, entries of others that are gone wait for company: so many
/// leave with one write. A large removal then costs few writes on the pool, and the record is no longer for it.
pub(super) const TOGETHER: usize = 100;

/// The reserved targets that are no members any more. They count as present, and the plan says that it waits for them.
pub(super) fn hold_vanished(observed: &Observed<'_>, plan: &mut Plan) -> usize {
    let record = &observed.pool.record;
    if record.is_empty() {
        return 0;
    }
    let present = members(observed);
    let vanished = record.reserved().filter(|target| !present.contains(&target.uid));
    let before = plan.blockers.len();
    plan.blockers.extend(vanished.map(|target| Blocker::Reservation { machine: target.name.clone() }));
    plan.blockers.len() - before
}

/// Takes out what is settled: accepted targets that are gone, and reservations that nobody accepts any more.
pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let record = &observed.pool.record;
    if record.is_empty() {
        return;
    }
    let mut expired = Vec::new();
    for request in record.requests() {
        match observed.memory.reservation_left(request, observed.uptime) {
            Some(left) => plan.look_again(left),
            None => expired.push(request.clone()),
        }
    }
    let present = members(observed);
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
        return plan.pause(Stage::CleanUp, left);
    }
    // Both are guarded by the version of the pool that was read: the second of them would be refused.
    let opens = plan.actions.iter().any(|action| matches!(action, Action::OpenNameBlock { .. }));
    if opens || gone.len() > MAX_BATCH {
        plan.look_again(Duration::ZERO);
    }
    if !opens {
        let gone = gone.into_iter().take(MAX_BATCH).cloned().collect();
        plan.actions.push(Action::PruneRecord { gone, expired });
    }
}

fn members<'a>(observed: &'a Observed<'_>) -> BTreeSet<&'a Uid> {
    observed.members().map(|member| &member.id.uid).collect()
}

#[cfg(test)]
mod tests;

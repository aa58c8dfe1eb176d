//! The record of machines that were named to be removed: what it holds back, and which of its entries may leave.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Observed, Plan, Stage, Wait};
use crate::model::{ObjectId, Uid};
use crate::pacing::FULL_WIDTH;

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
    let before = plan.waits.len();
    plan.waits.extend(vanished.map(|target| Wait::Reservation { machine: target.name.clone() }));
    plan.waits.len() - before
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
    plan.wants.record = true;
    if let Err(left) = observed.memory.recording.width(observed.uptime) {
        return plan.pause(Stage::Settle, left);
    }
    // Both are guarded by the version of the pool that was read: the second of them would be refused.
    let opens = plan.actions.iter().any(|action| matches!(action, Action::OpenBlock { .. }));
    if opens || gone.len() > FULL_WIDTH {
        plan.look_again(Duration::ZERO);
    }
    if !opens {
        let gone = gone.into_iter().take(FULL_WIDTH).cloned().collect();
        plan.actions.push(Action::Settle { gone, expired });
    }
}

fn members<'a>(observed: &'a Observed<'_>) -> BTreeSet<&'a Uid> {
    observed.members().map(|member| &member.id.uid).collect()
}

#[cfg(test)]
mod tests;

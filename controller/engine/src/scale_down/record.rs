//! The removal record: machines that must not be replaced, and entries that the controller can remove.
//!
//! While an entry is in the record, a repeated request is recognized. When it leaves the record, its name
//! must not return: a new leader begins with the first number of the name block, and the repeated request
//! would remove the new machine. The write that removes the entry therefore also moves the beginning of the
//! block behind its number.

use std::time::Duration;

use super::reservations::machine_uids;
use crate::backoff::MAX_BATCH;
use crate::ids::ObjectId;
use crate::model::Naming;
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::scale_up::names::{NameBlock, Namer};

/// While a target of an accepted removal still exists, the controller collects up to this number of entries
/// of deleted targets and removes them with one write. A large removal therefore needs few writes of the
/// pool.
pub(super) const PRUNE_BATCH: usize = 100;

/// Removes finished entries: accepted targets that are gone, and reservations that were not accepted in time.
pub(crate) fn plan_removal_record(observed: &ObservedPool<'_>, plan: &mut Plan) {
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
    if !here.is_empty() && gone.len() < PRUNE_BATCH {
        gone.clear();
    }
    let numbers = PrunableNumbers::of(observed);
    if let Some(numbers) = &numbers {
        let before = gone.len();
        gone.retain(|target| numbers.may_leave(target));
        if gone.len() < before
            && let Some(left) = observed.memory.former_creates_left(observed.uptime)
        {
            plan.requeue_in(left);
        }
    }
    if expired.is_empty() && gone.is_empty() {
        return;
    }
    plan.wants.clean_up = true;
    if let Err(left) = observed.memory.backoff(ApplyStage::CleanUp).batch_size(observed.uptime) {
        return plan.back_off(ApplyStage::CleanUp, left);
    }
    // Both writes require the version of the pool that was read, so the second would be rejected.
    let opens = plan.actions.iter().any(|action| matches!(action, PoolAction::OpenNameBlock { .. }));
    if opens || gone.len() > MAX_BATCH {
        plan.requeue_in(Duration::ZERO);
    }
    if !opens {
        let gone: Vec<ObjectId> = gone.into_iter().take(MAX_BATCH).cloned().collect();
        let block = numbers.and_then(|numbers| numbers.block_behind(&gone));
        plan.actions.push(PoolAction::PruneRecord { gone, expired, block });
    }
}

/// The numbers of a pool with random names.
struct PrunableNumbers {
    namer: Namer,
    block: NameBlock,
    /// The number from which this leader goes on.
    next: u64,
    /// The number below which no create can be under way, and which the block may therefore begin with.
    settled: u64,
}

impl PrunableNumbers {
    /// `None` without a name block, or if names are ordinals.
    fn of(observed: &ObservedPool<'_>) -> Option<Self> {
        let pool = observed.pool;
        let block = pool.name_block.filter(|_| pool.naming == Naming::Random)?;
        let next = observed.settled_numbers();
        // The numbers that this leader did not draw can be those of creates of the former leader. After the
        // timeout, only creates of this leader can be under way.
        let is_alone = observed.memory.former_creates_left(observed.uptime).is_none();
        let settled = if is_alone && observed.unconfirmed_creates.is_empty() { block.end } else { next };
        Some(Self { namer: Namer::new(&pool.id.name, &pool.id.uid), block, next, settled })
    }

    /// The number of a target, if the pool issued its name.
    fn number(&self, target: &ObjectId) -> Option<u64> {
        self.namer.number_of(&target.name).filter(|number| *number < self.block.end)
    }

    /// Whether no machine gets the name of the target again when its entry has left the record.
    fn may_leave(&self, target: &ObjectId) -> bool {
        self.number(target).is_none_or(|number| number < self.settled)
    }

    /// The name block without the numbers of these targets, and without those that are used up anyway; `None`
    /// if it has none of them.
    fn block_behind(&self, gone: &[ObjectId]) -> Option<NameBlock> {
        let used = gone.iter().filter_map(|target| Some(self.number(target)? + 1)).fold(self.next, u64::max);
        let first = used.min(self.block.end);
        (first > self.block.first).then_some(NameBlock { first, ..self.block })
    }
}

#[cfg(test)]
mod tests;

//! Rollout: which existing machines to update to the current revision.
//!
//! ```text
//!  outdated --Update--> written --the platform evaluates it--> evaluated --no restart pending--> RecordRevision --> current
//!                                                                    \--a restart is pending, for approval or in progress--/
//! ```
//!
//! The controller writes a revision and then only watches. The platform decides whether a change applies to a
//! running machine and when a machine restarts for it. The planner decides how many machines to update at the
//! same time. It updates a running machine only if the number of unavailable machines stays within the
//! disruption budget. Machines that do not run use no budget and come first. A machine of another controller
//! that only needs labels and annotations uses no budget either. Apply finds out whether that is so when it
//! reads the machine; if its spec differs, the machine waits for budget. The same holds if the revision of a
//! machine differs from the current one only in labels and annotations, so that these reach all machines at
//! once. In the same way, a protected machine that the platform would restart gets labels and annotations,
//! and waits without budget until it is no longer protected.
//!
//! If the API server rejects an update of a machine, the controller retries that machine after all others. If
//! the number of such machines reaches half of the budget and at least two, the rollout stops. The controller
//! then retries only these machines with backoff, and continues the rollout when one of them accepts the
//! revision.

mod devices;

pub(crate) use devices::{draft_machine_disks, lacks_device};

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::progress::{RolloutProgress, RolloutState};
use crate::disks::allocation::FreeDisks;
use crate::draining::{DrainPlanner, DrainReason};
use crate::ids::Uid;
use crate::membership::adoption;
use crate::model::{InstanceTransition, Machine, MachineActivity, Restarts};
use crate::plan::action::{ApplyStage, Disruption, PoolAction};
use crate::plan::blocker::ProtectedStep;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;
use crate::revisions::RevisionId;

pub(crate) fn plan_rollout<'a>(
    observed: &'a ObservedPool<'a>,
    free_disks: &mut FreeDisks<'_>,
    drains: &mut DrainPlanner<'a>,
    plan: &mut Plan,
) {
    let pool = observed.pool;
    if let Some(left) = observed.memory.rollout_attempts.next_overdue(observed.uptime) {
        plan.requeue_in(left);
    }
    // Until then, the machine uses budget. No watch event follows if the update was carried out before.
    if let Some(left) = observed.memory.rollout_attempts.next_confirmed(observed.uptime) {
        plan.requeue_in(left);
    }
    if !pool.validation_errors.is_empty() || pool.rollout.disabled {
        return;
    }
    let (mut outdated, mut unrecorded) = (Vec::new(), Vec::new());
    for machine in observed.pool_machines().filter(|machine| !machine.terminating) {
        if !pool.rollout.selection.includes(machine) {
            continue;
        }
        match RolloutState::of(pool, machine) {
            RolloutState::Outdated => outdated.push(machine),
            RolloutState::Unrecorded => unrecorded.push(machine),
            RolloutState::Current | RolloutState::InProgress | RolloutState::Stranded => {}
        }
    }
    if outdated.is_empty() && unrecorded.is_empty() {
        return;
    }
    let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
    outdated.retain(|machine| !leaving.contains(&machine.id.uid));
    unrecorded.retain(|machine| !leaving.contains(&machine.id.uid));
    record_effective_revision(observed, unrecorded, plan);
    if !outdated.is_empty() {
        update_outdated_machines(observed, free_disks, drains, outdated, plan);
    }
}

/// Records the revision on machines in which it is in effect.
fn record_effective_revision(
    observed: &ObservedPool<'_>,
    mut unrecorded: Vec<&Arc<Machine>>,
    plan: &mut Plan,
) {
    if unrecorded.is_empty() {
        return;
    }
    plan.wants.record_revision = true;
    let width = match observed.memory.backoff(ApplyStage::RecordRevision).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::RecordRevision, left),
    };
    if truncate_to_batch(&mut unrecorded, width, |a, b| a.id.cmp(&b.id)) {
        plan.requeue_in(Duration::ZERO);
    }
    let (current, by_platform) =
        (&observed.pool.revision.id, observed.pool.rollout.restarts == Restarts::ByPlatform);
    plan.actions.extend(unrecorded.into_iter().map(|machine| {
        // The name of the current revision also changes with settings that machines do not have. The instance
        // gets the name that its machine has.
        let written = machine.written.as_ref().filter(|_| !by_platform);
        PoolAction::RecordRevision {
            machine: machine.id.clone(),
            instance: machine.instance.as_ref().map(|instance| instance.id.uid.clone()),
            to: written.unwrap_or(current).clone(),
        }
    }));
}

/// Writes the revision to as many outdated machines as the budget and the backoff allow.
fn update_outdated_machines<'a>(
    observed: &'a ObservedPool<'a>,
    free_disks: &mut FreeDisks<'_>,
    drains: &mut DrainPlanner<'a>,
    outdated: Vec<&'a Arc<Machine>>,
    plan: &mut Plan,
) {
    let (pool, attempts) = (observed.pool, &observed.memory.rollout_attempts);
    let progress = RolloutProgress::of(observed);
    let (held, outdated): (Vec<_>, Vec<_>) =
        outdated.into_iter().partition(|machine| is_held_by_protection(observed, machine));
    let (marked, held): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|machine| may_differ_in_metadata_only(observed, machine));
    if !pool.rollout_stands_still() {
        protected::block_protected_step(observed, plan, ProtectedStep::Rollout, &held);
    }
    let (outdated, mut waiting): (Vec<_>, Vec<_>) = outdated.into_iter().partition(|machine| {
        adoption::has_placeholder(observed, machine)
            || !(pool.rollout_stands_still()
                || progress.stopped() && !attempts.refuses(&machine.id.uid, &pool.revision.id))
    });
    waiting.extend(marked);
    waiting.retain(|machine| may_need_metadata_only(observed, machine));
    if outdated.is_empty() && waiting.is_empty() {
        return;
    }
    plan.wants.update = true;
    let width = match observed.memory.backoff(ApplyStage::Update).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Update, left),
    };
    let mut remaining_budget = progress.remaining_budget();
    let (free, costly): (Vec<_>, Vec<_>) =
        outdated.into_iter().partition(|machine| needs_no_budget(observed, machine));
    // The first order decides which running machines get budget, the second one which of all machines are
    // updated first.
    let order = |a: &&Arc<Machine>, b: &&Arc<Machine>| compare_update_order(observed, a, b);
    let (same_spec, mut costly): (Vec<_>, Vec<_>) =
        costly.into_iter().partition(|machine| differs_in_metadata_only(observed, machine));
    waiting.extend(same_spec);
    costly.sort_unstable_by(order);
    let (placed, left): (Vec<_>, Vec<_>) = costly.into_iter().partition(|machine| {
        // It may already use budget, for example because of an earlier write.
        if progress.is_disrupted(observed, machine) {
            return !progress.is_budget_exceeded();
        }
        if progress.uses_budget(observed, machine) {
            return true;
        }
        let fits = remaining_budget > 0;
        remaining_budget -= usize::from(fits);
        fits
    });
    waiting.extend(left.into_iter().filter(|machine| may_need_metadata_only(observed, machine)));
    let marked: BTreeSet<&Uid> = waiting.iter().map(|machine| &machine.id.uid).collect();
    let mut chosen = [free, placed, waiting].concat();
    let more = truncate_to_batch(&mut chosen, width, order);
    let others = plan.actions.len();
    let mut stoppable = progress.stoppable();
    for machine in chosen {
        let disruption = match machine.activity {
            _ if marked.contains(&machine.id.uid) => Disruption::MetadataOnly,
            MachineActivity::Stopped => Disruption::NotRunning,
            _ if machine.is_protected(observed.now) && pool.rollout.restarts == Restarts::ByPlatform => {
                Disruption::ForApproval
            }
            MachineActivity::Running => Disruption::Budgeted,
            MachineActivity::Stopping | MachineActivity::NotRunning => Disruption::NotRunning,
        };
        let stops_guest = disruption == Disruption::Budgeted && pool.may_restart_for_update(machine);
        if stops_guest && !drains.is_drained(machine, DrainReason::Rollout, plan) {
            continue;
        }
        // A drained machine still serves, and others may have become unavailable since its drain began.
        let stops_service =
            stops_guest && !needs_no_budget(observed, machine) && !progress.is_disrupted(observed, machine);
        if stops_service {
            if stoppable == 0 {
                continue;
            }
            stoppable -= 1;
        }
        plan_machine_update(observed, free_disks, machine, disruption, plan);
    }
    if more && plan.actions.len() > others {
        // The next pass, which starts at once, plans the rest. If all of these are blocked, the rest is
        // blocked as well.
        plan.requeue_in(Duration::ZERO);
    }
    if let Some(left) = attempts.next_confirmed(observed.uptime) {
        plan.requeue_in(left);
    }
}

/// Whether a machine without budget may need only labels and annotations: another controller created it or it
/// is protected, its disks are those of the revision, and no read has shown another difference. A paused
/// rollout does not update these machines either.
fn may_need_metadata_only(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    !observed.pool.rollout_stands_still()
        && (adoption::is_anothers(observed, machine) || is_held_by_protection(observed, machine))
        && may_differ_in_metadata_only(observed, machine)
}

fn may_differ_in_metadata_only(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    !observed.memory.rollout_attempts.differs(&machine.id.uid, &observed.pool.revision.id)
        && devices::are_complete(observed, machine)
}

/// Whether an update changes only labels and annotations of the machine, because its revision has the spec of
/// the current one. Apply compares the machine itself, which a user may have changed.
fn differs_in_metadata_only(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let pool = observed.pool;
    let is_same = |written: &RevisionId| {
        matches!(
            pool.transition(Some(written), &pool.revision.id),
            InstanceTransition::None | InstanceTransition::Record
        )
    };
    machine.written.as_ref().is_some_and(is_same) && may_differ_in_metadata_only(observed, machine)
}

/// Whether the spec of the machine must not change, because it is protected and the platform would restart
/// it. An update can also make the platform restart a machine that needed an approval before; only a read
/// finds that out.
fn is_held_by_protection(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let attempts = &observed.memory.rollout_attempts;
    observed.pool.rollout.restarts == Restarts::ByPlatform
        && machine.activity != MachineActivity::Stopped
        && machine.is_protected(observed.now)
        && (machine.restarts_itself || attempts.differs(&machine.id.uid, &observed.pool.revision.id))
}

fn plan_machine_update(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Arc<Machine>,
    disruption: Disruption,
    plan: &mut Plan,
) {
    // Its disks need a repair first, and the update follows. The pass requests another one only if it
    // contains an action.
    if free_disks.is_repaired(&machine.id.name) {
        if !plan.actions.is_empty() {
            plan.requeue_in(Duration::ZERO);
        }
        return;
    }
    match draft_machine_disks(observed, free_disks, machine) {
        Ok(disks) => plan.actions.push(PoolAction::Update {
            machine: machine.id.clone(),
            base: find_merge_base(observed, machine),
            to: observed.pool.revision.id.clone(),
            disks,
            disruption,
        }),
        Err(blocker) => plan.blockers.push(blocker),
    }
}

/// The merge base of a machine: the revision that was last written to it, or else the one in effect.
pub(crate) fn find_merge_base(observed: &ObservedPool<'_>, machine: &Machine) -> Option<RevisionId> {
    machine
        .written
        .as_ref()
        .or(machine.effective_revision())
        .filter(|id| observed.stored.contains(id))
        .cloned()
}

/// Whether an update of the machine uses no budget, because it does not run, or because only a later restart
/// disrupts it.
fn needs_no_budget(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    observed.pool.rollout.restarts != Restarts::ByPlatform
        || machine.activity != MachineActivity::Running
        || adoption::has_placeholder(observed, machine)
}

/// The order of updates: first machines with an unresolved disk reference, which may refer to a foreign disk,
/// then machines that have not rejected the revision or whose rejection is the oldest, then machines that do
/// not run, then the oldest.
fn compare_update_order(observed: &ObservedPool<'_>, a: &Machine, b: &Machine) -> Ordering {
    let key = |machine: &Machine| {
        (
            !adoption::has_placeholder(observed, machine),
            observed.memory.rollout_attempts.refused_at(&machine.id.uid, &observed.pool.revision.id),
            machine.activity == MachineActivity::Running,
            machine.created,
        )
    };
    key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
}

/// Reduces `machines` to the first `width` in the given order. Returns whether any was left out. Only the
/// remaining machines are sorted, so that the pass stays linear.
fn truncate_to_batch<'a>(
    machines: &mut Vec<&'a Arc<Machine>>,
    width: usize,
    order: impl Fn(&&'a Arc<Machine>, &&'a Arc<Machine>) -> Ordering,
) -> bool {
    let more = width < machines.len();
    if more {
        if width > 0 {
            machines.select_nth_unstable_by(width, &order);
        }
        machines.truncate(width);
    }
    machines.sort_unstable_by(order);
    more
}

#[cfg(test)]
mod tests;

//! Which machines must drain before a step, which of them wait, and which drains end without it.
//!
//! The planners of the steps ask for each machine that they chose. This planner runs after them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::hooks::Draining;
use super::mark::{DrainMark, DrainReason};
use crate::ids::Uid;
use crate::model::{Machine, Restarts};
use crate::plan::action::{ApplyStage, DeleteReason, Disruption, PoolAction};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::{FinishedDrain, Plan};
use crate::rollout::progress::{RolloutProgress, RolloutState};

/// The machines that the planners of one pass chose for a step.
pub(crate) struct DrainPlanner<'a> {
    observed: &'a ObservedPool<'a>,
    /// The chosen machines that are draining. Their marks stay.
    chosen: BTreeSet<&'a Uid>,
    begun: Vec<PoolAction>,
}

/// Plans the drains that begin, and ends those whose step is not taken any more.
pub(crate) fn plan_drains(drains: DrainPlanner<'_>, plan: &mut Plan) {
    drains.plan(plan);
}

impl<'a> DrainPlanner<'a> {
    pub(crate) fn new(observed: &'a ObservedPool<'a>) -> Self {
        Self { observed, chosen: BTreeSet::new(), begun: Vec::new() }
    }

    /// Whether the step for which the machine was chosen can follow now. Otherwise the plan begins its drain,
    /// or waits for it.
    pub(crate) fn is_drained(
        &mut self,
        machine: &'a Arc<Machine>,
        reason: DrainReason,
        plan: &mut Plan,
    ) -> bool {
        let (observed, timeout) = (self.observed, self.observed.pool.drain_timeout);
        let Some(draining) = machine.draining.as_ref() else { return true };
        if draining.mark.is_some() {
            self.chosen.insert(&machine.id.uid);
        }
        // A guest that does not run has nothing to finish.
        if timeout.is_zero()
            || machine.is_off()
            || !observed.has_been_ready(machine)
            || draining.hooks.is_empty()
        {
            self.finish(machine, Vec::new(), plan);
            return true;
        }
        let Some(mark) = draining.mark.as_ref().filter(|mark| !mark.is_forged(observed.now)) else {
            let mark = DrainMark::begin(&machine.id.uid, reason, observed.now, timeout);
            self.begun.push(PoolAction::BeginDrain { machine: machine.id.clone(), mark });
            return false;
        };
        let hooks: Vec<Arc<str>> = draining.unreleased(&mark.id).cloned().collect();
        if hooks.is_empty() {
            self.finish(machine, hooks, plan);
            return true;
        }
        let deadline = mark.effective_deadline(observed.now, timeout);
        if observed.now >= deadline {
            self.finish(machine, hooks, plan);
            return true;
        }
        plan.requeue_in(Duration::try_from(deadline.duration_since(observed.now)).unwrap_or_default());
        plan.blockers.push(Blocker::Drain { machine: machine.id.name.clone(), reason, hooks, deadline });
        false
    }

    /// Notes that the drain of a machine is over; `hooks` are those that are not released.
    fn finish(&self, machine: &Machine, hooks: Vec<Arc<str>>, plan: &mut Plan) {
        let Some(mark) = machine.drain_mark() else { return };
        let lasted = self.observed.now.duration_since(mark.since).max(SignedDuration::ZERO).unsigned_abs();
        plan.finished_drains.push(FinishedDrain { machine: machine.id.name.clone(), hooks, lasted });
    }

    fn plan(mut self, plan: &mut Plan) {
        let observed = self.observed;
        let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
        let ended: Vec<&Arc<Machine>> = observed
            .pool_machines()
            .filter(|machine| !machine.terminating && !leaving.contains(&machine.id.uid))
            .filter(|machine| self.has_ended(machine))
            .collect();
        let (released, ended): (Vec<_>, Vec<_>) =
            ended.into_iter().partition(|machine| may_have_stopped(observed, machine));
        self.replace_released_machines(released, plan);
        plan.keep_drains_with_steps();
        let ended = ended.into_iter().map(|machine| PoolAction::EndDrain { machine: machine.id.clone() });
        let marks: Vec<PoolAction> = self.begun.into_iter().chain(ended).collect();
        if marks.is_empty() {
            return;
        }
        plan.wants.relabel = true;
        let pace = observed.memory.backoff(ApplyStage::Relabel).batch_size(observed.uptime);
        plan.extend_by(observed, ApplyStage::Relabel, pace, marks);
    }

    /// Whether the machine has a mark and no step follows: it became protected, the scale-down chose another
    /// machine or was taken back, or the template was.
    fn has_ended(&self, machine: &Machine) -> bool {
        let observed = self.observed;
        let Some(mark) = machine.drain_mark() else { return false };
        // A reservation is accepted or expires within seconds. A correction of the pool can restore the
        // reason.
        let is_open = observed.pool.record.is_accepted(&machine.id.uid)
            || observed.pool.record.reserved().any(|target| target.uid == machine.id.uid)
            || !observed.pool.validation_errors.is_empty();
        if self.chosen.contains(&machine.id.uid) || is_open {
            return false;
        }
        match mark.reason {
            DrainReason::ScaleDown | DrainReason::TargetedRemoval => true,
            // The write that ends a restart removes the mark.
            DrainReason::Rollout if machine.is_restarting() => false,
            DrainReason::Rollout => machine.is_protected(observed.now) || !needs_rollout(observed, machine),
        }
    }

    /// Deletes machines that their hooks released although no step follows any more. The pool creates others
    /// in their place, within the disruption budget. A machine still waits for its other hooks.
    fn replace_released_machines(&mut self, released: Vec<&'a Arc<Machine>>, plan: &mut Plan) {
        let observed = self.observed;
        let live = observed.pool_machines().filter(|machine| !machine.terminating).count();
        // In a surplus, the next scale-down chooses them first.
        if live > observed.pool.desired {
            return;
        }
        let mut released: Vec<&Arc<Machine>> = released
            .into_iter()
            .filter(|machine| {
                let reason = machine.drain_mark().map_or(DrainReason::ScaleDown, |mark| mark.reason);
                self.is_drained(machine, reason, plan)
            })
            .collect();
        if released.is_empty() {
            return;
        }
        plan.wants.remove = true;
        let width = match observed.memory.backoff(ApplyStage::Remove).batch_size(observed.uptime) {
            Ok(width) => width,
            Err(left) => return plan.back_off(ApplyStage::Remove, left),
        };
        released.sort_unstable_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        let progress = RolloutProgress::of(observed);
        let taken = count_planned_disruptions(plan) + self.begun_for_rollout();
        let mut budget = progress.remaining_budget().saturating_sub(taken);
        let fits = released.into_iter().filter(|machine| {
            let uses_budget = progress.uses_budget(observed, machine);
            let fits = uses_budget || budget > 0;
            budget -= usize::from(fits && !uses_budget);
            fits
        });
        let deletions: Vec<PoolAction> = fits
            .take(width)
            .map(|machine| PoolAction::Delete { machine: machine.id.clone(), reason: DeleteReason::Recycled })
            .collect();
        plan.actions.extend(deletions);
    }

    /// How many drains begin for the rollout.
    fn begun_for_rollout(&self) -> usize {
        self.begun.iter().filter(|action| action.begins_drain_for(DrainReason::Rollout)).count()
    }
}

/// Whether the rollout still has to restart the machine, or to record that it did. A paused rollout
/// continues.
fn needs_rollout(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let (pool, rollout) = (observed.pool, &observed.pool.rollout);
    if rollout.disabled || rollout.restarts == Restarts::ByUser || !rollout.selection.includes(machine) {
        return false;
    }
    match RolloutState::of(pool, machine) {
        RolloutState::Outdated => {
            rollout.restarts == Restarts::ByController || pool.may_restart_for_update(machine)
        }
        // The write that records the revision removes the mark.
        RolloutState::InProgress | RolloutState::Unrecorded => true,
        RolloutState::Stranded | RolloutState::Current => false,
    }
}

/// Whether the owner of a hook released the machine, which is then not called back: its agent may have
/// stopped. A protected machine stays.
fn may_have_stopped(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    !machine.is_protected(observed.now)
        && machine.draining.as_deref().is_some_and(Draining::is_released_by_owner)
}

/// How many machines the plan may make unavailable for the rollout.
fn count_planned_disruptions(plan: &Plan) -> usize {
    let disrupts = |action: &&PoolAction| {
        matches!(
            action,
            PoolAction::Update { disruption: Disruption::Budgeted, .. } | PoolAction::Restart { .. }
        ) || action.is_recreation()
    };
    plan.actions.iter().filter(disrupts).count()
}

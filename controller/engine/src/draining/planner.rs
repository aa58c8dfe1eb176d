//! Which machines must drain before a step, which of them wait, and which drains end without it.
//!
//! The planners of the steps ask for each machine that they chose. This planner runs after them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::budget::uses_budget;
use super::hooks::Draining;
use super::mark::{DrainMark, DrainReason};
use crate::ids::Uid;
use crate::image_refresh::{find_time_until_known, may_become_outdated};
use crate::model::{Machine, Restarts};
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::{FinishedDrain, Plan};
use crate::recycling::find_recycle_cause;
use crate::rollout::progress::RolloutState;

/// The machines that the planners of one pass chose for a step.
pub(crate) struct DrainPlanner<'a> {
    observed: &'a ObservedPool<'a>,
    /// The chosen machines that have hooks or are draining. Their marks stay.
    chosen: BTreeSet<&'a Uid>,
    /// Whether the pool has more machines than desired, so that it replaces none.
    has_surplus: bool,
    begun: Vec<PoolAction>,
}

/// Plans the drains that begin, and ends those whose step is not taken any more.
pub(crate) fn plan_drains(drains: DrainPlanner<'_>, plan: &mut Plan) {
    drains.plan(plan);
}

impl<'a> DrainPlanner<'a> {
    pub(crate) fn new(observed: &'a ObservedPool<'a>) -> Self {
        let has_surplus = observed.has_surplus();
        Self { observed, chosen: BTreeSet::new(), has_surplus, begun: Vec::new() }
    }

    /// Whether a planner of this pass chose the machine, which has hooks or is draining.
    pub(crate) fn is_chosen(&self, machine: &Machine) -> bool {
        self.chosen.contains(&machine.id.uid)
    }

    /// The machines whose drains the plan begins and that use disruption budget from then on.
    pub(crate) fn begun_within_budget(&self) -> impl Iterator<Item = &Uid> {
        self.begun.iter().filter_map(|action| match action {
            PoolAction::BeginDrain { machine, mark } => uses_budget(mark.reason).then_some(&machine.uid),
            _ => None,
        })
    }

    /// Whether the owner of a hook released the machine for a step that does not follow any more. It is not
    /// called back but replaced: its agent may have stopped. A protected machine stays.
    pub(crate) fn is_released(&self, machine: &Machine) -> bool {
        !machine.is_protected(self.observed.now)
            && machine.draining.as_deref().is_some_and(Draining::is_released_by_owner)
            && self.has_ended(machine)
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
        self.chosen.insert(&machine.id.uid);
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

    fn plan(self, plan: &mut Plan) {
        let observed = self.observed;
        let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
        let recycles = |machine: &Arc<Machine>| {
            machine.drain_mark().is_some_and(|mark| mark.reason == DrainReason::Recycling)
        };
        // Until then, the mark of a machine stays whose image may be the same again.
        if let Some(left) = find_time_until_known(observed).filter(|_| observed.pool_machines().any(recycles))
        {
            plan.requeue_in(left);
        }
        let ended = observed
            .pool_machines()
            .filter(|machine| !machine.terminating && !leaving.contains(&machine.id.uid))
            .filter(|machine| self.has_ended(machine) && !self.is_released(machine))
            .map(|machine| PoolAction::EndDrain { machine: machine.id.clone() });
        let marks: Vec<PoolAction> = self.begun.iter().cloned().chain(ended).collect();
        plan.keep_drains_with_steps();
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
            // It may wait for the backoff of deletions.
            DrainReason::Recycling => {
                machine.is_protected(observed.now)
                    || self.has_surplus
                    || find_recycle_cause(observed, machine).is_none()
                        && !may_become_outdated(observed, machine)
            }
        }
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

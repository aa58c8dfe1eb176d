//! Restarts: which instances the controller restarts so that an update takes effect.
//!
//! The rollout planner writes a revision to all machines at once, because that disrupts nothing. This planner
//! then restarts their instances within the disruption budget. An instance that is not ready is restarted
//! regardless of the budget, because that disrupts nothing either, and a corrected template can then replace
//! a broken one. The same holds for a machine that has no instance, for example because its storage cannot be
//! created, and whose storage templates changed. The instance of a protected machine waits, and uses no
//! budget.
//!
//! The request of a restart cannot require a version of the machine. Therefore apply first marks the machine,
//! which requires that version, and a marked machine cannot be claimed. This planner removes the mark when it
//! restarts the machine no longer. A machine that became protected after the mark is restarted nevertheless.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::progress::{RolloutProgress, required_transition};
use crate::draining::{DrainPlanner, DrainReason, is_draining_within_budget};
use crate::ids::Uid;
use crate::model::{Instance, InstanceTransition, Machine, MachineActivity, Pool, Restarts};
use crate::plan::action::{ApplyStage, DeleteReason, PoolAction};
use crate::plan::blocker::ProtectedStep;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;

pub(crate) fn plan_restarts<'a>(
    observed: &'a ObservedPool<'a>,
    drains: &mut DrainPlanner<'a>,
    plan: &mut Plan,
) {
    let (pool, memory) = (observed.pool, observed.memory);
    let rollout = &pool.rollout;
    end_restarts(observed, plan);
    if !restarts_guests(pool) {
        return;
    }
    let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
    let mut waiting: Vec<OutdatedMachine<'_>> = Vec::new();
    let mut protected = Vec::new();
    for machine in observed.pool_machines().filter(|machine| !machine.terminating) {
        let Some(written) = machine.written.as_ref().filter(|written| pool.is_current(written)) else {
            continue;
        };
        let is_being_restarted = machine.instance.as_ref().is_some_and(|instance| {
            instance.terminating || memory.restarts.is_requested(&instance.id.uid, observed.uptime)
        });
        // A machine whose guest has ended runs with the template after its next start.
        let stopped = machine.activity == MachineActivity::Stopped;
        let skipped = leaving.contains(&machine.id.uid) || is_being_restarted || stopped;
        if skipped || !rollout.selection.includes(machine) {
            continue;
        }
        match required_transition(pool, machine, written) {
            // It is deleted at the version that the plan used, so a mark does not commit the controller to
            // it.
            InstanceTransition::Recreation if machine.is_protected(observed.now) => protected.push(machine),
            InstanceTransition::Restart if machine.is_protected(observed.now) && !machine.is_restarting() => {
                protected.push(machine);
            }
            // It has the template after its next start.
            InstanceTransition::Restart if !machine.restartable => {}
            InstanceTransition::Restart => {
                let instance = machine.instance.as_deref();
                waiting.extend(
                    instance.map(|instance| OutdatedMachine { machine, remedy: Remedy::Restart(instance) }),
                );
            }
            InstanceTransition::Recreation => {
                waiting.push(OutdatedMachine { machine, remedy: Remedy::Recreation });
            }
            // The platform applies a live update.
            InstanceTransition::None
            | InstanceTransition::Record
            | InstanceTransition::LiveUpdate
            | InstanceTransition::Unknown => {}
        }
    }
    protected::block_protected_step(observed, plan, ProtectedStep::Rollout, &protected);
    if let Some(left) = memory.restarts.next_expiry(observed.uptime) {
        plan.requeue_in(left);
    }
    if waiting.is_empty() {
        return;
    }
    plan.wants.restart = true;
    let width = match memory.backoff(ApplyStage::Restart).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Restart, left),
    };
    let progress = RolloutProgress::of(observed);
    let (mut budget, mut stoppable) = (progress.remaining_budget(), progress.stoppable());
    waiting.sort_by(|one, other| {
        let (a, b) = (one.machine, other.machine);
        // A lost request is repeated before another machine uses the budget.
        let begun = |machine: &Machine| machine.is_restarting() || is_draining_within_budget(machine);
        let marked = begun(b).cmp(&begun(a));
        let refused = memory.was_refused(&a.id.name).cmp(&memory.was_refused(&b.id.name));
        one.is_ready()
            .cmp(&other.is_ready())
            .then(marked)
            .then(refused)
            .then_with(|| compare_restart_order(observed, a, b))
    });
    let mut chosen = Vec::new();
    for outdated in waiting {
        // A machine that drains for the rollout or for its replacement uses budget already.
        if outdated.is_ready() && !is_draining_within_budget(outdated.machine) {
            if budget == 0 {
                continue;
            }
            budget -= 1;
        }
        // A restart that was requested before is completed.
        let machine = outdated.machine;
        let completes = machine.is_restarting();
        if !completes && !drains.is_drained(machine, DrainReason::Rollout, plan) {
            continue;
        }
        // A drained machine still serves, and others may have become unavailable since its drain began.
        let serves = outdated.is_ready() && !progress.is_disrupted(observed, machine);
        if completes || !serves || stoppable > 0 {
            stoppable = stoppable.saturating_sub(usize::from(serves));
            chosen.push(outdated.action(pool));
        }
    }
    if chosen.len() > width {
        // The next pass, which starts at once, plans the rest.
        plan.requeue_in(std::time::Duration::ZERO);
    }
    plan.actions.extend(chosen.into_iter().take(width));
}

fn compare_restart_order(observed: &ObservedPool<'_>, a: &Machine, b: &Machine) -> Ordering {
    match observed.pool.rollout.order {
        Some(policy) => policy.compare(a, b),
        None => a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)),
    }
}

/// A machine to which the current revision is written and in which it is not in effect.
struct OutdatedMachine<'a> {
    machine: &'a Arc<Machine>,
    remedy: Remedy<'a>,
}

/// What brings the revision into effect.
enum Remedy<'a> {
    /// A restart of this instance.
    Restart(&'a Instance),
    /// The deletion of the machine and its storage.
    Recreation,
}

impl OutdatedMachine<'_> {
    /// Whether its guest is ready, so that the remedy disrupts it.
    fn is_ready(&self) -> bool {
        self.machine.instance.as_ref().is_some_and(|instance| instance.ready)
    }

    fn action(&self, pool: &Pool) -> PoolAction {
        let machine = self.machine.id.clone();
        match self.remedy {
            Remedy::Recreation => {
                let preserved = pool.preservation.includes_changed_storage();
                PoolAction::Delete { machine, reason: DeleteReason::StorageChanged { preserved } }
            }
            Remedy::Restart(instance) => PoolAction::Restart {
                machine,
                instance: instance.id.uid.clone(),
                revision: pool.revision.id.clone(),
            },
        }
    }
}

/// Removes the marks of machines that are not being restarted any more: the revision is in effect, the
/// machine is stopped, or the rollout no longer restarts it.
pub(crate) fn end_restarts(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let marked = observed.pool_machines().filter(|machine| !machine.terminating && machine.is_restarting());
    let ended: Vec<PoolAction> = marked
        .filter(|machine| !may_restart(observed, machine))
        .map(|machine| PoolAction::EndRestart { machine: machine.id.clone() })
        .collect();
    if ended.is_empty() {
        return;
    }
    plan.wants.record_revision = true;
    let pace = observed.memory.backoff(ApplyStage::RecordRevision).batch_size(observed.uptime);
    plan.extend_by(observed, ApplyStage::RecordRevision, pace, ended);
}

/// Whether the rollout of the pool restarts guests. For an invalid pool, the controller could create no
/// machine in the place of a deleted one.
fn restarts_guests(pool: &Pool) -> bool {
    pool.rollout.restarts == Restarts::ByController
        && !pool.paused
        && !pool.rollout.disabled
        && !pool.rollout_stands_still()
        && pool.validation_errors.is_empty()
}

/// Whether the instance of the machine is being restarted, or will be.
fn may_restart(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let (pool, rollout) = (observed.pool, &observed.pool.rollout);
    let Some(instance) = &machine.instance else {
        // Between two instances.
        return machine.activity != MachineActivity::Stopped;
    };
    let requested = observed.memory.restarts.is_requested(&instance.id.uid, observed.uptime);
    if requested || instance.terminating {
        return true;
    }
    let restarts = machine.restartable && restarts_guests(pool) && rollout.selection.includes(machine);
    let outdated = machine.written.as_ref().is_some_and(|written| {
        matches!(required_transition(pool, machine, written), InstanceTransition::Restart)
    });
    restarts && outdated
}

#[cfg(test)]
mod tests;

//! Recycling: which machines the controller deletes, so that the pool creates others in their place.
//!
//! It runs after the planners of scale-downs and rollouts, and uses only the disruption budget that they
//! leave. A machine uses budget from its drain or its deletion until another one is available. A machine that
//! is already unavailable uses no additional budget. If the budget became smaller during a drain, the
//! deletion waits, because the drained machine is still available.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::cause::RecycleCause;
use super::due::{find_recycle_cause, find_remaining_lifetime};
use crate::draining::{DrainPlanner, DrainReason};
use crate::ids::Uid;
use crate::membership::loss_limits::allows_recreation;
use crate::model::Machine;
use crate::plan::action::{ApplyStage, DeleteReason, PoolAction};
use crate::plan::blocker::ProtectedStep;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;
use crate::rollout::progress::RolloutProgress;

/// A machine that is replaced as soon as possible.
struct DueMachine<'a> {
    machine: &'a Arc<Machine>,
    cause: RecycleCause,
}

pub(crate) fn plan_recycling<'a>(
    observed: &'a ObservedPool<'a>,
    drains: &mut DrainPlanner<'a>,
    plan: &mut Plan,
) {
    if !may_replace_machines(observed, plan) {
        return;
    }
    let disrupted = find_disrupted_machines(plan);
    let due = find_due_machines(observed, drains, &disrupted, plan);
    let (protected, due): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|due| due.machine.is_protected(observed.now));
    // The last claim of a machine is no obstacle: the machine serves until its end.
    let (claimed, blocked): (Vec<_>, Vec<_>) =
        protected.into_iter().partition(|due| due.cause == RecycleCause::Claims);
    for due in &claimed {
        protected::replan_after_protection(observed, plan, due.machine);
    }
    let blocked: Vec<&Arc<Machine>> = blocked.iter().map(|due| due.machine).collect();
    protected::block_protected_step(observed, plan, ProtectedStep::Recycling, &blocked);
    if !due.is_empty() {
        replace_due_machines(observed, drains, due, &disrupted, plan);
    }
}

/// Whether the pool replaces machines now. In a surplus, the next scale-down chooses. The controller creates
/// no machine of an invalid pool, and none while other clients take away what the pool creates.
fn may_replace_machines(observed: &ObservedPool<'_>, plan: &mut Plan) -> bool {
    let pool = observed.pool;
    !observed.has_surplus() && pool.validation_errors.is_empty() && allows_recreation(observed, plan)
}

/// The machines that are due, and the time when the next one is.
fn find_due_machines<'a>(
    observed: &'a ObservedPool<'a>,
    drains: &DrainPlanner<'a>,
    disrupted: &BTreeSet<Uid>,
    plan: &mut Plan,
) -> Vec<DueMachine<'a>> {
    let targets = observed.pool.record.target_uids();
    let (mut due, mut next) = (Vec::new(), None::<Duration>);
    for machine in observed.pool_machines().filter(|machine| !machine.terminating) {
        let uid = &machine.id.uid;
        if targets.contains(uid) || disrupted.contains(uid) || drains.is_chosen(machine) {
            continue;
        }
        let released = || drains.is_released(machine).then_some(RecycleCause::Released);
        match find_recycle_cause(observed, machine).or_else(released) {
            Some(cause) => due.push(DueMachine { machine, cause }),
            None => {
                next = next.into_iter().chain(find_remaining_lifetime(observed, machine)).min();
            }
        }
    }
    if let Some(next) = next {
        plan.requeue_in(next);
    }
    due
}

/// Deletes machines within the disruption budget, after their drains.
fn replace_due_machines<'a>(
    observed: &'a ObservedPool<'a>,
    drains: &mut DrainPlanner<'a>,
    mut due: Vec<DueMachine<'a>>,
    disrupted: &BTreeSet<Uid>,
    plan: &mut Plan,
) {
    plan.wants.remove = true;
    let width = match observed.memory.backoff(ApplyStage::Remove).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Remove, left),
    };
    // A machine whose deletion was rejected delays no other.
    let key = |due: &DueMachine<'_>| (observed.memory.was_refused(&due.machine.id.name), due.machine.created);
    due.sort_unstable_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.machine.id.cmp(&b.machine.id)));
    let mut budget = ReplacementBudget::of(observed, drains, disrupted);
    let mut chosen = Vec::new();
    for DueMachine { machine, cause } in due {
        let may_begin = budget.includes(observed, machine) || budget.reserve();
        if may_begin
            && drains.is_drained(machine, DrainReason::Recycling, plan)
            && budget.may_delete(observed, machine)
        {
            let reason = DeleteReason::Recycled { cause };
            chosen.push(PoolAction::Delete { machine: machine.id.clone(), reason });
        }
    }
    if chosen.len() > width {
        // The next pass, which starts at once, plans the rest.
        plan.requeue_in(Duration::ZERO);
    }
    plan.actions.extend(chosen.into_iter().take(width));
}

/// The part of the disruption budget that other steps leave.
struct ReplacementBudget {
    progress: RolloutProgress,
    /// How many more machines may use budget.
    left: usize,
    /// How many more machines may become unavailable. Machines that drain within the budget are still
    /// available.
    deletable: usize,
    /// Whether the budget includes the unconfirmed deletions of machines that are still available: others may
    /// have become unavailable, and the pool larger, since they were planned.
    includes_unconfirmed: bool,
}

impl ReplacementBudget {
    fn of(observed: &ObservedPool<'_>, drains: &DrainPlanner<'_>, disrupted: &BTreeSet<Uid>) -> Self {
        let progress = RolloutProgress::of(observed);
        let targets = observed.pool.record.accepted().map(|target| &target.uid);
        let taken: BTreeSet<&Uid> = drains.begun_within_budget().chain(targets).chain(disrupted).collect();
        // Machines that this plan or a removal takes away, and that the progress counts as available.
        let leaving = observed.pool_machines().filter(|machine| {
            !machine.terminating
                && !progress.uses_budget(observed, machine)
                && taken.contains(&machine.id.uid)
        });
        let leaving = leaving.count();
        let drains_only = |machine: &&Arc<Machine>| {
            !machine.terminating
                && progress.uses_budget(observed, machine)
                && !progress.is_disrupted(observed, machine)
                && !taken.contains(&machine.id.uid)
        };
        let draining = observed.pool_machines().filter(drains_only).count();
        let used = progress.unavailable_without(leaving);
        let (left, allowed) = (progress.budget.saturating_sub(used), progress.budget + draining);
        Self {
            progress,
            left,
            deletable: allowed.saturating_sub(used),
            includes_unconfirmed: used <= allowed,
        }
    }

    /// Reserves budget for an available machine; false if none is left.
    fn reserve(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left -= usize::from(is_left);
        is_left
    }

    /// Whether the machine may be deleted now. An available one is then counted.
    fn may_delete(&mut self, observed: &ObservedPool<'_>, machine: &Machine) -> bool {
        // It may still be available.
        if observed.memory.is_delete_unconfirmed(&machine.id.uid, observed.uptime) {
            return self.includes_unconfirmed;
        }
        if self.progress.is_disrupted(observed, machine) {
            return true;
        }
        let is_left = self.deletable > 0;
        self.deletable -= usize::from(is_left);
        is_left
    }

    /// Whether the machine uses budget already.
    fn includes(&self, observed: &ObservedPool<'_>, machine: &Machine) -> bool {
        self.progress.uses_budget(observed, machine)
    }
}

/// The machines that the plan deletes, restarts or updates.
fn find_disrupted_machines(plan: &Plan) -> BTreeSet<Uid> {
    let machines = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Delete { machine, .. }
        | PoolAction::Restart { machine, .. }
        | PoolAction::Update { machine, .. } => Some(machine.uid.clone()),
        _ => None,
    });
    machines.collect()
}

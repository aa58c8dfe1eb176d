//! Removal: the accepted targets, and the surplus of other machines.
//!
//! Of the surplus, draining machines leave first, and then machines that have never been ready: they serve no
//! client yet, and a pool that grows and shrinks again would otherwise lose its serving machines. Only then
//! the policy decides. With an order by ordinals, only the ordinal decides.
//!
//! Of the draining machines, those leave first whose hooks released them, and then those that were marked
//! first. If the pool is scaled up again, the machine that was marked last thus stays.

use crate::draining::{DrainPlanner, DrainReason};
use crate::failure::FailureReason;
use crate::ids::Uid;
use crate::model::Machine;
use crate::plan::action::{ApplyStage, DeleteReason, PoolAction, SurplusRule};
use crate::plan::blocker::{Blocker, ProtectedStep};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn plan_removals<'a>(
    observed: &'a ObservedPool<'a>,
    drains: &mut DrainPlanner<'a>,
    plan: &mut Plan,
) {
    let record = &observed.pool.record;
    let accepted = record.accepted_uids();
    // A target that is already terminating needs no deletion. `replicas` was lowered for it, so it is not
    // replaced.
    let live = observed.owned_machines().filter(|machine| !machine.terminating);
    let (mut targets, mut others): (Vec<_>, Vec<_>) =
        live.partition(|machine| accepted.contains(&machine.id.uid));
    others.retain(|machine| machine.standby.is_none());
    targets.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let surplus = surplus_machines(observed, plan, others);
    if targets.is_empty() && surplus.is_empty() {
        return;
    }
    plan.wants.remove = true;
    let forced = |machine: &Machine| record.is_forced(&machine.id.uid);
    let targets = targets.into_iter().map(|machine| {
        let reason = DeleteReason::Targeted { forced: forced(machine) };
        (machine, reason)
    });
    let surplus = surplus.into_iter().map(|machine| {
        let reason = DeleteReason::Surplus { rule: surplus_rule(observed, machine) };
        (machine, reason)
    });
    let mut leaving: Vec<(&Arc<Machine>, DeleteReason)> = targets.chain(surplus).collect();
    leaving.retain(|(machine, reason)| match reason {
        // Standby machines have another planner, and do not drain.
        DeleteReason::Targeted { forced: true }
        | DeleteReason::StandbySurplus
        | DeleteReason::StandbyReplaced => true,
        DeleteReason::Targeted { forced: false } => {
            drains.is_drained(machine, DrainReason::TargetedRemoval, plan)
        }
        DeleteReason::Surplus { .. }
        | DeleteReason::StorageChanged { .. }
        | DeleteReason::Unhealthy
        | DeleteReason::NotReady
        | DeleteReason::Recycled { .. } => drains.is_drained(machine, DrainReason::ScaleDown, plan),
    });
    let width = match observed.memory.backoff(ApplyStage::Remove).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Remove, left),
    };
    if width < leaving.len() {
        // The next pass, which starts at once, plans the rest.
        plan.requeue_in(Duration::ZERO);
    }
    // The machines are chosen. Those whose deletion was rejected come last, so that they do not delay the
    // others.
    leaving.sort_by_key(|(machine, _)| observed.memory.was_refused(&machine.id.name));
    plan.actions.extend(
        leaving
            .into_iter()
            .take(width)
            .map(|(machine, reason)| PoolAction::Delete { machine: machine.id.clone(), reason }),
    );
}

/// The surplus machines in the order of their deletion. `live` are the live machines that are not accepted
/// targets.
fn surplus_machines<'a>(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    mut live: Vec<&'a Arc<Machine>>,
) -> Vec<&'a Arc<Machine>> {
    let policy = observed.pool.scale_down_policy;
    // An unconfirmed create may never be carried out, so only machines that exist count for the surplus.
    let victims = live.len().saturating_sub(observed.pool.desired);
    let before = live.len();
    live.retain(|machine| observed.pool.scale_down_selection.includes(machine) && policy.may_delete(machine));
    if victims > live.len() && policy.deletes_whole_surplus() {
        let shortfall = format!(
            "{victims} machines are surplus, but the selection of the scale-down includes only {} of {before}: \
             the controller deletes no others",
            live.len()
        );
        plan.report_failure(FailureReason::FailedDelete, &shortfall);
    }
    if victims == 0 {
        return Vec::new();
    }
    let (protected, mut live): (Vec<_>, Vec<_>) =
        live.into_iter().partition(|machine| machine.is_protected(observed.now));
    // Otherwise all machines leave that must, and the protection blocks nothing.
    if victims > live.len() && policy.deletes_whole_surplus() {
        protected::block_protected_step(observed, plan, ProtectedStep::ScaleDown, &protected);
    }
    // Machines with an unconfirmed deletion come first.
    let sure = |machine: &Machine| !observed.memory.is_delete_unconfirmed(&machine.id.uid, observed.uptime);
    let stays_longer = |machine: &Machine| !policy.is_by_ordinal() && observed.has_been_ready(machine);
    let order = |a: &&Arc<Machine>, b: &&Arc<Machine>| {
        let drains = |machine: &Machine| (!policy.is_by_ordinal()).then(|| drain_order(machine));
        let key = |machine: &Machine| (sure(machine), drains(machine), stays_longer(machine));
        key(a).cmp(&key(b)).then_with(|| policy.compare(a, b))
    };
    // Most machines stay, and their order does not matter. Only the others are sorted, so that the pass stays
    // linear.
    if victims < live.len() {
        live.select_nth_unstable_by(victims, order);
        live.truncate(victims);
    }
    live.sort_unstable_by(order);
    // A reserved machine is not deleted as surplus, and no other machine is deleted in its place. Otherwise
    // one machine would count for two decrements.
    let reserved: BTreeSet<&Uid> = observed.pool.record.reserved().map(|target| &target.uid).collect();
    live.retain(|machine| {
        let free = !reserved.contains(&machine.id.uid);
        if !free {
            plan.blockers.push(Blocker::Reservation { machine: machine.id.name.clone() });
        }
        free
    });
    live
}

/// The rule that chose a surplus machine.
fn surplus_rule(observed: &ObservedPool<'_>, machine: &Machine) -> SurplusRule {
    if observed.pool.scale_down_policy.is_by_ordinal() {
        SurplusRule::Policy
    } else if machine.drain_mark().is_some() {
        SurplusRule::Draining
    } else if observed.has_been_ready(machine) {
        SurplusRule::Policy
    } else {
        SurplusRule::NeverReady
    }
}

/// The place of a machine among those that drain. Those that do not drain come last.
fn drain_order(machine: &Machine) -> (u8, Timestamp) {
    let draining = machine.draining.as_deref();
    match draining.and_then(|draining| Some((draining.is_released_by_owner(), draining.mark.as_ref()?))) {
        Some((true, mark)) => (0, mark.since),
        Some((false, mark)) => (1, mark.since),
        None => (2, Timestamp::MIN),
    }
}

#[cfg(test)]
mod tests;

//! Creation: how many machines are missing.

use crate::disks::allocation::FreeDisks;
use crate::healing::stuck::{await_stuck_machines, count_stuck_machines};
use crate::ledger::{REQUEST_TIMEOUT, UnconfirmedCreate};
use crate::membership::loss_limits;
use crate::plan::action::ApplyStage;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::{Plan, Repairs};
use crate::scale_down::reservations;
use crate::scale_up::batch::{CreateBatch, plan_batch};
use crate::scale_up::provisioning::{await_start_timeout, limit_provisioning};
use crate::standby;

pub(crate) fn plan_creates(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    disks: Repairs,
    plan: &mut Plan,
) {
    await_start_timeout(observed, plan);
    // A reserved machine that is already gone is not replaced.
    let held = reservations::hold_vanished(observed, plan);
    await_stuck_machines(observed, plan);
    let present = observed.pool_machines().count() + held - count_stuck_machines(observed);
    let unconfirmed: Vec<&UnconfirmedCreate> =
        observed.unconfirmed_creates.iter().filter(|create| !create.standby).collect();
    // Unconfirmed requests count as machines, because the machines may exist.
    let activating = standby::count_activating(observed);
    let machines = present + activating;
    let wanted = observed.pool.desired.saturating_sub(machines).min(unconfirmed.len());
    let (repeated, unwanted) = unconfirmed.split_at(wanted);
    for unconfirmed in unwanted {
        plan.blockers.push(Blocker::UnconfirmedCreate { name: unconfirmed.name.clone() });
        plan.requeue_in((unconfirmed.since + REQUEST_TIMEOUT).saturating_sub(observed.uptime));
    }
    let missing = observed.pool.desired.saturating_sub(machines + unconfirmed.len());
    let reactivated = observed.pool.desired.saturating_sub(present).min(activating);
    if missing == 0 && repeated.is_empty() && reactivated == 0 {
        return;
    }
    if let Some(failure) = observed.pool.invalid_spec() {
        plan.wants.create = true;
        plan.blockers.push(Blocker::UserAction(failure.message));
        return;
    }
    let missing = missing - standby::plan_activations(observed, free_disks, reactivated, missing, plan);
    if missing == 0 && repeated.is_empty() {
        return;
    }
    plan.wants.create = true;
    // A machine and its disks are created together: missing disks have priority over further machines.
    match disks {
        Repairs::Complete => {}
        Repairs::Truncated => return,
        Repairs::Paused(left) => return plan.back_off(ApplyStage::Create, left),
    }
    let Some((limit, rehearsal)) = loss_limits::limit_machines(observed, plan) else { return };
    let room = limit_provisioning(observed, plan, repeated.len(), missing);
    let width = match observed.memory.backoff(ApplyStage::Create).batch_size(observed.uptime) {
        Ok(width) => width.min(limit),
        Err(left) => return plan.back_off(ApplyStage::Create, left),
    };
    let batch = CreateBatch { repeated, missing, room, width, rehearsal, standby: None };
    plan_batch(observed, free_disks, &batch, plan);
}

#[cfg(test)]
mod tests;

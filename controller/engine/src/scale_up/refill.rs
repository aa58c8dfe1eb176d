//! Refill: missing standby machines. It follows when no active machine is missing, under the same limits, and
//! its backoff delays no active machine.

use crate::disks::allocation::FreeDisks;
use crate::failure::FailureReason;
use crate::ledger::{REQUEST_TIMEOUT, UnconfirmedCreate};
use crate::membership::loss_limits;
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::{Plan, Repairs};
use crate::scale_up::batch::{CreateBatch, plan_batch};
use crate::scale_up::provisioning::limit_provisioning;
use crate::standby::{StandbyPhase, StandbySettings, WarmUp};

pub(crate) fn plan_refill(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    disks: Repairs,
    plan: &mut Plan,
) {
    let Some(settings) = observed.standby_settings() else { return };
    let machines = observed.standby_machines().filter(|machine| !observed.is_activating(machine)).count();
    let unconfirmed: Vec<&UnconfirmedCreate> =
        observed.unconfirmed_creates.iter().filter(|create| create.standby).collect();
    let wanted = settings.replicas.saturating_sub(machines).min(unconfirmed.len());
    let (repeated, unwanted) = unconfirmed.split_at(wanted);
    for unconfirmed in unwanted {
        plan.blockers.push(Blocker::UnconfirmedCreate { name: unconfirmed.name.clone() });
        plan.requeue_in((unconfirmed.since + REQUEST_TIMEOUT).saturating_sub(observed.uptime));
    }
    let missing = settings.replicas.saturating_sub(machines + unconfirmed.len());
    if missing == 0 && repeated.is_empty() {
        return;
    }
    plan.wants.refill = true;
    if plan.wants.create || plan.wants.activate {
        return;
    }
    if let Some(failure) = observed.pool.invalid_spec() {
        plan.report_failure(FailureReason::FailedCreate, &failure.message);
        return;
    }
    match disks {
        Repairs::Complete => {}
        Repairs::Truncated => return,
        Repairs::Paused(left) => return plan.back_off(ApplyStage::Refill, left),
    }
    create_standby(observed, free_disks, settings, &StandbyCreates { repeated, missing }, plan);
}

/// The standby machines to create.
struct StandbyCreates<'a> {
    repeated: &'a [&'a UnconfirmedCreate],
    missing: usize,
}

fn create_standby(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    settings: StandbySettings,
    creates: &StandbyCreates<'_>,
    plan: &mut Plan,
) {
    // The name block and the revision, which a create depends on, failed.
    let prepares = observed.memory.backoff(ApplyStage::Prepare).batch_size(observed.uptime);
    plan.wants.create |= prepares.is_err();
    // The limits come before the backoff, so that the status is the same during the backoff and at its end.
    let Some((limit, rehearsal)) = loss_limits::limit_machines(observed, plan) else { return };
    let room = limit_provisioning(observed, plan, creates.repeated.len(), creates.missing);
    if let Err(left) = prepares {
        return plan.back_off(ApplyStage::Prepare, left);
    }
    let width = match observed.memory.backoff(ApplyStage::Refill).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Refill, left),
    };
    let standby = match settings.warm_up {
        WarmUp::FirstReady => StandbyPhase::Warming,
        WarmUp::None => StandbyPhase::Stopped,
    };
    let batch = CreateBatch {
        repeated: creates.repeated,
        missing: creates.missing,
        room,
        width: width.min(limit),
        rehearsal,
        standby: Some(standby),
    };
    plan_batch(observed, free_disks, &batch, plan);
    let prepares = |action: &PoolAction| matches!(action, PoolAction::OpenNameBlock { .. });
    plan.wants.create |= plan.actions.iter().any(prepares);
}

#[cfg(test)]
mod tests;

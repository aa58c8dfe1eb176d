//! The limits of creation while other clients take away what the pool creates.

use crate::failure::FailureReason;
use crate::membership::losses::{Allowance, Losses, Rehearsal};
use crate::model::DiskSource;
use crate::plan::action::PoolAction;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// How many machines may be created, and whether their creates are rehearsed; `None` if the pool is stopped,
/// which the plan then reports.
pub(crate) fn limit_machines(observed: &ObservedPool<'_>, plan: &mut Plan) -> Option<(usize, Rehearsal)> {
    let losses = &observed.memory.machine_losses;
    let limit = observed.pool.machine_loss_limit();
    match report_allowance(observed, losses, limit, FailureReason::MachineLost, plan) {
        Allowance::Unlimited => Some((usize::MAX, Rehearsal::None)),
        Allowance::Trial(rehearsal) => Some((1, rehearsal)),
        Allowance::Stopped(_) => None,
    }
}

/// Removes the writes that create disks, as far as the losses of disks require it.
pub(crate) fn limit_disks(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let creates_disks = |action: &PoolAction| match action {
        PoolAction::CreateDisk { .. } => true,
        PoolAction::Create { draft } => draft.disks.iter().any(|disk| disk.source == DiskSource::New),
        _ => false,
    };
    if !plan.actions.iter().any(creates_disks) {
        return;
    }
    let limit = observed.pool.disk_loss_limit();
    let losses = &observed.memory.disk_losses;
    let mut allowed = match report_allowance(observed, losses, limit, FailureReason::DiskLost, plan) {
        Allowance::Unlimited => return,
        Allowance::Trial(_) => 1,
        Allowance::Stopped(_) => 0,
    };
    plan.actions.retain(|action| {
        let stays = !creates_disks(action) || allowed > 0;
        allowed -= usize::from(stays && creates_disks(action));
        stays
    });
}

/// Removes the deletions of machines that would be created again while no machine is created, and all but one
/// while the create of one would be a trial.
pub(crate) fn keep_irreplaceable(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let (losses, limit) = (&observed.memory.machine_losses, observed.pool.machine_loss_limit());
    if !(losses.is_stopped(limit) && plan.actions.iter().any(PoolAction::is_recreation)) {
        return;
    }
    let mut allowed = usize::from(allows_recreation(observed, plan));
    plan.actions.retain(|action| {
        let stays = !action.is_recreation() || allowed > 0;
        allowed -= usize::from(stays && action.is_recreation());
        stays
    });
}

/// Whether a machine may be deleted so that another one is created in its place. If other clients took away
/// what the pool created, plans a pass for the time when it may.
pub(crate) fn allows_recreation(observed: &ObservedPool<'_>, plan: &mut Plan) -> bool {
    let (losses, limit) = (&observed.memory.machine_losses, observed.pool.machine_loss_limit());
    match losses.remaining_block_of_recreations(limit, observed.uptime) {
        Some(left) => {
            plan.requeue_in(left);
            false
        }
        None => true,
    }
}

/// What these losses allow. While they stop the pool, the plan says why.
fn report_allowance(
    observed: &ObservedPool<'_>,
    losses: &Losses,
    limit: usize,
    reason: FailureReason,
    plan: &mut Plan,
) -> Allowance {
    let allowance = losses.allowance(limit, observed.uptime);
    if allowance != Allowance::Unlimited
        && let Some(last) = losses.last()
    {
        plan.report_failure(reason, &last.message);
        plan.blockers.push(Blocker::UserAction(last.message.clone()));
    }
    if let Allowance::Stopped(left) = allowance {
        plan.requeue_in(left);
    }
    allowance
}

#[cfg(test)]
mod tests;

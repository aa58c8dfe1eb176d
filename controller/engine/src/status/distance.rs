//! How far a pool is from its spec, and whether the rest of the way is only a wait.

use crate::condition::ConditionReason;
use crate::draining::DrainReason;
use crate::healing::stuck::count_stuck_machines;
use crate::model::{Pool, Restarts};
use crate::plan::blocker::{Blocker, ProtectedStep};
use crate::plan::observed::ObservedPool;
use crate::progress::PoolDistance;
use crate::rollout::progress::RolloutState;
use crate::scale_down::surplus::keeps_surplus;

use super::counts::MachineCounts;

/// The distance of the pool from its spec, for the progress deadline; `None` if nothing is left to do, or if
/// the rest waits for something that ends by itself or that a user chose:
///
/// * the pool or its rollout is paused: the user resumes it;
/// * restarts wait for approvals, or for machines that the user stops or recreates: the condition `Stalled`
///   says so already;
/// * a step waits for the end of a protection, a drain or a reservation: each has a time of its own;
/// * a limit on provisioning delays creates: the machines that provision still count, so the pool is stalled
///   if these do not become ready;
/// * an image is still imported: its own status shows whether the import fails.
///
/// What waits for a user action is `Blocked`, and needs no deadline.
pub fn measure_distance(observed: &ObservedPool<'_>) -> Option<PoolDistance> {
    let pool = observed.pool;
    if pool.paused || pool.deleting || needs_user(observed) {
        return None;
    }
    let counts = MachineCounts::of(observed);
    // A stuck machine counts as gone, as in the plan.
    let machines = counts.total - count_stuck_machines(observed);
    let distance = PoolDistance {
        missing: pool.desired.saturating_sub(machines),
        surplus: if keeps_surplus(pool) { 0 } else { machines.saturating_sub(pool.desired) },
        unready: pool.desired.saturating_sub(counts.ready),
        outdated: count_expected_updates(observed, &counts),
        failing: usize::from(observed.memory.failure().is_some()),
    };
    let waits = StepWaits::of(observed);
    // A terminating machine counts until it is gone, because the controller replaces it only then.
    let unready = pool.desired.min(counts.total).saturating_sub(counts.ready + waits.replacements);
    let is_stuck = (distance.missing > 0 && !waits.creates)
        || (distance.surplus > 0 && !waits.deletes)
        || (distance.outdated > 0 && !waits.updates)
        || distance.failing > 0
        || unready > 0;
    is_stuck.then_some(distance)
}

/// Whether the controller waits for a user action.
fn needs_user(observed: &ObservedPool<'_>) -> bool {
    let mut blockers = observed.memory.blockers.iter();
    !observed.pool.validation_errors.is_empty()
        || blockers.any(|blocker| matches!(blocker, Blocker::UserAction(_)))
}

/// The outdated machines that change without a user.
fn count_expected_updates(observed: &ObservedPool<'_>, counts: &MachineCounts) -> usize {
    let rollout = &observed.pool.rollout;
    if rollout.paused {
        return 0;
    }
    let by_user = match rollout.restarts {
        Restarts::ByPlatform => counts.for_approval + counts.stranded,
        Restarts::ByController | Restarts::ByUser => 0,
    };
    count_outdated_machines(observed).saturating_sub(by_user)
}

/// Number of live machines that the rollout includes and in which the current revision is not in effect. A
/// rollout that leaves existing machines as they are has none, and one that leaves the restarts to users ends
/// with the write.
pub(super) fn count_outdated_machines(observed: &ObservedPool<'_>) -> usize {
    let pool = observed.pool;
    if pool.rollout.disabled {
        return 0;
    }
    let is_open = |state: RolloutState| match pool.rollout.restarts {
        Restarts::ByUser => state == RolloutState::Outdated,
        Restarts::ByPlatform | Restarts::ByController => state != RolloutState::Current,
    };
    let live = observed.pool_machines().filter(|machine| !machine.terminating);
    live.filter(|machine| pool.rollout.selection.includes(machine))
        .filter(|machine| is_open(RolloutState::of(pool, machine)))
        .count()
}

/// Which steps of the last plan wait for something that ends by itself.
#[derive(Default)]
struct StepWaits {
    creates: bool,
    deletes: bool,
    updates: bool,
    /// Protected machines that autohealing replaces afterwards.
    replacements: usize,
}

impl StepWaits {
    fn of(observed: &ObservedPool<'_>) -> Self {
        let mut waits = Self { creates: imports_images(observed.pool), ..Self::default() };
        for blocker in &observed.memory.blockers {
            waits.add(blocker);
        }
        waits
    }

    fn add(&mut self, blocker: &Blocker) {
        match blocker {
            Blocker::Provisioning(_) => self.creates = true,
            Blocker::Reservation { .. } => (self.creates, self.deletes) = (true, true),
            Blocker::Protection { step, .. } => match step {
                ProtectedStep::ScaleDown => self.deletes = true,
                ProtectedStep::Replacement => self.replacements += 1,
                ProtectedStep::Rollout => self.updates = true,
                // The pool is as its spec says.
                ProtectedStep::Recycling => {}
            },
            Blocker::Drain { reason, .. } => match reason {
                DrainReason::ScaleDown | DrainReason::TargetedRemoval => self.deletes = true,
                DrainReason::Rollout => self.updates = true,
                DrainReason::Recycling => {}
            },
            // The platform or another client must do something, and may not.
            Blocker::TerminatingDisk { .. }
            | Blocker::RestoringDisk { .. }
            | Blocker::PendingDisk { .. }
            | Blocker::UnconfirmedCreate { .. }
            | Blocker::Backoff { .. }
            | Blocker::TooManyUnhealthy { .. }
            | Blocker::UserAction(_) => {}
        }
    }
}

fn imports_images(pool: &Pool) -> bool {
    pool.images.as_ref().is_some_and(|images| images.reason == ConditionReason::ImageSyncing)
}

#[cfg(test)]
mod tests;

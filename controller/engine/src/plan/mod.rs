//! The plan of one pass: what to write now, computed from one observation.
//!
//! [`plan_pass`] calls the planners in this order. `cargo xtask hygiene` compares the list with its code, and
//! with the list in `docs/architecture.md`. Each planner is in the folder of the question that it answers. A
//! planner with the name of its folder is in the file `planner.rs` there.
//!
//! 1. `membership`: labels that machines of the pool lost.
//! 2. `finalizers`: finalizers of the controller, on the pool and on its machines.
//! 3. `protection`: times that are not valid.
//! 4. `disks`: missing and unusable disks of machines.
//! 5. `remove`: the targets of removals, and the surplus.
//! 6. `heal`: machines that do not start.
//! 7. `replace`: machines that have not been ready for too long.
//! 8. `create`: missing machines.
//! 9. `standby`: standby machines that are stopped, surplus or replaced.
//! 10. `refill`: missing standby machines.
//! 11. `rollout`: machines without the current revision.
//! 12. `restart`: instances without the revision of their machine.
//! 13. `recycling`: machines that served long enough, or that their hooks released.
//! 14. `draining`: machines that finish the work of their guest first, and drains whose step does not follow.
//! 15. `loss_limits`: how many creates remain while other clients take away what the pool creates.
//! 16. `disk_collection`: free disks that are too old.
//! 17. `expand`: disks that are smaller than their template requires.
//! 18. `revisions`: revisions to store and to delete.
//! 19. `record`: entries of the removal record that can be removed.

pub(crate) mod action;
pub(crate) mod blocker;
pub(crate) mod observed;
pub(crate) mod result;

use crate::disks::{self, allocation, disk_collection, expand};
use crate::draining;
use crate::healing::{heal, replace};
use crate::membership::{self, finalizers, loss_limits};
use crate::protection;
use crate::recycling;
use crate::revisions;
use crate::rollout::{self, restart};
use crate::scale_down::{record, remove};
use crate::scale_up::{create, refill};
use crate::standby;

pub use crate::healing::setting::START_TIMEOUT;
pub use crate::healing::start_failures::StartFailures;
pub use crate::rollout::attempts::{EVALUATION_AGE, RolloutAttempts, UpdateOutcome};
pub use crate::rollout::overridden::{FieldPaths, OverriddenFields};
pub use crate::rollout::requested_restarts::RequestedRestarts;
pub use action::{
    ApplyStage, DeleteReason, DiskDeleteReason, Disruption, PoolAction, SurplusRule, WantedWrites,
};
pub use blocker::{Blocker, LimitedProvisioning, ProtectedStep, ProvisioningScope};
pub use observed::{
    COLLECTION_GRACE, DisksByName, NamesInUse, ObservedPool, PlanSettings, PoolSnapshot, mark_superseded,
};
pub use result::{FinishedDrain, Plan};

/// Decides what to write. If the pool has converged, the plan is empty.
///
/// Cost: linear in the number of machines and disks.
pub fn plan_pass(observed: &ObservedPool<'_>) -> Plan {
    let mut plan = Plan::default();
    // The garbage collector deletes the machines of a deleted pool. With `--cascade=orphan` they stay
    // unchanged.
    if observed.pool.deleting {
        finalizers::plan_pool_deletion(observed, &mut plan);
        return plan;
    }
    membership::plan_membership(observed, &mut plan);
    finalizers::plan_finalizers(observed, &mut plan);
    if observed.pool.paused {
        // A marked machine cannot be claimed, and no machine is restarted.
        restart::end_restarts(observed, &mut plan);
        revisions::plan_inactive_revisions(observed, &mut plan);
        record::plan_removal_record(observed, &mut plan);
        request_reports(observed, &mut plan);
        return plan;
    }
    protection::plan_protection(observed, &mut plan);
    // All planners share one `FreeDisks`, so that no disk is allocated twice.
    let mut free_disks = allocation::FreeDisks::new(observed);
    let disks::DiskCheckResult { repairs, growth } =
        disks::plan_disk_repairs(observed, &mut free_disks, &mut plan);
    // The planners of steps that stop a guest share one `DrainPlanner`.
    let mut drains = draining::DrainPlanner::new(observed);
    remove::plan_removals(observed, &mut drains, &mut plan);
    heal::plan_autohealing(observed, &mut plan);
    replace::plan_healing(observed, &mut plan);
    create::plan_creates(observed, &mut free_disks, repairs, &mut plan);
    standby::plan_standby(observed, &mut plan);
    refill::plan_refill(observed, &mut free_disks, repairs, &mut plan);
    rollout::plan_rollout(observed, &mut free_disks, &mut drains, &mut plan);
    restart::plan_restarts(observed, &mut drains, &mut plan);
    recycling::plan_recycling(observed, &mut drains, &mut plan);
    draining::plan_drains(drains, &mut plan);
    loss_limits::keep_irreplaceable(observed, &mut plan);
    loss_limits::limit_disks(observed, &mut plan);
    disk_collection::plan_disk_collection(observed, &free_disks, &mut plan);
    expand::plan_disk_expansions(observed, &free_disks, growth, &mut plan);
    revisions::plan_revisions(observed, &mut plan);
    record::plan_removal_record(observed, &mut plan);
    request_reports(observed, &mut plan);
    // Until then, the machine uses budget. No watch event follows if the deletion is not carried out.
    if let Some(left) = observed.memory.next_delete_confirmed(observed.uptime) {
        plan.requeue_in(left);
    }
    plan
}

/// Requests the passes whose status reports one more problem, or more machines with outdated images.
fn request_reports(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let (memory, uptime) = (observed.memory, observed.uptime);
    let times = memory.next_problem(uptime).into_iter().chain(memory.contents.next_settled(uptime));
    if let Some(left) = times.min() {
        plan.requeue_in(left);
    }
}

#[cfg(test)]
mod tests;

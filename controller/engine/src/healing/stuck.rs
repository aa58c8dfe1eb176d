//! Machines that are stuck: still being deleted long after the deletion was requested, because their node is
//! lost.
//!
//! A stuck machine counts as gone for `replicas`, so that another one takes its place under another name. It
//! keeps its disks until it is gone, and the controller removes no finalizer of the platform.

use std::collections::BTreeSet;
use std::time::Duration;

use super::setting::HealingPolicy;
use crate::ids::Uid;
use crate::model::{Machine, Preservation};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// How many machines of the pool count as gone although they are not, at most `maxUnhealthy`. Plans a pass
/// for the time at which the next one does.
pub(crate) fn count_stuck_machines(observed: &ObservedPool<'_>, plan: &mut Plan) -> usize {
    let pool = observed.pool;
    // The next machine with the name gets the storage that is preserved.
    let Some(healing) = pool.healing.filter(|_| pool.preservation == Preservation::Never) else { return 0 };
    let reserved: BTreeSet<&Uid> = pool.record.reserved().map(|target| &target.uid).collect();
    let mut stuck = 0;
    // The machine of a reservation is not replaced.
    let candidates = observed.pool_machines().filter(|machine| !reserved.contains(&machine.id.uid));
    for left in candidates.filter_map(|machine| time_until_stuck(observed, &healing, machine)) {
        if left.is_zero() {
            stuck += 1;
        } else {
            plan.requeue_in(left);
        }
    }
    stuck.min(healing.ceiling(pool.desired))
}

/// The time until the machine is stuck; `None` if it is not being deleted.
fn time_until_stuck(
    observed: &ObservedPool<'_>,
    healing: &HealingPolicy,
    machine: &Machine,
) -> Option<Duration> {
    let since = machine.terminating_since.filter(|_| machine.terminating)?;
    let age = Duration::try_from(observed.now.duration_since(since)).unwrap_or_default();
    Some(healing.replace_stuck_after.saturating_sub(age))
}

#[cfg(test)]
mod tests;

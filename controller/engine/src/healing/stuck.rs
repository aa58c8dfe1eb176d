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

/// How many machines of the pool count as gone although they are not, at most `maxUnhealthy`.
pub(crate) fn count_stuck_machines(observed: &ObservedPool<'_>) -> usize {
    let stuck = times_until_stuck(observed).filter(Duration::is_zero).count();
    stuck.min(observed.pool.healing.map_or(0, |healing| healing.ceiling(observed.pool.desired)))
}

/// Plans a pass for the time at which the next machine is stuck.
pub(crate) fn await_stuck_machines(observed: &ObservedPool<'_>, plan: &mut Plan) {
    if let Some(next) = times_until_stuck(observed).filter(|left| !left.is_zero()).min() {
        plan.requeue_in(next);
    }
}

/// The times until the machines that are being deleted are stuck; none if stuck machines do not count as
/// gone. The next machine with the name gets the storage that is preserved, and the machine of a reservation
/// is not replaced.
fn times_until_stuck(observed: &ObservedPool<'_>) -> impl Iterator<Item = Duration> {
    let pool = observed.pool;
    let healing = pool.healing.filter(|_| pool.preservation == Preservation::Never);
    healing.into_iter().flat_map(move |healing| {
        let reserved: BTreeSet<&Uid> = pool.record.reserved().map(|target| &target.uid).collect();
        let terminating = observed.pool_machines().filter(|machine| machine.terminating);
        terminating
            .filter(move |machine| !reserved.contains(&machine.id.uid))
            .filter_map(move |machine| time_until_stuck(observed, healing, machine))
    })
}

/// The time until the machine is stuck; `None` if the time of its deletion is unknown.
fn time_until_stuck(
    observed: &ObservedPool<'_>,
    healing: HealingPolicy,
    machine: &Machine,
) -> Option<Duration> {
    let since = machine.terminating_since?;
    Some(healing.replace_stuck_after.saturating_sub(observed.time_since_timestamp(since)))
}

#[cfg(test)]
mod tests;

//! Reservations of machines in the removal record.

use std::collections::BTreeSet;

use super::blocker::Blocker;
use super::observed::ObservedPool;
use super::result::Plan;
use crate::ids::Uid;

/// The number of reserved targets that are no longer machines of the pool. They count as present, and the
/// plan reports them as blockers.
pub(super) fn hold_vanished(observed: &ObservedPool<'_>, plan: &mut Plan) -> usize {
    let record = &observed.pool.record;
    if record.is_empty() {
        return 0;
    }
    let present = machine_uids(observed);
    let vanished = record.reserved().filter(|target| !present.contains(&target.uid));
    let before = plan.blockers.len();
    plan.blockers.extend(vanished.map(|target| Blocker::Reservation { machine: target.name.clone() }));
    plan.blockers.len() - before
}

pub(super) fn machine_uids<'a>(observed: &'a ObservedPool<'_>) -> BTreeSet<&'a Uid> {
    observed.pool_machines().map(|machine| &machine.id.uid).collect()
}

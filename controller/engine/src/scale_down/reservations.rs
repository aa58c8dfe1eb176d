//! Reservations of machines in the removal record.

use std::collections::BTreeSet;

use crate::ids::Uid;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// The number of reserved targets that are no longer machines of the pool. They count as present, and the
/// plan reports them as blockers.
pub(crate) fn hold_vanished(observed: &ObservedPool<'_>, plan: &mut Plan) -> usize {
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
    observed.owned_machines().map(|machine| &machine.id.uid).collect()
}

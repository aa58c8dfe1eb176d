//! I3 by references: no two live machines of a pool refer to one disk once the world is settled.
//!
//! People may write such a reference, and the controller repairs it in bounded time. Whether two machines
//! ever had the disk mounted, the simulator records.

use std::collections::BTreeMap;

use super::Violation;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedState;

/// Disks that several live machines of one pool refer to.
pub fn check_shared_disks(state: &RecordedState) -> Vec<Violation> {
    let pools = state.all(TestedKind::Pool).filter(|pool| !pool.is_terminating());
    pools.flat_map(|pool| of_pool(state, pool)).collect()
}

fn of_pool(state: &RecordedState, pool: &JsonObject) -> Vec<Violation> {
    let mut holders = BTreeMap::<&str, Vec<&str>>::new();
    for machine in state.owned_by(TestedKind::Machine, pool.uid()).filter(|machine| !machine.is_terminating())
    {
        for disk in machine.disk_references() {
            holders.entry(disk).or_default().push(machine.name());
        }
    }
    let shared = holders.into_iter().filter(|(_, machines)| machines.len() > 1);
    let violation = |(disk, machines): (&str, Vec<&str>)| Violation {
        invariant: "I3",
        what: format!("machines {} of pool {} refer to disk {disk}", machines.join(", "), pool.name()),
    };
    shared.map(violation).collect()
}

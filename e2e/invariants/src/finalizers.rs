//! I9 for KubeVirt: only machines of pools have the finalizer of the pool, so that every other machine can be
//! deleted.

use std::collections::BTreeSet;

use super::Violation;
use crate::object::{JsonObject, TestedKind};
use crate::recorder::RecordedState;

/// Machines with the finalizer and without a pool, and machines of a pool without it or whose deletion it
/// holds. Call this on a settled world.
pub fn check_finalizers(state: &RecordedState) -> Vec<Violation> {
    let pools: BTreeSet<&str> = state.all(TestedKind::Pool).map(JsonObject::uid).collect();
    let machines = state.all(TestedKind::Machine).filter(|machine| machine.is_kubevirt());
    machines.filter_map(|machine| of_machine(machine, &pools)).collect()
}

fn of_machine(machine: &JsonObject, pools: &BTreeSet<&str>) -> Option<Violation> {
    let name = machine.name();
    let what =
        match (machine.has_pool_finalizer(), pools.contains(machine.owner_uid()), machine.is_terminating()) {
            (true, false, _) => format!("machine {name} has the finalizer of a pool, but no pool"),
            (true, true, true) => format!("the finalizer of the pool holds the deleted machine {name}"),
            (false, true, false) => format!("machine {name} of a pool lacks the finalizer"),
            _ => return None,
        };
    Some(Violation { invariant: "I9", what })
}

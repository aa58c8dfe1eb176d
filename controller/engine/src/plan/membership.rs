//! Markers that members lost, and markers that a machine kept after it was released.

use std::sync::Arc;

use super::{Action, Observed, Plan};
use crate::model::{Machine, Naming};
use crate::names::Namer;

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let namer = Namer::new(&observed.pool.id.name, &observed.pool.id.uid);
    let repairs: Vec<Action> = observed
        .machines
        .iter()
        .filter(|machine| !machine.terminating)
        .filter_map(|machine| repair(observed, &namer, machine))
        .collect();
    // Who fails here holds up no growth: lost markers are no reason to make no machines.
    plan.repair(observed, repairs);
}

fn repair(observed: &Observed<'_>, namer: &Namer, machine: &Machine) -> Option<Action> {
    let pool = observed.pool;
    let labelled = machine.pool_uid_label.as_ref() == Some(&pool.id.uid);
    if machine.owner.as_ref() == Some(&pool.id.uid) {
        let complete = labelled && machine.pool_label.as_ref() == Some(&pool.id.name);
        return (!complete).then(|| Action::Relabel { member: machine.id.clone() });
    }
    // A machine without a controller that carries our label was released, or was made by somebody who copied the
    // label. Only the first has a name that this pool has issued.
    let issued = pool.naming == Naming::Random
        && namer
            .number_of(&machine.id.name)
            .zip(pool.name_block)
            .is_some_and(|(number, block)| number < block.end);
    (machine.owner.is_none() && labelled && issued)
        .then(|| Action::Release { machine: machine.id.clone(), shared: shared(observed, machine) })
}

/// The disks of a released machine that a member refers to as well. One that the machine has mounted is not among them:
/// no member can have it until the machine lets go, and once it is the machine's the member gets another.
fn shared(observed: &Observed<'_>, machine: &Machine) -> Vec<Arc<str>> {
    let mounts = |disk: &Arc<str>| {
        let known = observed.disks.get(disk);
        known.is_some_and(|known| known.mounted_by.as_ref() == Some(&machine.id.name))
    };
    let has = |member: &Machine, disk: &Arc<str>| member.disks.iter().any(|device| device.disk == *disk);
    let shared = machine
        .held_disks()
        .filter(|disk| !mounts(disk) && observed.members().any(|member| has(member, disk)));
    shared.cloned().collect()
}

#[cfg(test)]
mod tests;

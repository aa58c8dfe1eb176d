//! Markers that members lost, and markers that a machine kept after it was released.

use super::{Action, Observed, Plan};
use crate::model::{Naming, Pool, Replica};
use crate::numbers::Namer;

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let namer = Namer::new(&observed.pool.id.name, &observed.pool.id.uid);
    let repairs: Vec<Action> = observed
        .machines
        .iter()
        .filter(|machine| !machine.terminating)
        .filter_map(|machine| repair(observed.pool, &namer, machine))
        .collect();
    // Who fails here holds up no growth: lost markers are no reason to make no machines.
    plan.repair(observed, repairs);
}

fn repair(pool: &Pool, namer: &Namer, machine: &Replica) -> Option<Action> {
    let labelled = machine.pool_uid_label.as_ref() == Some(&pool.id.uid);
    if machine.owner.as_ref() == Some(&pool.id.uid) {
        let complete = labelled && machine.pool_label.as_ref() == Some(&pool.id.name);
        return (!complete).then(|| Action::Relabel { member: machine.id.clone() });
    }
    // A machine without a controller that carries our label was released, or was made by somebody who copied the
    // label. Only the first has a name that this pool has issued.
    let issued = pool.naming == Naming::Scattered
        && namer
            .number_of(&machine.id.name)
            .zip(pool.block)
            .is_some_and(|(number, block)| number < block.end);
    (machine.owner.is_none() && labelled && issued).then(|| Action::Release { machine: machine.id.clone() })
}

#[cfg(test)]
mod tests;

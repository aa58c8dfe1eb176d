//! Membership: labels that machines of the pool lost, and labels that a released machine still has.

use std::sync::Arc;

use super::action::Action;
use super::observed::Observed;
use super::result::Plan;
use crate::model::{Finalizer, Machine, Membership, Naming, Pool};
use crate::names::Namer;
use crate::selector::Selector;

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let namer = Namer::new(&observed.pool.id.name, &observed.pool.id.uid);
    let repairs: Vec<Action> = observed
        .machines
        .iter()
        .filter(|machine| !machine.terminating)
        .filter_map(|machine| repair(observed, &namer, machine))
        .collect();
    // A failure here does not block creates.
    plan.repair(observed, repairs);
}

fn repair(observed: &Observed<'_>, namer: &Namer, machine: &Machine) -> Option<Action> {
    let pool = observed.pool;
    let labelled = machine.pool_uid_label.as_ref() == Some(&pool.id.uid);
    if let Membership::Selector(selector) = &pool.membership {
        return selected(pool, selector, machine);
    }
    if machine.owner.as_ref() == Some(&pool.id.uid) {
        let complete = labelled && machine.pool_label.as_ref() == Some(&pool.id.name);
        return (!complete).then(|| Action::Relabel { machine: machine.id.clone() });
    }
    // A machine without a controller owner that has the pool's label was released, or a user copied the label to it.
    // Only a released machine has a name that this pool has issued.
    let issued = pool.naming == Naming::Random
        && namer
            .number_of(&machine.id.name)
            .zip(pool.name_block)
            .is_some_and(|(number, block)| number < block.end);
    (machine.owner.is_none() && labelled && issued)
        .then(|| Action::Release { machine: machine.id.clone(), shared: shared(observed, machine) })
}

/// What a machine of a pool with a selector needs: its release if the labels do not match, or the finalizer. A machine
/// without a controller owner that still has the finalizer was released by a user.
fn selected(pool: &Pool, selector: &Selector, machine: &Machine) -> Option<Action> {
    let release = || Some(Action::Release { machine: machine.id.clone(), shared: Vec::new() });
    match &machine.owner {
        Some(owner) if *owner != pool.id.uid => None,
        Some(_) if !machine.selectable.labels.as_ref().is_none_or(|labels| selector.matches(labels)) => {
            release()
        }
        Some(_) if pool.finalizer != Finalizer::Unused && !machine.has_finalizer => {
            Some(Action::AddFinalizer { machine: machine.id.clone() })
        }
        None if machine.has_finalizer => release(),
        Some(_) | None => None,
    }
}

/// The disks of a released machine that a machine of the pool refers to as well, except those that the released machine
/// mounts. A mounted disk goes with the released machine, and the other machine gets another disk.
fn shared(observed: &Observed<'_>, machine: &Machine) -> Vec<Arc<str>> {
    let mounts = |disk: &Arc<str>| {
        let known = observed.disks.get(disk);
        known.is_some_and(|known| known.mounted_by.as_ref() == Some(&machine.id.name))
    };
    let has = |machine: &Machine, disk: &Arc<str>| machine.disks.iter().any(|device| device.disk == *disk);
    let shared = machine
        .held_disks()
        .filter(|disk| !mounts(disk) && observed.pool_machines().any(|machine| has(machine, disk)));
    shared.cloned().collect()
}

#[cfg(test)]
mod tests;

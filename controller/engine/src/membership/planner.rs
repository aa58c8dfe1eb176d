//! Membership: labels that machines of the pool lost, and labels that a released machine still has.

use std::sync::Arc;

use super::adoption;
use crate::model::{Finalizer, Machine, Membership, Naming, Pool};
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::scale_up::names::Namer;

pub(crate) fn plan_membership(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let namer = Namer::new(&observed.pool.id.name, &observed.pool.id.uid);
    let repairs: Vec<PoolAction> = observed
        .machines
        .iter()
        .filter(|machine| !machine.terminating)
        .filter_map(|machine| repair_membership(observed, &namer, machine))
        .collect();
    // A failure here does not block creates.
    plan.wants.relabel = !repairs.is_empty();
    if plan.wants.relabel {
        plan.extend_by(
            observed,
            ApplyStage::Relabel,
            observed.memory.backoff(ApplyStage::Relabel).batch_size(observed.uptime),
            repairs,
        );
    }
}

fn repair_membership(observed: &ObservedPool<'_>, namer: &Namer, machine: &Machine) -> Option<PoolAction> {
    let pool = observed.pool;
    let labelled = machine.pool_uid_label.as_ref() == Some(&pool.id.uid);
    if let Membership::Selector(_) = &pool.membership {
        return repair_selector_membership(pool, machine);
    }
    // The platform copies the labels of a machine to its Pods, so a standby machine lacks them.
    if machine.belongs_to(&pool.id) && machine.standby.is_some() {
        return None;
    }
    if machine.belongs_to(&pool.id) {
        let complete = labelled && machine.pool_label.as_ref() == Some(&pool.id.name);
        return (!complete).then(|| PoolAction::Relabel { machine: machine.id.clone() });
    }
    // A machine without a controller owner that has the pool's label was released, or a user copied the label
    // to it.
    (machine.owner.is_none()
        && labelled
        && (has_issued_name(pool, namer, machine) || has_disk_of_pool(observed, machine)))
    .then(|| PoolAction::Release {
        machine: machine.id.clone(),
        shared: disks_shared_with_pool(observed, machine),
    })
}

/// Whether this pool has issued the name of the machine. A foreign machine has no such name.
fn has_issued_name(pool: &Pool, namer: &Namer, machine: &Machine) -> bool {
    let number = namer.number_of(&machine.id.name).zip(pool.name_block);
    pool.naming == Naming::Random && number.is_some_and(|(number, block)| number < block.end)
}

/// Whether the machine has an ephemeral disk of this pool, or has a revision of this pool and mounts a
/// retained disk. Another controller chose the name of a migrated machine, so only its disks show that it was
/// in the pool. The disks of a machine that a user copied belong to the original.
fn has_disk_of_pool(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let pool = &observed.pool.id;
    machine.held_disks().filter_map(|disk| observed.disks.get(disk)).any(|disk| {
        let is_ephemeral = disk.is_of_machine(&machine.id) && disk.pool_uid_label.as_ref() == Some(&pool.uid);
        let mounts = disk.mounted_by.as_ref() == Some(&machine.id.name);
        is_ephemeral || disk.belongs_to(pool) && mounts && !adoption::is_anothers(observed, machine)
    })
}

/// What a machine of a pool with a selector needs: its release if the labels do not match, or the finalizer.
/// A machine without a controller owner that still has the finalizer was released by a user.
fn repair_selector_membership(pool: &Pool, machine: &Machine) -> Option<PoolAction> {
    let release = || Some(PoolAction::Release { machine: machine.id.clone(), shared: Vec::new() });
    match &machine.owner {
        Some(owner) if !owner.is_pool(&pool.id) => None,
        Some(_) if !pool.includes(machine) => release(),
        Some(_) if pool.finalizer != Finalizer::Unused && !machine.has_finalizer => {
            Some(PoolAction::AddFinalizer { machine: machine.id.clone() })
        }
        None if machine.has_finalizer => release(),
        Some(_) | None => None,
    }
}

/// The disks of a released machine that a machine of the pool refers to as well, except those that the
/// released machine mounts. A mounted disk goes with the released machine, and the other machine gets another
/// disk.
fn disks_shared_with_pool(observed: &ObservedPool<'_>, machine: &Machine) -> Vec<Arc<str>> {
    let mounts = |disk: &Arc<str>| {
        let known = observed.disks.get(disk);
        known.is_some_and(|known| known.mounted_by.as_ref() == Some(&machine.id.name))
    };
    let has = |machine: &Machine, disk: &Arc<str>| machine.disks.iter().any(|device| device.disk == *disk);
    let shared = machine
        .held_disks()
        .filter(|disk| !mounts(disk) && observed.owned_machines().any(|machine| has(machine, disk)));
    shared.cloned().collect()
}

#[cfg(test)]
mod tests;

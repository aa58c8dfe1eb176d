//! Edits by users: a device for a disk that another machine keeps, and a disk map that names such a disk.
//!
//! If a user removes or adds a device, the change stays, with one exception: two machines of the pool must
//! not refer to one disk. The machine that must detach the disk gets back the disk that its disk map names,
//! if one is detached. Otherwise the controller removes the device.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::allocation::FreeDisks;
use crate::ids::ObjectId;
use crate::model::{DetachedDisk, Disk, DiskDraft, DiskRef, DiskSource, Lifetime, Machine, PoolDiskTemplate};
use crate::plan::action::PoolAction;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;

/// The live machines of a pool by name and UID. The index is built at its first use, because users rarely
/// edit devices.
#[derive(Default)]
pub(super) struct MachineIndex<'a>(OnceCell<BTreeMap<&'a ObjectId, &'a Machine>>);

impl<'a> MachineIndex<'a> {
    pub(super) fn get(&self, observed: &'a ObservedPool<'_>, id: &ObjectId) -> Option<&'a Machine> {
        let live = || observed.owned_machines().filter(|machine| !machine.terminating);
        let index = || live().map(|machine| (&machine.id, &**machine)).collect();
        self.0.get_or_init(index).get(id).copied()
    }
}

/// The repair of a device of `machine` that its disk map does not name.
pub(super) fn repair_edited_device<'a>(
    observed: &'a ObservedPool<'_>,
    machines: &MachineIndex<'a>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Machine,
    device: &DiskRef,
) -> Option<Result<PoolAction, Blocker>> {
    let disk = observed.disks.get(&device.disk)?;
    if !free_disks.must_detach(&machine.id.name, &device.disk) {
        let Some(owner) = find_other_owner(observed, machines, machine, disk) else {
            return mounted_elsewhere(machine, disk).map(Err);
        };
        let elsewhere = disk.mounted_by.as_ref().is_some_and(|user| *user != machine.id.name);
        if machine.runs() && !elsewhere {
            return Some(Err(Blocker::UserAction(format!(
                "machine {} runs on disk {}, which belongs to machine {owner} and is deleted with it: stop machine \
                 {}, so that the controller can detach the disk",
                machine.id, device.disk, machine.id
            ))));
        }
    }
    let position = device.position;
    let Some((template, vacant)) = find_disk_to_reattach(observed, machine, disk) else {
        if machine.disks.len() > 1 {
            let (machine, disk) = (machine.id.clone(), device.disk.clone());
            return Some(Ok(PoolAction::Detach { machine, position, disk }));
        }
        return Some(Err(Blocker::UserAction(format!(
            "the only device of machine {} is disk {}, which another machine keeps: add another device, or delete \
             the machine",
            machine.id, device.disk
        ))));
    };
    let to = match usable_detached_disk(observed, machine, vacant) {
        Some(own) => Ok(own),
        None => free_disks.replacement(template, machine),
    };
    let from = device.disk.clone();
    Some(to.map(|to| PoolAction::Repoint { machine: machine.id.clone(), position, from, to }))
}

/// A machine outside of the pool has mounted this disk, so `machine` waits for it. Nothing is detached: the
/// owner of the disk may want to give it to the machine.
fn mounted_elsewhere(machine: &Machine, disk: &Disk) -> Option<Blocker> {
    let user = disk.mounted_by.as_ref().filter(|user| **user != machine.id.name)?;
    Some(Blocker::UserAction(format!(
        "machine {} refers to disk {}, which machine {user} uses: remove the device, or stop machine {user}",
        machine.id, disk.id
    )))
}

/// The machine that owns this disk and refers to it, if it is not `machine`.
fn find_other_owner<'a>(
    observed: &'a ObservedPool<'_>,
    machines: &MachineIndex<'a>,
    machine: &Machine,
    disk: &Disk,
) -> Option<&'a Arc<str>> {
    let owner = disk.owner.as_ref()?.as_machine().filter(|owner| **owner != machine.id)?;
    let owner = machines.get(observed, owner)?;
    refers_to_disk(owner, &disk.id.name).then_some(&owner.id.name)
}

fn refers_to_disk(machine: &Machine, disk: &str) -> bool {
    machine.disks.iter().any(|device| *device.disk == *disk)
}

/// The detached disk of `machine` that the device for `disk` replaces: one of the same template, or else any.
fn find_disk_to_reattach<'a>(
    observed: &'a ObservedPool<'_>,
    machine: &'a Machine,
    disk: &Disk,
) -> Option<(&'a PoolDiskTemplate, &'a DetachedDisk)> {
    let vacancies = machine.detached.iter().filter_map(|vacant| {
        let mut used = observed.pool.disks.iter().filter(|template| template.used);
        Some((used.find(|template| template.name == vacant.template)?, vacant))
    });
    vacancies.min_by_key(|(template, _)| disk.template.as_ref() != Some(&template.name))
}

/// The detached disk of a machine, if the machine can use it. The next pass creates a disk that does not
/// exist.
fn usable_detached_disk(
    observed: &ObservedPool<'_>,
    machine: &Machine,
    vacant: &DetachedDisk,
) -> Option<DiskDraft> {
    let (name, template) = (vacant.disk.clone(), vacant.template.clone());
    let Some(disk) = observed.disks.get(&name) else { return Some(DiskDraft::new(name, template)) };
    let mounted_elsewhere = disk.mounted_by.as_ref().is_some_and(|user| *user != machine.id.name);
    let fits = is_disk_of_machine(observed, machine, disk)
        && disk.is_usable()
        && !(disk.terminating || disk.used_otherwise || mounted_elsewhere)
        && !has_another(observed, machine, &name);
    fits.then(|| DiskDraft { name, template, source: DiskSource::Existing(disk.id.clone()) })
}

fn is_disk_of_machine(observed: &ObservedPool<'_>, machine: &Machine, disk: &Disk) -> bool {
    disk.belongs_to(&observed.pool.id) || disk.is_of_machine(&machine.id)
}

/// Whether another machine or an attachment refers to the disk.
fn has_another(observed: &ObservedPool<'_>, machine: &Machine, disk: &str) -> bool {
    let others = observed.other_users.get(disk).is_some_and(|others| !others.is_empty());
    others || observed.machines.iter().any(|other| other.id != machine.id && refers_to_disk(other, disk))
}

/// Corrects a disk map that names a disk which the machine cannot use, if a device of the machine shows which
/// disk fills the template. A disk map that names a disk of the machine stays, because that disk contains
/// data that a user detached.
pub(super) fn correct_disk_map(
    observed: &ObservedPool<'_>,
    free_disks: &FreeDisks<'_>,
    machine: &Machine,
) -> Option<PoolAction> {
    machine.detached.iter().find_map(|vacant| {
        let template = observed.pool.disks.iter().find(|template| template.name == vacant.template)?;
        let named = observed.disks.get(&vacant.disk);
        let is_void = |named: &Arc<Disk>| {
            !is_disk_of_machine(observed, machine, named) || has_another(observed, machine, &vacant.disk)
        };
        if !named.is_none_or(is_void) {
            return None;
        }
        let fills = |device: &&DiskRef| {
            let Some(disk) = observed.disks.get(&device.disk) else { return false };
            let is_owned = match template.lifetime {
                Lifetime::Ephemeral => disk.is_of_machine(&machine.id),
                Lifetime::Retained => disk.belongs_to(&observed.pool.id),
            };
            device.template.is_none()
                && disk.template.as_ref() == Some(&template.name)
                && is_owned
                && !disk.terminating
                && !free_disks.must_detach(&machine.id.name, &device.disk)
        };
        let device = machine.disks.iter().find(fills)?;
        let source = DiskSource::Existing(observed.disks.get(&device.disk)?.id.clone());
        let to = DiskDraft { name: device.disk.clone(), template: template.name.clone(), source };
        let (machine, from) = (machine.id.clone(), device.disk.clone());
        Some(PoolAction::Repoint { machine, position: device.position, from, to })
    })
}

#[cfg(test)]
mod tests;

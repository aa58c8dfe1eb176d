//! What a person edited by hand: a device for a disk that another machine keeps, and a disk map that names one.
//!
//! A device that a person removed stays removed, and a device that a person added stays, with one exception: no two
//! members may refer to one disk. The member that loses the disk gets back what its disk map names, if one of its disks is
//! detached; otherwise the device is taken away.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::allocation::{FreeDisks, is_usable};
use super::super::{Action, Blocker, Observed};
use super::runs;
use crate::model::{
    DetachedDisk, Disk, DiskDraft, DiskRef, DiskSource, DiskTemplate, Lifetime, Machine, Uid,
};

/// The members of a pool by UID; made when it is needed first, since hardly any device was edited by hand.
#[derive(Default)]
pub(super) struct Members<'a>(OnceCell<BTreeMap<&'a Uid, &'a Machine>>);

impl<'a> Members<'a> {
    pub(super) fn get(&self, observed: &'a Observed<'_>, uid: &Uid) -> Option<&'a Machine> {
        let live = || observed.members().filter(|member| !member.terminating);
        let index = || live().map(|member| (&member.id.uid, &**member)).collect();
        self.0.get_or_init(index).get(uid).copied()
    }
}

/// What to do about a device of `member` that its disk map does not name.
pub(super) fn device<'a>(
    observed: &'a Observed<'_>,
    members: &Members<'a>,
    free_disks: &mut FreeDisks<'_>,
    (member, device): (&Machine, &DiskRef),
) -> Option<Result<Action, Blocker>> {
    let disk = observed.disks.get(&device.disk)?;
    if !free_disks.must_detach(&member.id.name, &device.disk) {
        let owner = owner(observed, members, member, disk)?;
        let elsewhere = disk.mounted_by.as_ref().is_some_and(|machine| *machine != member.id.name);
        if runs(member) && !elsewhere {
            return Some(Err(Blocker::UserAction(format!(
                "machine {} runs on disk {}, which belongs to machine {owner} and ends with it: stop machine {} to \
                 take the disk away from it",
                member.id, device.disk, member.id
            ))));
        }
    }
    let position = device.position;
    let Some((template, vacant)) = vacant(observed, member, disk) else {
        if member.disks.len() > 1 {
            let (member, disk) = (member.id.clone(), device.disk.clone());
            return Some(Ok(Action::Detach { member, position, disk }));
        }
        return Some(Err(Blocker::UserAction(format!(
            "machine {} has no device but disk {}, which another machine keeps: give it another device, or delete it",
            member.id, device.disk
        ))));
    };
    let to = match own(observed, member, vacant) {
        Some(own) => Ok(own),
        None => free_disks.replacement(template, member),
    };
    let from = device.disk.clone();
    Some(to.map(|to| Action::Repoint { member: member.id.clone(), position, from, to }))
}

/// The member that owns this disk and refers to it, if it is another one than `member`.
fn owner<'a>(
    observed: &'a Observed<'_>,
    members: &Members<'a>,
    member: &Machine,
    disk: &Disk,
) -> Option<&'a Arc<str>> {
    let known = [&observed.pool.id.uid, &member.id.uid];
    let owner = disk.owner.as_ref().filter(|owner| !known.contains(&&owner.uid))?;
    let owner = members.get(observed, &owner.uid)?;
    refers(owner, &disk.id.name).then_some(&owner.id.name)
}

fn refers(machine: &Machine, disk: &str) -> bool {
    machine.disks.iter().any(|device| *device.disk == *disk)
}

/// The detached disk of `member` that a device for `disk` stands in place of: one of the same template, or else any.
fn vacant<'a>(
    observed: &'a Observed<'_>,
    member: &'a Machine,
    disk: &Disk,
) -> Option<(&'a DiskTemplate, &'a DetachedDisk)> {
    let vacancies = member.detached.iter().filter_map(|vacant| {
        let mut used = observed.pool.disks.iter().filter(|template| template.used);
        Some((used.find(|template| template.name == vacant.template)?, vacant))
    });
    vacancies.min_by_key(|(template, _)| disk.template.as_ref() != Some(&template.name))
}

/// The detached disk of a member, if the member can have it back. One that does not exist is made by the next pass.
fn own(observed: &Observed<'_>, member: &Machine, vacant: &DetachedDisk) -> Option<DiskDraft> {
    let (name, template) = (vacant.disk.clone(), vacant.template.clone());
    let Some(disk) = observed.disks.get(&name) else { return Some(DiskDraft::new(name, template)) };
    let mounted_elsewhere = disk.mounted_by.as_ref().is_some_and(|machine| *machine != member.id.name);
    let fits = is_own(observed, member, disk)
        && is_usable(disk)
        && !(disk.terminating || disk.used_otherwise || mounted_elsewhere)
        && !has_another(observed, member, &name);
    fits.then(|| DiskDraft { name, template, source: DiskSource::Held(disk.id.clone()) })
}

fn is_own(observed: &Observed<'_>, member: &Machine, disk: &Disk) -> bool {
    let owners = [&observed.pool.id.uid, &member.id.uid];
    disk.owner.as_ref().is_some_and(|owner| owners.contains(&&owner.uid))
}

/// Whether another machine or an attachment refers to the disk.
fn has_another(observed: &Observed<'_>, member: &Machine, disk: &str) -> bool {
    let others = observed.others.get(disk).is_some_and(|others| !others.is_empty());
    others || observed.machines.iter().any(|machine| machine.id != member.id && refers(machine, disk))
}

/// Corrects a disk map that names a disk which the member cannot have, where a device of the member shows which disk
/// fills the template. A map that names a disk of the member's own stays: that disk holds data which a person detached.
pub(super) fn map(observed: &Observed<'_>, free_disks: &FreeDisks<'_>, member: &Machine) -> Option<Action> {
    member.detached.iter().find_map(|vacant| {
        let template = observed.pool.disks.iter().find(|template| template.name == vacant.template)?;
        let named = observed.disks.get(&vacant.disk);
        let is_void = |named: &Arc<Disk>| {
            !is_own(observed, member, named) || has_another(observed, member, &vacant.disk)
        };
        if !named.is_none_or(is_void) {
            return None;
        }
        let fills = |device: &&DiskRef| {
            let Some(disk) = observed.disks.get(&device.disk) else { return false };
            let owner = match template.lifetime {
                Lifetime::Ephemeral => &member.id.uid,
                Lifetime::Retained => &observed.pool.id.uid,
            };
            device.template.is_none()
                && disk.template.as_ref() == Some(&template.name)
                && disk.owner.as_ref().is_some_and(|found| found.uid == *owner)
                && !disk.terminating
                && !free_disks.must_detach(&member.id.name, &device.disk)
        };
        let device = member.disks.iter().find(fills)?;
        let source = DiskSource::Held(observed.disks.get(&device.disk)?.id.clone());
        let to = DiskDraft { name: device.disk.clone(), template: template.name.clone(), source };
        let (member, from) = (member.id.clone(), device.disk.clone());
        Some(Action::Repoint { member, position: device.position, from, to })
    })
}

#[cfg(test)]
mod tests;

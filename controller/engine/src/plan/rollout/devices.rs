//! The disks for the devices of a machine that an update writes.

use std::sync::Arc;

use super::state::{is_anothers, keeps, leftovers};
use super::{FreeDisks, Observed};
use crate::model::{DiskDraft, DiskRef, DiskSource, DiskTemplate, Lifetime, Machine};
use crate::names::DISK_LENGTH;
use crate::plan::Blocker;

/// One disk for each disk template of the revision, except those whose disk is detached, and the disks of earlier
/// templates that the machine must keep.
///
/// # Errors
/// The machine must wait for a disk.
pub(super) fn drafts(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Machine,
) -> Result<Vec<DiskDraft>, Blocker> {
    // A device that a user removed is not attached again.
    let used = observed.pool.disks.iter().filter(|template| template.used && !is_detached(machine, template));
    let mut drafts = Vec::with_capacity(machine.disks.len());
    for template in used {
        drafts.push(match unmapped(observed, machine, template) {
            Some(device) => held(observed, device, &template.name),
            None => match free_disks.disk_for(machine, template) {
                Ok(draft) => draft,
                Err(blocker) => {
                    free_disks.return_disks(drafts);
                    return Err(blocker);
                }
            },
        });
    }
    let kept = leftovers(observed.pool, machine).filter(|device| keeps(machine, device));
    for device in kept {
        let template = device.template.as_ref().expect("only a device of a template can be left over");
        // A disk that does not exist cannot be created any more, and no running machine needs it.
        if observed.disks.contains_key(&device.disk) {
            drafts.push(held(observed, device, template));
        }
    }
    Ok(drafts)
}

/// Whether the disk map of the machine names a disk for this template that no device refers to.
fn is_detached(machine: &Machine, template: &DiskTemplate) -> bool {
    machine.detached.iter().any(|detached| detached.template == template.name)
}

/// The device that fills `template` in a machine whose disk map does not contain it, because another controller created
/// the machine: a disk of the machine or the pool with the label of the template, or with the name that such a disk
/// gets. A disk that does not exist is recognized only by its name.
fn unmapped<'a>(
    observed: &Observed<'_>,
    machine: &'a Machine,
    template: &DiskTemplate,
) -> Option<&'a DiskRef> {
    let mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
    if machine.disks.iter().all(|device| device.template.is_some()) || machine.disks.iter().any(mapped) {
        return None;
    }
    let own_name = |device: &DiskRef| {
        let rest = device.disk.strip_prefix(&*machine.id.name).and_then(|rest| rest.strip_prefix('-'));
        rest == Some(&*template.name)
    };
    let kept_name = |device: &DiskRef| {
        let rest = device.disk.strip_prefix(&*observed.pool.id.name).and_then(|rest| rest.strip_prefix('-'));
        let rest = rest.and_then(|rest| rest.strip_prefix(&*template.name)?.strip_prefix('-'));
        rest.is_some_and(|suffix| {
            suffix.len() == DISK_LENGTH && suffix.bytes().all(|c| c.is_ascii_alphanumeric())
        })
    };
    machine.disks.iter().filter(|device| device.template.is_none()).find(|device| {
        let Some(disk) = observed.disks.get(&device.disk) else {
            return match template.lifetime {
                Lifetime::Ephemeral => own_name(device),
                Lifetime::Retained => kept_name(device),
            };
        };
        let owner = match template.lifetime {
            Lifetime::Ephemeral => &machine.id.uid,
            Lifetime::Retained => &observed.pool.id.uid,
        };
        let ours = disk.owner.as_ref().is_some_and(|found| found.uid == *owner);
        ours && (disk.template.as_ref() == Some(&template.name) || own_name(device))
    })
}

/// The devices and disk templates of a machine that another controller created, as far as its disk map does not contain
/// them.
pub(in crate::plan) fn recognised<'a>(
    observed: &'a Observed<'_>,
    machine: &'a Machine,
) -> impl Iterator<Item = (&'a DiskRef, &'a DiskTemplate)> {
    let templates = if is_anothers(observed, machine) { &observed.pool.disks[..] } else { &[] };
    let used = templates.iter().filter(|template| template.used);
    used.filter_map(|template| unmapped(observed, machine, template).map(|device| (device, template)))
}

/// Whether the machine has a disk for every disk template of the revision and none for other templates, so that an
/// update changes no device.
pub(super) fn are_complete(observed: &Observed<'_>, machine: &Machine) -> bool {
    let filled = |template: &DiskTemplate| {
        if is_detached(machine, template) {
            return true;
        }
        let mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
        let device = machine.disks.iter().find(|device| mapped(device));
        let device = device.or_else(|| unmapped(observed, machine, template));
        device.is_some_and(|device| observed.disks.contains_key(&device.disk))
    };
    leftovers(observed.pool, machine).next().is_none()
        && observed.pool.disks.iter().filter(|template| template.used).all(filled)
}

/// Whether the machine refers to a disk with the name of a disk template, and no device fills that template. Another
/// controller that resolves such names later created the machine and exited before it did. That name must not be used
/// as the name of a disk.
pub(super) fn has_placeholder(observed: &Observed<'_>, machine: &Machine) -> bool {
    machine.disks.iter().any(|device| {
        let template = || observed.pool.disks.iter().find(|template| template.name == device.disk);
        device.template.is_none()
            && template().is_some_and(|template| unmapped(observed, machine, template).is_none())
            && !machine.disks.iter().any(|other| other.template.as_ref() == Some(&device.disk))
    })
}

fn held(observed: &Observed<'_>, device: &DiskRef, template: &Arc<str>) -> DiskDraft {
    let source = match observed.disks.get(&device.disk) {
        Some(disk) => DiskSource::Existing(disk.id.clone()),
        // A later pass creates it, when the disk map of the machine names it.
        None => DiskSource::New,
    };
    DiskDraft { name: device.disk.clone(), template: template.clone(), source }
}

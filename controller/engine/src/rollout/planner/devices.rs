//! The disks for the devices of a machine that an update writes.

use super::super::progress::{keeps_leftover_device, leftover_devices};
use crate::disks::allocation::FreeDisks;
use crate::membership::adoption::find_unmapped_device;
use crate::model::{DiskDraft, DiskRef, DiskSource, Machine, PoolDiskTemplate};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use std::sync::Arc;

/// One disk for each disk template of the revision, except those whose disk is detached, and the disks of
/// earlier templates that the machine must keep.
///
/// # Errors
/// The machine must wait for a disk.
pub(crate) fn draft_machine_disks(
    observed: &ObservedPool<'_>,
    free_disks: &mut FreeDisks<'_>,
    machine: &Machine,
) -> Result<Vec<DiskDraft>, Blocker> {
    // A device that a user removed is not attached again.
    let used = observed.pool.disks.iter().filter(|template| template.used && !is_detached(machine, template));
    let mut drafts = Vec::with_capacity(machine.disks.len());
    for template in used {
        drafts.push(match find_unmapped_device(observed, machine, template) {
            Some(device) => draft_attached_disk(observed, device, &template.name),
            None => match free_disks.disk_for(machine, template) {
                Ok(draft) => draft,
                Err(blocker) => {
                    free_disks.return_disks(drafts);
                    return Err(blocker);
                }
            },
        });
    }
    let kept =
        leftover_devices(observed.pool, machine).filter(|device| keeps_leftover_device(machine, device));
    for device in kept {
        let template = device.template.as_ref().expect("only a device of a template can be left over");
        // A disk that does not exist cannot be created any more, and no running machine needs it.
        if observed.disks.contains_key(&device.disk) {
            drafts.push(draft_attached_disk(observed, device, template));
        }
    }
    Ok(drafts)
}

/// Whether the disk map of the machine names a disk for this template that no device refers to.
fn is_detached(machine: &Machine, template: &PoolDiskTemplate) -> bool {
    machine.detached.iter().any(|detached| detached.template == template.name)
}

/// Whether the machine has a disk for every disk template of the revision and none for other templates, so
/// that an update changes no device.
pub(super) fn are_complete(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let filled = |template: &PoolDiskTemplate| {
        if is_detached(machine, template) {
            return true;
        }
        let mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
        let device = machine.disks.iter().find(|device| mapped(device));
        let device = device.or_else(|| find_unmapped_device(observed, machine, template));
        device.is_some_and(|device| observed.disks.contains_key(&device.disk))
    };
    leftover_devices(observed.pool, machine).next().is_none()
        && observed.pool.disks.iter().filter(|template| template.used).all(filled)
}

/// Whether the machine has no device for a disk template of the revision, and no user removed it.
pub(crate) fn lacks_device(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let lacks = |template: &PoolDiskTemplate| {
        let is_mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
        !is_detached(machine, template)
            && !machine.disks.iter().any(is_mapped)
            && find_unmapped_device(observed, machine, template).is_none()
    };
    observed.pool.disks.iter().filter(|template| template.used).any(lacks)
}

fn draft_attached_disk(observed: &ObservedPool<'_>, device: &DiskRef, template: &Arc<str>) -> DiskDraft {
    let source = match observed.disks.get(&device.disk) {
        Some(disk) => DiskSource::Existing(disk.id.clone()),
        // A later pass creates it, when the disk map of the machine names it.
        None => DiskSource::New,
    };
    DiskDraft { name: device.disk.clone(), template: template.clone(), source }
}

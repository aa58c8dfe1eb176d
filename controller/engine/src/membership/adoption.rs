//! Machines of other controllers: how the planners recognize them and their disks.

use crate::model::{DiskRef, Lifetime, Machine, PoolDiskTemplate};
use crate::plan::observed::ObservedPool;
use crate::revisions::RevisionId;
use crate::scale_up::names::DISK_LENGTH;

/// Whether another controller created the machine: no known revision of the pool was written to it.
pub(crate) fn is_anothers(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let ours =
        |written: &RevisionId| *written == observed.pool.revision.id || observed.stored.contains(written);
    !machine.written.as_ref().is_some_and(ours)
}

/// The devices and disk templates of a machine that another controller created, as far as its disk map does
/// not contain them.
pub(crate) fn recognized_devices<'a>(
    observed: &'a ObservedPool<'_>,
    machine: &'a Machine,
) -> impl Iterator<Item = (&'a DiskRef, &'a PoolDiskTemplate)> {
    let templates = if is_anothers(observed, machine) { &observed.pool.disks[..] } else { &[] };
    let used = templates.iter().filter(|template| template.used);
    used.filter_map(|template| {
        find_unmapped_device(observed, machine, template).map(|device| (device, template))
    })
}

/// The device that fills `template` in a machine whose disk map does not contain it, because another
/// controller created the machine: a disk of the machine or the pool with the label of the template, or with
/// the name that such a disk gets. A disk that does not exist is recognized only by its name.
pub(crate) fn find_unmapped_device<'a>(
    observed: &ObservedPool<'_>,
    machine: &'a Machine,
    template: &PoolDiskTemplate,
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
        let ours = match template.lifetime {
            Lifetime::Ephemeral => disk.is_of_machine(&machine.id),
            Lifetime::Retained => disk.belongs_to(&observed.pool.id),
        };
        ours && (disk.template.as_ref() == Some(&template.name) || own_name(device))
    })
}

/// Whether the machine refers to a disk with the name of a disk template, and no device fills that template.
/// Another controller that resolves such names later created the machine and exited before it did. That name
/// must not be used as the name of a disk.
pub(crate) fn has_placeholder(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    machine.disks.iter().any(|device| {
        let template = || observed.pool.disks.iter().find(|template| template.name == device.disk);
        device.template.is_none()
            && template().is_some_and(|template| find_unmapped_device(observed, machine, template).is_none())
            && !machine.disks.iter().any(|other| other.template.as_ref() == Some(&device.disk))
    })
}

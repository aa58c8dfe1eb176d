//! Which disks the devices of a member shall be once a revision is written to it.

use std::sync::Arc;

use super::state::{is_anothers, keeps, leftovers};
use super::{FreeDisks, Observed};
use crate::model::{DiskDraft, DiskRef, DiskSource, DiskTemplate, Lifetime, Machine};
use crate::names::DISK_LENGTH;
use crate::plan::Blocker;

/// The disks for every template of the revision but those whose disk is detached, and those of earlier templates that the
/// member has to keep.
///
/// # Errors
/// The member has to wait for a disk.
pub(super) fn drafts(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    member: &Machine,
) -> Result<Vec<DiskDraft>, Blocker> {
    // A device that a person removed is not attached again.
    let used = observed.pool.disks.iter().filter(|template| template.used && !is_detached(member, template));
    let mut drafts = Vec::with_capacity(member.disks.len());
    for template in used {
        drafts.push(match unmapped(observed, member, template) {
            Some(device) => held(observed, device, &template.name),
            None => match free_disks.disk_for(member, template) {
                Ok(draft) => draft,
                Err(blocker) => {
                    free_disks.return_disks(drafts);
                    return Err(blocker);
                }
            },
        });
    }
    let kept = leftovers(observed.pool, member).filter(|device| keeps(member, device));
    for device in kept {
        let template = device.template.as_ref().expect("only a device of a template can be left over");
        // What does not exist cannot be made any more, and keeps nobody running.
        if observed.disks.contains_key(&device.disk) {
            drafts.push(held(observed, device, template));
        }
    }
    Ok(drafts)
}

/// Whether the disk map of the member names a disk for this template that no device refers to.
fn is_detached(member: &Machine, template: &DiskTemplate) -> bool {
    member.detached.iter().any(|detached| detached.template == template.name)
}

/// The device that fills `template` in a member whose disk map does not say so, because another controller made it: a
/// disk of the member or the pool with that label, or one that has the name which such a disk gets. Of one that does not
/// exist the name is all that there is.
fn unmapped<'a>(
    observed: &Observed<'_>,
    member: &'a Machine,
    template: &DiskTemplate,
) -> Option<&'a DiskRef> {
    let mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
    if member.disks.iter().all(|device| device.template.is_some()) || member.disks.iter().any(mapped) {
        return None;
    }
    let own_name = |device: &DiskRef| {
        let rest = device.disk.strip_prefix(&*member.id.name).and_then(|rest| rest.strip_prefix('-'));
        rest == Some(&*template.name)
    };
    let kept_name = |device: &DiskRef| {
        let rest = device.disk.strip_prefix(&*observed.pool.id.name).and_then(|rest| rest.strip_prefix('-'));
        let rest = rest.and_then(|rest| rest.strip_prefix(&*template.name)?.strip_prefix('-'));
        rest.is_some_and(|suffix| {
            suffix.len() == DISK_LENGTH && suffix.bytes().all(|c| c.is_ascii_alphanumeric())
        })
    };
    member.disks.iter().filter(|device| device.template.is_none()).find(|device| {
        let Some(disk) = observed.disks.get(&device.disk) else {
            return match template.lifetime {
                Lifetime::Ephemeral => own_name(device),
                Lifetime::Retained => kept_name(device),
            };
        };
        let owner = match template.lifetime {
            Lifetime::Ephemeral => &member.id.uid,
            Lifetime::Retained => &observed.pool.id.uid,
        };
        let ours = disk.owner.as_ref().is_some_and(|found| found.uid == *owner);
        ours && (disk.template.as_ref() == Some(&template.name) || own_name(device))
    })
}

/// What fills which template in a member that another controller made, as far as its disk map does not say so.
pub(in crate::plan) fn recognised<'a>(
    observed: &'a Observed<'_>,
    member: &'a Machine,
) -> impl Iterator<Item = (&'a DiskRef, &'a DiskTemplate)> {
    let templates = if is_anothers(observed, member) { &observed.pool.disks[..] } else { &[] };
    let used = templates.iter().filter(|template| template.used);
    used.filter_map(|template| unmapped(observed, member, template).map(|device| (device, template)))
}

/// Whether the member has a disk for every template of the revision, and none of another: then no device changes.
pub(super) fn are_complete(observed: &Observed<'_>, member: &Machine) -> bool {
    let filled = |template: &DiskTemplate| {
        if is_detached(member, template) {
            return true;
        }
        let mapped = |device: &DiskRef| device.template.as_ref() == Some(&template.name);
        let device = member.disks.iter().find(|device| mapped(device));
        let device = device.or_else(|| unmapped(observed, member, template));
        device.is_some_and(|device| observed.disks.contains_key(&device.disk))
    };
    leftovers(observed.pool, member).next().is_none()
        && observed.pool.disks.iter().filter(|template| template.used).all(filled)
}

/// Whether the member refers to a disk that is called like a template, where none of its devices fills that template: it
/// was made by a controller that resolves such names later, and died before. Nobody may take that name for a disk.
pub(super) fn has_placeholder(observed: &Observed<'_>, member: &Machine) -> bool {
    member.disks.iter().any(|device| {
        let template = || observed.pool.disks.iter().find(|template| template.name == device.disk);
        device.template.is_none()
            && template().is_some_and(|template| unmapped(observed, member, template).is_none())
            && !member.disks.iter().any(|other| other.template.as_ref() == Some(&device.disk))
    })
}

fn held(observed: &Observed<'_>, device: &DiskRef, template: &Arc<str>) -> DiskDraft {
    let source = match observed.disks.get(&device.disk) {
        Some(disk) => DiskSource::Held(disk.id.clone()),
        // It is made once the member says that it is its own.
        None => DiskSource::New,
    };
    DiskDraft { name: device.disk.clone(), template: template.clone(), source }
}

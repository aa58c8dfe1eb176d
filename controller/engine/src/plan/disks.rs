//! Disks that a member refers to and that do not exist, belong to somebody else, cannot be used, or are too small.
//!
//! The walk goes over the members' own disk maps and devices, not over the disks: a disk that was never created leaves no
//! object to find, and a person may have edited either of them ([`edited`]). A member that another controller made, and that has no map as long as nothing was written to it, counts with
//! what its disks can be recognised by: it is repaired while rollouts are paused as well.

mod edited;
mod failed;

use std::sync::Arc;

use super::allocation::{FreeDisks, is_usable};
use super::{Action, Blocker, Observed, Plan, Repairs, expand, rollout};
use crate::backoff::FailureReason;
use crate::model::{Activity, Disk, DiskDraft, DiskRef, DiskTemplate, Lifetime, Machine, ObjectId};

/// What a look at the members' disks has found.
pub(super) struct Found {
    /// Whether the plan gives all members the disks that they lack.
    pub(super) repairs: Repairs,
    /// Disks of members that must become larger.
    pub(super) growth: Vec<Action>,
}

/// A device of a member that is not as it should be.
struct Odd<'a> {
    member: &'a Machine,
    device: &'a DiskRef,
    /// Name of the template that it fills.
    name: &'a Arc<str>,
    template: Option<&'a DiskTemplate>,
    disk: Option<&'a Disk>,
}

/// Plans the repairs.
pub(super) fn plan(observed: &Observed<'_>, free_disks: &mut FreeDisks<'_>, plan: &mut Plan) -> Found {
    let (mut growth, mut odd, mut strays) = (Vec::new(), Vec::new(), Vec::new());
    for member in observed.members().filter(|member| !member.terminating) {
        let mapped = member.disks.iter().filter_map(|device| Some((device, device.template.as_ref()?)));
        let recognised = rollout::recognised(observed, member);
        let recognised: Vec<_> = recognised.map(|(device, template)| (device, &template.name)).collect();
        let is_known = |device: &DiskRef| recognised.iter().any(|(known, _)| known.disk == device.disk);
        let unknown = member.disks.iter().filter(|device| device.template.is_none() && !is_known(device));
        strays.extend(unknown.map(|device| (&**member, device)));
        for (device, name) in mapped.chain(recognised.iter().copied()) {
            let template = observed.pool.disks.iter().find(|known| known.name == *name);
            let disk = observed.disks.get(&device.disk).map(|disk| &**disk);
            match (template, disk) {
                (Some(template), Some(disk))
                    if disk.owner.as_ref() == Some(&member.id) && !failed::strands(member, disk) =>
                {
                    growth.extend(expand::needed(template, disk));
                }
                _ => odd.push(Odd { member, device, name, template, disk }),
            }
        }
    }
    odd.retain(|odd| !odd.disk.is_some_and(|disk| is_kept_well(observed, free_disks, odd.member, disk)));
    // Who of them gets which disk does not depend on the order in which they were seen.
    odd.sort_unstable_by_key(|odd| (&odd.member.id.name, odd.device.position));
    let mut repairs = Vec::new();
    let mut looks = Vec::new();
    let mut note = |free_disks: &mut FreeDisks<'_>,
                    member: &Machine,
                    repair: Option<Result<Action, Blocker>>| match repair {
        Some(Ok(action)) => {
            free_disks.mark_repaired(&member.id.name);
            repairs.push(action);
        }
        Some(Err(blocker)) => {
            if let Blocker::UserAction(message) = &blocker {
                plan.complain(FailureReason::DiskFailure, message);
            }
            plan.blockers.push(blocker);
        }
        None => {}
    };
    let mut failures = Vec::new();
    for odd in odd {
        if let Some(disk) = odd.disk.filter(|disk| failed::strands(odd.member, disk)) {
            failures.push(failed::message(odd.member, disk));
        }
        let repair = match (odd.template, odd.disk) {
            (Some(template), Some(disk)) if disk.owner.as_ref() == Some(&odd.member.id) => {
                match failed::replaced(observed, odd.member, (odd.device, template, disk)) {
                    failed::Next::Now(action) => Some(Ok(action)),
                    failed::Next::After(left) => {
                        looks.push(left);
                        None
                    }
                    failed::Next::Never => None,
                }
            }
            _ => repair(observed, free_disks, &odd),
        };
        note(free_disks, odd.member, repair);
    }
    strays.sort_unstable_by_key(|(member, device)| (&member.id.name, device.position));
    let members = edited::Members::default();
    for (member, device) in strays {
        // One repair of a machine at a time: it may move the other devices.
        if !free_disks.is_repaired(&member.id.name) {
            let repair = edited::device(observed, &members, free_disks, (member, device));
            note(free_disks, member, repair);
        }
    }
    for member in observed.members().filter(|member| !(member.terminating || member.detached.is_empty())) {
        if !free_disks.is_repaired(&member.id.name) {
            let repair = edited::map(observed, free_disks, member);
            note(free_disks, member, repair.map(Ok));
        }
    }
    for left in looks {
        plan.look_again(left);
    }
    failures.extend(failed::replacing(observed, free_disks, &members));
    if let Some(failure) = failures.into_iter().min() {
        plan.complain(FailureReason::DiskFailure, &failure);
    }
    Found { repairs: plan.repair(observed, repairs), growth }
}

/// Whether a disk is one of the pool, can be used, and is the member's to keep.
fn is_kept_well(observed: &Observed<'_>, free_disks: &FreeDisks<'_>, member: &Machine, disk: &Disk) -> bool {
    let ours = disk.owner.as_ref().is_some_and(|owner| owner.uid == observed.pool.id.uid);
    ours && is_usable(disk) && !free_disks.must_detach(&member.id.name, &disk.id.name)
}

fn repair(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    odd: &Odd<'_>,
) -> Option<Result<Action, Blocker>> {
    let Odd { member, device, name, template, disk } = *odd;
    match (template, disk) {
        (Some(template), Some(disk)) => misplaced(observed, free_disks, member, device, template, disk),
        (Some(_), None) => Some(Ok(missing(free_disks, member, device, name))),
        (None, Some(_)) => None,
        (None, None) => orphaned(observed, member, device, name),
    }
}

/// What was never made is made, unless the machine was promised a disk that exists: then it was created by somebody who
/// did not know of the promise.
fn missing(
    free_disks: &mut FreeDisks<'_>,
    member: &Machine,
    device: &DiskRef,
    template: &Arc<str>,
) -> Action {
    let (member, from) = (&member.id, device.disk.clone());
    match free_disks.allocated_to(template, &member.name) {
        Some(to) => Action::Repoint { member: member.clone(), position: device.position, from, to },
        None => Action::CreateDisk { member: member.clone(), disk: DiskDraft::new(from, template.clone()) },
    }
}

/// What never was made, and cannot be made any more. The next change of the machine detaches it; one that has its
/// change already is told of.
fn orphaned(
    observed: &Observed<'_>,
    member: &Machine,
    device: &DiskRef,
    template: &str,
) -> Option<Result<Action, Blocker>> {
    (member.written.as_ref() == Some(&observed.pool.revision)).then(|| {
        Err(Blocker::UserAction(format!(
            "machine {} refers to disk {}, which does not exist, and the pool has no disk template {template} to make \
             it from: restore the template, or delete the machine",
            member.id, device.disk
        )))
    })
}

/// What to do about a disk that exists and is not the member's own.
fn misplaced(
    observed: &Observed<'_>,
    free_disks: &mut FreeDisks<'_>,
    member: &Machine,
    device: &DiskRef,
    template: &DiskTemplate,
    disk: &Disk,
) -> Option<Result<Action, Blocker>> {
    let repoint = |to| {
        let from = device.disk.clone();
        Some(Ok(Action::Repoint { member: member.id.clone(), position: device.position, from, to }))
    };
    let pool = &observed.pool.id;
    match &disk.owner {
        // Whatever the template says now: a disk that the pool keeps stays with the machine that has it.
        Some(owner) if owner.uid == pool.uid => {
            let broken = !is_usable(disk) && !disk.terminating && !runs(member);
            if broken && template.lifetime == Lifetime::Retained {
                return repoint(free_disks.replace_broken(&template.name, &member.id.name)?);
            }
            if free_disks.must_detach(&member.id.name, &device.disk) {
                return match free_disks.replacement(template, member) {
                    Ok(to) => repoint(to),
                    Err(blocker) => Some(Err(blocker)),
                };
            }
            None
        }
        // Owned by a machine or a pool of the same name that is gone: the garbage collector is about to take it.
        Some(owner) if owner.name == member.id.name || is_predecessor(owner, pool, template) => {
            Some(Err(Blocker::TerminatingDisk { member: member.id.clone(), disk: device.disk.clone() }))
        }
        // It was the machine's, as our label says: whoever took the owner away did not mean to take the data.
        None if disk.pool_uid_label.as_ref() == Some(&pool.uid) => Some(Err(Blocker::UserAction(format!(
            "disk {} of machine {} has lost its owner reference and is left as it is: give it back, or delete the \
             machine",
            device.disk, member.id
        )))),
        // It was the pool's when the machine got it, and a machine that runs keeps its disks. One of the machine's own
        // was never its own: somebody else's name came first, and the machine must not go on with it.
        _ if template.lifetime == Lifetime::Retained && runs(member) => {
            Some(Err(Blocker::UserAction(format!(
                "machine {} runs on disk {}, which belongs to somebody else: stop the machine to get it another one, or \
             delete it",
                member.id, device.disk
            ))))
        }
        _ => match free_disks.replacement(template, member) {
            Ok(to) => repoint(to),
            Err(blocker) => Some(Err(blocker)),
        },
    }
}

/// Whether taking a disk away could disturb the machine. The platform calls the disk of a machine that waits for it
/// mounted, so that says nothing here.
fn runs(member: &Machine) -> bool {
    member.activity == Activity::Running
}

/// Whether the owner of a kept disk is an earlier pool of the same name.
fn is_predecessor(owner: &ObjectId, pool: &ObjectId, template: &DiskTemplate) -> bool {
    template.lifetime == Lifetime::Retained && owner.name == pool.name
}

/// The name of a machine's own disk: found by its machine and template, so that a repeated create meets it.
pub(super) fn disk_name(machine: &str, template: &str) -> Arc<str> {
    format!("{machine}-{template}").into()
}

/// The same, or the first variation of it that nobody has: for a machine that exists, which notes what its disk is
/// called.
pub(super) fn free_name(observed: &Observed<'_>, machine: &str, template: &str) -> Arc<str> {
    let plain = disk_name(machine, template);
    let is_taken = |name: &str| observed.taken.disk(name) || observed.disks.contains_key(name);
    if !is_taken(&plain) {
        return plain;
    }
    (2..=u64::MAX)
        .map(|attempt| format!("{plain}-{attempt}"))
        .find(|name| !is_taken(name))
        .expect("the numbers do not end")
        .into()
}

#[cfg(test)]
mod tests;

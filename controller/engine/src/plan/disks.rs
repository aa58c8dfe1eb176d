//! Disks that a member refers to and that do not exist, or belong to somebody else.
//!
//! The walk goes over the members' own disk maps, not over the disks: a disk that was never created leaves no object
//! to find.

use std::sync::Arc;

use super::{Action, Observed, Plan, Repairs, Wait};
use crate::model::{DiskDraft, DiskRef, Lifetime, Replica};
use crate::pacing::FailureReason;

/// Returns whether the plan gives all members the disks that they lack.
pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) -> Repairs {
    let mut repairs = Vec::new();
    for member in observed.members().filter(|member| !member.terminating) {
        for disk in &member.disks {
            match repair(observed, member, disk) {
                Some(Ok(action)) => repairs.push(action),
                Some(Err(wait)) => {
                    if let Wait::Owner(message) = &wait {
                        plan.complain(FailureReason::DiskFailure, message);
                    }
                    plan.waits.push(wait);
                }
                None => {}
            }
        }
    }
    plan.repair(observed, repairs)
}

fn repair(observed: &Observed<'_>, member: &Replica, disk: &DiskRef) -> Option<Result<Action, Wait>> {
    let template = disk.template.as_ref()?;
    let existing = observed.disks.get(&disk.disk);
    let Some(known) = observed.pool.disks.iter().find(|known| known.name == *template) else {
        // What exists stays until its machine goes; what was never made cannot be made any more.
        return existing.is_none().then(|| {
            Err(Wait::Owner(format!(
                "machine {} refers to disk {}, which does not exist, and the pool has no disk template {template} to \
                 make it from: restore the template, or delete the machine",
                member.id, disk.disk
            )))
        });
    };
    if known.lifetime != Lifetime::Machine {
        return None;
    }
    let draft = |name| DiskDraft { name, template: template.clone() };
    let Some(existing) = existing else {
        return Some(Ok(Action::CreateDisk { member: member.id.clone(), disk: draft(disk.disk.clone()) }));
    };
    match &existing.owner {
        Some(owner) if owner.uid == member.id.uid => None,
        // Owned by a machine of the same name that is gone: the garbage collector is about to take it.
        Some(owner) if owner.name == member.id.name => {
            Some(Err(Wait::DyingDisk { member: member.id.clone(), disk: disk.disk.clone() }))
        }
        // It was the machine's, as our label says: whoever took the owner away did not mean to take the data.
        None if existing.pool_uid_label.as_ref() == Some(&observed.pool.id.uid) => {
            Some(Err(Wait::Owner(format!(
                "disk {} of machine {} has lost its owner reference and is left as it is: give it back, or delete \
                 the machine",
                disk.disk, member.id
            ))))
        }
        _ => Some(Ok(Action::Repoint {
            member: member.id.clone(),
            position: disk.position,
            from: disk.disk.clone(),
            to: draft(fresh_name(observed, member, template)),
        })),
    }
}

fn fresh_name(observed: &Observed<'_>, member: &Replica, template: &str) -> Arc<str> {
    (2..=u64::MAX)
        .map(|attempt| format!("{}-{attempt}", disk_name(&member.id.name, template)))
        .find(|name| !observed.taken.disk(name))
        .expect("the numbers do not end")
        .into()
}

/// The name of a machine's own disk: found by its machine and template, so that a repeated create meets it.
pub(super) fn disk_name(machine: &str, template: &str) -> Arc<str> {
    format!("{machine}-{template}").into()
}

#[cfg(test)]
mod tests;

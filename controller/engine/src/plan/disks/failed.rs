//! Disks that hold no data because the platform could not make them, and that strand the machine which has them.
//!
//! The controller replaces such a disk of the machine's own by one of another name, again and again with a growing pause. The
//! pause follows from what is stored: from the name, which counts the attempts, and from the creation time of the disk. So a
//! new leader goes on where the former one was. What was replaced is deleted ([`super::super::disk_collection`]).

use std::sync::Arc;
use std::time::Duration;

use super::super::allocation::{DiskUsage, FreeDisks, is_usable};
use super::super::{Action, Observed};
use super::edited::Members;
use super::{disk_name, runs};
use crate::model::{Disk, DiskDraft, DiskRef, DiskState, DiskTemplate, Lifetime, Machine};

/// The pause before the first replacement, counted from the creation of the disk; it doubles with every further one.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// Whether the machine cannot run because of this disk, which holds no data. If the machine runs, the platform reports what
/// is wrong with the disk.
pub(super) fn strands(member: &Machine, disk: &Disk) -> bool {
    !(is_usable(disk) || disk.terminating || runs(member))
}

/// What to do about a failed disk that the machine owns.
pub(super) enum Next {
    /// Replace it.
    Now(Action),
    /// Replace it after this time.
    After(Duration),
    /// Leave it as it is: it may have held data.
    Never,
}

/// The next step for a disk of the member's own that failed. One with a capacity was made once, and so the machine may have
/// run on it: a person decides about it.
pub(super) fn replaced(
    observed: &Observed<'_>,
    member: &Machine,
    (device, template, disk): (&DiskRef, &DiskTemplate, &Disk),
) -> Next {
    let never_made = disk.state == DiskState::Failed && disk.capacity.is_none();
    if !never_made || template.lifetime != Lifetime::Ephemeral {
        return Next::Never;
    }
    let base = disk_name(&member.id.name, &template.name);
    let attempt = attempt(&base, &device.disk);
    let age = Duration::try_from(observed.now.duration_since(disk.created)).unwrap_or_default();
    match pause(attempt).checked_sub(age) {
        Some(left) if !left.is_zero() => Next::After(left),
        _ => Next::Now(Action::Repoint {
            member: member.id.clone(),
            position: device.position,
            from: device.disk.clone(),
            to: DiskDraft::new(next_name(observed, &base, attempt), template.name.clone()),
        }),
    }
}

/// How many disks were tried with this one: the number at the end of its name.
fn attempt(base: &str, disk: &str) -> u64 {
    let number = disk.strip_prefix(base).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
    number.unwrap_or(1).max(1)
}

fn pause(attempt: u64) -> Duration {
    let doubled = u32::try_from(attempt - 1).unwrap_or(u32::MAX).min(16);
    FIRST_PAUSE.saturating_mul(1 << doubled).min(LONGEST_PAUSE)
}

/// The next name that no disk has. The number never falls, or the pause would begin anew.
fn next_name(observed: &Observed<'_>, base: &str, attempt: u64) -> Arc<str> {
    let is_taken = |name: &str| observed.taken.disk(name) || observed.disks.contains_key(name);
    let mut names = (attempt.saturating_add(1)..=u64::MAX).map(|attempt| format!("{base}-{attempt}"));
    names.find(|name| !is_taken(name)).unwrap_or_else(|| base.to_owned()).into()
}

/// What happened, for the owner of the pool.
pub(super) fn message(member: &Machine, disk: &Disk) -> String {
    let what = match disk.state {
        DiskState::Lost => "lost its volume",
        _ => "failed",
    };
    let why = disk.failure.as_ref().map_or(String::new(), |failure| format!(": {failure}"));
    format!("disk {} of machine {}, which does not run, {what}{why}", disk.id, member.id)
}

/// The failures of disks that were replaced already, of machines that do not run yet.
pub(super) fn replacing<'a>(
    observed: &'a Observed<'_>,
    free_disks: &FreeDisks<'_>,
    members: &Members<'a>,
) -> Vec<String> {
    let pool = &observed.pool.id.uid;
    let broken = free_disks
        .all()
        .iter()
        .filter(|pool_disk| pool_disk.usage == DiskUsage::Free && !is_usable(pool_disk.disk));
    let failed = broken.filter_map(|pool_disk| {
        let owner = pool_disk.disk.owner.as_ref().filter(|owner| owner.uid != *pool)?;
        let member = members.get(observed, &owner.uid)?;
        strands(member, pool_disk.disk).then(|| message(member, pool_disk.disk))
    });
    failed.collect()
}

#[cfg(test)]
mod tests;

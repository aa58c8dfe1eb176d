//! Disks that the platform could not provision, so that their machines cannot run. A disk whose disk template
//! got another source before it was provisioned counts as one of them.
//!
//! The controller replaces such an ephemeral disk with one of another name, repeatedly with exponential
//! backoff. The delay is computed from stored data: the name, which contains the number of attempts, and the
//! creation time of the disk. A new leader therefore continues with the same delay. Disk collection deletes
//! the replaced disks.

use std::sync::Arc;
use std::time::Duration;

use super::super::allocation::{DiskUsage, FreeDisks};
use super::super::disk_names::disk_name;
use super::edited::MachineIndex;
use crate::model::{Disk, DiskDraft, DiskRef, DiskState, Lifetime, Machine, PoolDiskTemplate};
use crate::plan::action::PoolAction;
use crate::plan::observed::ObservedPool;

/// The delay before the first replacement, counted from the creation of the disk. It doubles with every
/// further replacement.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The maximum delay.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// Whether the machine cannot run because this disk contains no data. If the machine runs, the platform
/// reports the problem of the disk.
pub(super) fn disk_prevents_start(machine: &Machine, disk: &Disk) -> bool {
    !(disk.is_usable() || disk.terminating || machine.runs())
}

/// The next step for a failed disk that the machine owns.
pub(super) enum DiskReplacement {
    /// Replace it.
    Now(PoolAction),
    /// Replace it after this time.
    After(Duration),
    /// Do not replace it, because it may contain data.
    Never,
}

/// The next step for a failed ephemeral disk. A disk with a capacity was provisioned once, so the machine may
/// have run on it, and a user must decide.
pub(super) fn plan_disk_replacement(
    observed: &ObservedPool<'_>,
    machine: &Machine,
    device: &DiskRef,
    template: &PoolDiskTemplate,
    disk: &Disk,
) -> DiskReplacement {
    if !disk.was_never_provisioned() || template.lifetime != Lifetime::Ephemeral {
        return DiskReplacement::Never;
    }
    let base = disk_name(&machine.id.name, &template.name);
    let attempt = parse_attempt_number(&base, &device.disk);
    let age = observed.time_since_timestamp(disk.created);
    match replacement_backoff(attempt).checked_sub(age) {
        Some(left) if !left.is_zero() => DiskReplacement::After(left),
        _ => DiskReplacement::Now(PoolAction::Repoint {
            machine: machine.id.clone(),
            position: device.position,
            from: device.disk.clone(),
            to: DiskDraft::new(next_name(observed, &base, attempt), template.name.clone()),
        }),
    }
}

/// The number of this attempt: the number at the end of the name.
fn parse_attempt_number(base: &str, disk: &str) -> u64 {
    let number = disk.strip_prefix(base).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
    number.unwrap_or(1).max(1)
}

fn replacement_backoff(attempt: u64) -> Duration {
    let doubled = u32::try_from(attempt - 1).unwrap_or(u32::MAX).min(16);
    FIRST_PAUSE.saturating_mul(1 << doubled).min(LONGEST_PAUSE)
}

/// The next name that no disk has. The number never decreases, because the delay would otherwise start again.
fn next_name(observed: &ObservedPool<'_>, base: &str, attempt: u64) -> Arc<str> {
    let is_taken = |name: &str| observed.names_in_use.has_disk(name) || observed.disks.contains_key(name);
    let mut names = (attempt.saturating_add(1)..=u64::MAX).map(|attempt| format!("{base}-{attempt}"));
    names.find(|name| !is_taken(name)).unwrap_or_else(|| base.to_owned()).into()
}

/// The message about the failure; `None` for a disk that has not failed and is only replaced.
pub(super) fn failure_message(machine: &Machine, disk: &Disk) -> Option<String> {
    let what = match disk.state {
        DiskState::Superseded => return None,
        DiskState::Lost => "lost its volume",
        _ => "failed",
    };
    let why = disk.failure.as_ref().map_or(String::new(), |failure| format!(": {failure}"));
    Some(format!("disk {} of machine {}, which does not run, {what}{why}", disk.id, machine.id))
}

/// The failures of disks that were already replaced, for machines that do not run yet.
pub(super) fn replaced_disk_failures<'a>(
    observed: &'a ObservedPool<'_>,
    free_disks: &FreeDisks<'_>,
    machines: &MachineIndex<'a>,
) -> Vec<String> {
    let broken = free_disks
        .all()
        .iter()
        .filter(|pool_disk| pool_disk.usage == DiskUsage::Free && !pool_disk.disk.is_usable());
    let failed = broken.filter_map(|pool_disk| {
        let owner = pool_disk.disk.owner.as_ref()?.as_machine()?;
        let machine = machines.get(observed, owner)?;
        failure_message(machine, pool_disk.disk).filter(|_| disk_prevents_start(machine, pool_disk.disk))
    });
    failed.collect()
}

#[cfg(test)]
mod tests;

//! Disks that the platform restores.
//!
//! The platform deletes the disk, waits until it is gone, and creates another one with the same name and the
//! restored data. If the controller created the missing disk, the platform could not. The restored disk has
//! no controller, so the controller makes the former owner its owner again.

use std::time::Duration;

use crate::model::{Disk, DiskRef, Machine, PoolDiskTemplate};
use crate::plan::action::PoolAction;
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;

/// How long a disk that the platform deleted in order to restore it may be missing. Then the platform is not
/// expected to create it any more, and the machine needs one. A machine that the platform still restores has
/// no such limit.
pub(super) const LONGEST_GAP: Duration = Duration::from_mins(10);

/// For how long the controller still waits for a missing disk.
pub(super) fn time_left(observed: &ObservedPool<'_>, disk: &str) -> Option<Duration> {
    let gone = observed.replaced_disks.get(disk)?;
    LONGEST_GAP.checked_sub(observed.uptime.saturating_sub(*gone)).filter(|left| !left.is_zero())
}

/// The controller does not create the disk.
pub(super) fn await_disk(machine: &Machine, device: &DiskRef) -> Blocker {
    Blocker::RestoringDisk { machine: machine.id.clone(), disk: device.disk.clone() }
}

/// A restored disk gets its owner again. One that failed stays as it is: the controller would replace its own
/// by an empty one.
pub(super) fn adopt_disk(
    machine: &Machine,
    template: &PoolDiskTemplate,
    disk: &Disk,
) -> Result<PoolAction, Blocker> {
    if disk.is_usable() {
        let (machine, disk) = (machine.id.clone(), disk.id.clone());
        return Ok(PoolAction::AdoptDisk { machine, disk, template: template.name.clone() });
    }
    Err(Blocker::UserAction(format!(
        "the platform could not restore disk {} of machine {}: restore it again, or delete the machine",
        disk.id, machine.id
    )))
}

#[cfg(test)]
mod tests;

//! Disks that are smaller than their template asks for.

use super::allocation::{FreeDisks, is_usable};
use super::{Action, Observed, Plan, Stage};
use crate::model::{Disk, DiskState, DiskTemplate};

/// Plans the growth of members' own disks, which were found already, and of all disks of the pool.
pub(super) fn plan(
    observed: &Observed<'_>,
    free_disks: &FreeDisks<'_>,
    of_members: Vec<Action>,
    plan: &mut Plan,
) {
    // What cannot be read of a pool may be a size.
    if !observed.pool.flaws.is_empty() {
        return;
    }
    let mut growth = of_members;
    for pool_disk in free_disks.all() {
        let template =
            observed.pool.disks.iter().find(|known| Some(&known.name) == pool_disk.disk.template.as_ref());
        growth.extend(template.and_then(|template| needed(template, pool_disk.disk)));
    }
    if growth.is_empty() {
        return;
    }
    plan.wants.expand_disks = true;
    let pace = observed.memory.expanding_disks.batch_size(observed.uptime);
    plan.extend_by(observed, Stage::ExpandDisks, pace, growth);
}

/// The growth of a disk of this template, if it is smaller and can be told so now. It never shrinks, and one that is
/// being made, changed or deleted is left alone: the platform would refuse.
pub(super) fn needed(template: &DiskTemplate, disk: &Disk) -> Option<Action> {
    let to = template.size?;
    let settled = !disk.terminating && is_usable(disk) && disk.state == DiskState::Ready;
    // Without a size of its own it is as large as what it was made from.
    let has = disk.size.or(disk.capacity)?;
    (settled && has < to).then(|| Action::ExpandDisk { disk: disk.id.clone(), to })
}

#[cfg(test)]
mod tests;

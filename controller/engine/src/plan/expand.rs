//! Disk expansion: disks that are smaller than their template requires.

use super::allocation::{FreeDisks, is_usable};
use super::{Action, Observed, Plan, Stage};
use crate::model::{Disk, DiskState, DiskTemplate};

/// Plans the expansion of ephemeral disks, which `of_machines` contains, and of all disks of the pool.
pub(super) fn plan(
    observed: &Observed<'_>,
    free_disks: &FreeDisks<'_>,
    of_members: Vec<Action>,
    plan: &mut Plan,
) {
    // A field that cannot be read may be a size.
    if !observed.pool.validation_errors.is_empty() {
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

/// The expansion of a disk of this template, if it is smaller and can be expanded now. The controller never shrinks a
/// disk. It does not change a disk that is being provisioned, changed or deleted, because the platform would reject the
/// change.
pub(super) fn needed(template: &DiskTemplate, disk: &Disk) -> Option<Action> {
    let to = template.size?;
    let settled = !disk.terminating && is_usable(disk) && disk.state == DiskState::Ready;
    // Without a size in its spec, a disk is as large as its source.
    let has = disk.size.or(disk.capacity)?;
    (settled && has < to).then(|| Action::ExpandDisk { disk: disk.id.clone(), to })
}

#[cfg(test)]
mod tests;

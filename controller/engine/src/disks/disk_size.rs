//! Disks that are smaller than their template requires.

use crate::model::{Disk, DiskState, PoolDiskTemplate};
use crate::plan::action::PoolAction;

/// The expansion of a disk of this template, if it is smaller and can be expanded now. The controller never
/// shrinks a disk. It does not change a disk that is being provisioned, changed or deleted, because the
/// platform would reject the change.
pub(super) fn disk_expansion(template: &PoolDiskTemplate, disk: &Disk) -> Option<PoolAction> {
    let to = template.size?;
    let settled = !disk.terminating && disk.is_usable() && disk.state == DiskState::Ready;
    // Without a size in its spec, a disk is as large as its source.
    let has = disk.size.or(disk.capacity)?;
    (settled && has < to).then(|| PoolAction::ExpandDisk { disk: disk.id.clone(), to })
}

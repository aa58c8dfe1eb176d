//! The allocation candidates of one disk template: its free disks in the order of allocation, and the disks
//! that may become free soon.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::super::stored_time;
use super::usage::{DiskUsage, PoolDisk};
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Disk, DiskState};
use crate::plan::observed::ObservedPool;
use crate::scale_up::names::DiskNamer;

/// How long a machine waits for a disk that will become free soon before the plan creates a new one.
pub(crate) const UNMOUNT_TIMEOUT: Duration = REQUEST_TIMEOUT;

/// The allocation candidates of one disk template.
pub(super) struct AllocationCandidates {
    pub(super) namer: DiskNamer,
    /// Indices of free disks, the best one last.
    pub(super) free: Vec<usize>,
    /// Disks that will become free soon, or that may exist and would then be free.
    pub(super) pending: Vec<Arc<str>>,
    /// Whether there are free disks that cannot be used.
    pub(super) broken: bool,
}

impl AllocationCandidates {
    pub(super) fn of(observed: &ObservedPool<'_>, disks: &[PoolDisk<'_>], template: &str) -> Self {
        let pool = &observed.pool.id;
        let mut candidates = Self {
            namer: DiskNamer::new(&pool.name, &pool.uid, template),
            free: Vec::new(),
            pending: Vec::new(),
            broken: false,
        };
        for (at, PoolDisk { disk, usage }) in disks.iter().enumerate() {
            if disk.template.as_deref() != Some(template) {
                continue;
            }
            let name = &disk.id.name;
            match usage {
                // A new disk is not superseded, so it need not fail for the same reason.
                DiskUsage::Free if disk.state == DiskState::Superseded => {}
                DiskUsage::Free if !disk.is_usable() => candidates.broken = true,
                DiskUsage::Free if observed.memory.disk_refusal(name, observed.uptime).is_none() => {
                    candidates.free.push(at);
                }
                // Disk collection releases it after the request timeout.
                DiskUsage::AwaitingMachine
                    if observed.memory.disk_refusal(name, observed.uptime).is_none() =>
                {
                    candidates.pending.push(name.clone());
                }
                // The platform may never report that it is unmounted, so the wait is limited.
                DiskUsage::Unmounting if observed.memory.awaited(name, observed.uptime) < UNMOUNT_TIMEOUT => {
                    candidates.pending.push(name.clone());
                }
                _ => {}
            }
        }
        candidates.pending.extend(unconfirmed_disks(observed, template));
        candidates.free.sort_by(|a, b| {
            let order = |at: &usize| allocation_preference(disks[*at].disk, observed.now);
            order(b).cmp(&order(a))
        });
        candidates
    }
}

/// Disks of a template with an unconfirmed create whose machine is gone. They may exist, or the API server
/// may still create them.
fn unconfirmed_disks(observed: &ObservedPool<'_>, template: &str) -> Vec<Arc<str>> {
    let stem = format!("{}-{template}-", observed.pool.id.name);
    let lost = observed.memory.disks.unconfirmed_creates().into_iter().map(|lost| lost.name);
    lost.filter(|name| {
        let of_template = name.strip_prefix(&*stem).is_some_and(|suffix| !suffix.contains('-'));
        let mut devices = observed.machines.iter().flat_map(|machine| &machine.disks);
        of_template && !devices.any(|device| device.disk == *name)
    })
    .collect()
}

/// The smallest key is allocated first: disks that are not marked for deletion, then ready disks, then the
/// disk that became free last, because its data is the most recent.
fn allocation_preference(disk: &Disk, now: Timestamp) -> impl Ord + use<'_> {
    let since = stored_time::valid_free_since(now, disk).map_or(now, |since| since.min(now));
    let collecting = disk.annotations.collecting_since.is_some();
    (collecting, disk.state == DiskState::Pending, std::cmp::Reverse(since), &disk.id.name)
}

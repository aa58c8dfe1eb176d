//! The disks of one template: which of them are free, in the order in which they are handed out, and which may be soon.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::{Observed, disk_collection};
use super::{DiskUsage, PATIENCE, PoolDisk};
use crate::model::{Disk, DiskState};
use crate::names::DiskNamer;

/// The disks of one template.
pub(super) struct Candidates {
    pub(super) namer: DiskNamer,
    /// Free ones, the best last.
    pub(super) free: Vec<usize>,
    /// Those that are about to become free, or that may exist and then are free.
    pub(super) coming: Vec<Arc<str>>,
    /// Whether there are free ones that cannot be used.
    pub(super) broken: bool,
}

impl Candidates {
    pub(super) fn of(observed: &Observed<'_>, disks: &[PoolDisk<'_>], template: &str) -> Self {
        let pool = &observed.pool.id;
        let mut candidates = Self {
            namer: DiskNamer::new(&pool.name, &pool.uid, template),
            free: Vec::new(),
            coming: Vec::new(),
            broken: false,
        };
        for (at, PoolDisk { disk, usage }) in disks.iter().enumerate() {
            if disk.template.as_deref() != Some(template) {
                continue;
            }
            let name = &disk.id.name;
            match usage {
                DiskUsage::Free if !is_usable(disk) => candidates.broken = true,
                DiskUsage::Free if observed.memory.disk_refusal(name, observed.uptime).is_none() => {
                    candidates.free.push(at);
                }
                // It is released when its time has come.
                DiskUsage::AwaitingMachine
                    if observed.memory.disk_refusal(name, observed.uptime).is_none() =>
                {
                    candidates.coming.push(name.clone());
                }
                // Whoever should say that it is not mounted any more may be out of order.
                DiskUsage::Unmounting if observed.memory.awaited(name, observed.uptime) < PATIENCE => {
                    candidates.coming.push(name.clone());
                }
                _ => {}
            }
        }
        candidates.coming.extend(without_answer(observed, template));
        candidates.free.sort_by(|a, b| {
            let order = |at: &usize| preference(disks[*at].disk, observed.now);
            order(b).cmp(&order(a))
        });
        candidates
    }
}

/// Disks of a template whose create got no answer, and whose machine is gone: they may exist, or still come to be.
fn without_answer(observed: &Observed<'_>, template: &str) -> Vec<Arc<str>> {
    let stem = format!("{}-{template}-", observed.pool.id.name);
    let lost = observed.memory.disks.unconfirmed_creates().into_iter().map(|lost| lost.name);
    lost.filter(|name| {
        let of_template = name.strip_prefix(&*stem).is_some_and(|suffix| !suffix.contains('-'));
        let mut devices = observed.machines.iter().flat_map(|machine| &machine.disks);
        of_template && !devices.any(|device| device.disk == *name)
    })
    .collect()
}

/// Whether a disk holds data, or will.
pub(in crate::plan) fn is_usable(disk: &Disk) -> bool {
    match disk.state {
        DiskState::Ready | DiskState::Changing | DiskState::Coming => true,
        DiskState::Failed | DiskState::Lost => false,
    }
}

/// The least is handed out first: not one that is about to be deleted; one that is ready; the one that became free
/// last, whose data is the warmest.
fn preference(disk: &Disk, now: Timestamp) -> impl Ord + use<'_> {
    let since = disk_collection::since(now, disk).map_or(now, |since| since.min(now));
    let collecting = disk.annotations.collecting_since.is_some();
    (collecting, disk.state == DiskState::Coming, std::cmp::Reverse(since), &disk.id.name)
}

//! Disk garbage collection: since when the pool's disks are free, and which of them the controller deletes.
//!
//! ```text
//!            not used any more        too old, or template removed        grace period over
//!   in use ─────────────────> free ─────────────────────────────> marked ───────────────────> deleted
//!      ▲      free_since       │             collecting_since        │      confirmed by reads
//!      └───────────────────────┴─────────────────────────────────────┘
//!              allocated to a machine: the annotations are cleared
//! ```
//!
//! All state is stored in annotations of the disk, so the times continue for a new leader.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::allocation::{DiskUsage, FreeDisks, PoolDisk, UNMOUNT_TIMEOUT};
use super::stored_time::{current_time, elapsed_time, valid_free_since, valid_time};
use crate::failure::FailureReason;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Disk, DiskAnnotations, Lifetime, PoolDiskTemplate};
use crate::plan::action::{ApplyStage, DiskDeleteReason, PoolAction};
use crate::plan::blocker::Blocker;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// Age at which a free disk without data is deleted, if its template has no `ttl`.
pub(super) const BROKEN_AGE: Duration = Duration::from_mins(10);

/// Minimum time until a pass that only checks the age of disks.
const SHORTEST_REQUEUE: Duration = Duration::from_secs(1);

/// Plans the annotations of all disks of the pool, and the deletion of those that are not needed.
pub(crate) fn plan_disk_collection(observed: &ObservedPool<'_>, free_disks: &FreeDisks<'_>, plan: &mut Plan) {
    let mut actions = Vec::new();
    let mut free: BTreeMap<&str, Vec<FreeDisk<'_>>> = BTreeMap::new();
    for PoolDisk { disk, usage } in free_disks.all() {
        let Some(template) = &disk.template else { continue };
        match usage {
            DiskUsage::InUse | DiskUsage::Allocated => actions.extend(clear_collection_annotations(disk)),
            DiskUsage::AllocatedInPass => {}
            DiskUsage::Unmounting => await_unmount(observed, disk, plan),
            DiskUsage::AwaitingMachine => actions.extend(end_stale_allocation(observed, disk, plan)),
            DiskUsage::Free => {
                if let Some(since) = valid_free_since(observed.now, disk) {
                    free.entry(template).or_default().push(FreeDisk { disk, since });
                } else {
                    let free_since = Some(current_time(observed, disk));
                    actions.push(annotate_disk_action(
                        disk,
                        DiskAnnotations { free_since, ..DiskAnnotations::default() },
                    ));
                }
            }
        }
    }
    if observed.pool.validation_errors.is_empty() {
        for (template, free) in free {
            let known = observed.pool.disks.iter().find(|known| *known.name == *template);
            collect_template_disks(observed, known, free, plan, &mut actions);
        }
    }
    if !actions.is_empty() {
        plan.wants.collect_disks = true;
        let pace = observed.memory.backoff(ApplyStage::CollectDisks).batch_size(observed.uptime);
        plan.extend_by(observed, ApplyStage::CollectDisks, pace, actions);
    }
}

/// A free disk, and since when it is free.
struct FreeDisk<'a> {
    disk: &'a Disk,
    since: Timestamp,
}

/// A used disk has neither the time since when it is free nor the mark for deletion.
fn clear_collection_annotations(disk: &Disk) -> Option<PoolAction> {
    let annotations = &disk.annotations;
    (annotations.free_since.is_some() || annotations.collecting_since.is_some()).then(|| {
        annotate_disk_action(
            disk,
            DiskAnnotations { claimed_by: annotations.claimed_by.clone(), ..DiskAnnotations::default() },
        )
    })
}

/// A deleted machine still mounts it. Machines wait for it for a limited time.
fn await_unmount(observed: &ObservedPool<'_>, disk: &Disk, plan: &mut Plan) {
    plan.awaited.push(disk.id.name.clone());
    let age = observed.memory.awaited(&disk.id.name, observed.uptime);
    if let Some(left) = UNMOUNT_TIMEOUT.checked_sub(age).filter(|left| !left.is_zero()) {
        plan.requeue_in(left);
    }
}

/// Its machine does not exist. While the API server may still commit the create of that machine, the disk
/// stays allocated to it.
fn end_stale_allocation(observed: &ObservedPool<'_>, disk: &Disk, plan: &mut Plan) -> Option<PoolAction> {
    plan.awaited.push(disk.id.name.clone());
    let age = observed.memory.awaited(&disk.id.name, observed.uptime);
    match REQUEST_TIMEOUT.checked_sub(age) {
        Some(left) if !left.is_zero() => {
            plan.requeue_in(left);
            None
        }
        _ => Some(PoolAction::AnnotateDisk {
            disk: disk.id.clone(),
            annotations: DiskAnnotations {
                free_since: Some(current_time(observed, disk)),
                ..DiskAnnotations::default()
            },
            absent: disk.annotations.claimed_by.clone(),
        }),
    }
}

fn annotate_disk_action(disk: &Disk, annotations: DiskAnnotations) -> PoolAction {
    PoolAction::AnnotateDisk { disk: disk.id.clone(), annotations, absent: None }
}

/// Plans the next step of garbage collection for every free disk of a template. `template` is `None` if it
/// was removed from the pool.
fn collect_template_disks(
    observed: &ObservedPool<'_>,
    template: Option<&PoolDiskTemplate>,
    free: Vec<FreeDisk<'_>>,
    plan: &mut Plan,
    actions: &mut Vec<PoolAction>,
) {
    let Some(template) = template else {
        let (free, relabeled): (Vec<_>, Vec<_>) =
            free.into_iter().partition(|free| is_named(observed, free.disk));
        keep_relabeled(observed, &relabeled, plan, actions);
        let ends = free.iter().filter_map(|free| {
            next_collection_step(observed, free, Some(DiskDeleteReason::TemplateRemoved), plan)
        });
        return actions.extend(ends);
    };
    // A disk that a machine owns and does not refer to was replaced, because it could not be provisioned.
    let is_kept = |free: &FreeDisk<'_>| free.disk.belongs_to(&observed.pool.id);
    let (free, replaced): (Vec<_>, Vec<_>) = free.into_iter().partition(is_kept);
    actions.extend(
        replaced
            .iter()
            .filter_map(|free| next_collection_step(observed, free, Some(DiskDeleteReason::Broken), plan)),
    );
    if free.is_empty() {
        return;
    }
    if template.lifetime == Lifetime::Ephemeral {
        let message = format!(
            "disk template {} has reclaim.onScaleDown Delete, but the pool has {} free disks of it, which the \
             controller does not delete: delete them, or set reclaim.onScaleDown to Retain again",
            template.name,
            free.len()
        );
        plan.report_failure(FailureReason::DiskFailure, &message);
        plan.blockers.push(Blocker::UserAction(message));
        return actions
            .extend(free.iter().filter_map(|free| next_collection_step(observed, free, None, plan)));
    }
    let (mut usable, broken): (Vec<_>, Vec<_>) = free.into_iter().partition(|free| free.disk.is_usable());
    if template.ttl.is_some() {
        let (named, relabeled) = usable.into_iter().partition(|free| is_named(observed, free.disk));
        usable = named;
        keep_relabeled(observed, &relabeled, plan, actions);
    }
    let patience = template.ttl.unwrap_or(BROKEN_AGE);
    for free in broken {
        let end = has_been_free_for(observed, &free, patience, plan).then_some(DiskDeleteReason::Broken);
        actions.extend(next_collection_step(observed, &free, end, plan));
    }
    // The newest disks are kept. The rest is not sorted, so that the pass stays linear.
    let keep = template.keep_free.min(usable.len());
    if keep < usable.len() {
        let newest_first = |free: &FreeDisk<'_>| (Reverse(free.since), free.disk.id.name.clone());
        usable.select_nth_unstable_by_key(keep, newest_first);
    }
    for (position, free) in usable.iter().enumerate() {
        let end = template.ttl.filter(|_| template.used && position >= keep).and_then(|ttl| {
            has_been_free_for(observed, free, ttl, plan).then_some(DiskDeleteReason::Expired)
        });
        actions.extend(next_collection_step(observed, free, end, plan));
    }
}

/// Whether the name of a disk is one that the pool gives to disks of the template in its label. The name
/// cannot be edited. A label alone decides about no data: with another one, the disk would be deleted by the
/// rules of another template.
fn is_named(observed: &ObservedPool<'_>, disk: &Disk) -> bool {
    let Some(template) = &disk.template else { return false };
    let owner = disk.owner.as_ref().and_then(|owner| owner.as_machine());
    let prefix = owner.map_or(&*observed.pool.id.name, |machine| &*machine.name);
    let rest = disk.id.name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    let rest = rest.and_then(|rest| rest.strip_prefix(&**template));
    rest.is_some_and(|rest| rest.starts_with('-') || rest.is_empty() && owner.is_some())
}

/// Disks with the label of another template stay, and the pool reports them.
fn keep_relabeled(
    observed: &ObservedPool<'_>,
    disks: &[FreeDisk<'_>],
    plan: &mut Plan,
    actions: &mut Vec<PoolAction>,
) {
    let Some(first) = disks.iter().map(|free| free.disk).min_by_key(|disk| &disk.id.name) else { return };
    let message = format!(
        "{} free disks have the label of a disk template that does not agree with their names, so the controller does not delete \
         them, for example disk {} with the disk template {}: correct the label, or delete the disk",
        disks.len(),
        first.id,
        first.template.as_deref().unwrap_or_default()
    );
    plan.report_failure(FailureReason::DiskFailure, &message);
    plan.blockers.push(Blocker::UserAction(message));
    actions.extend(disks.iter().filter_map(|free| next_collection_step(observed, free, None, plan)));
}

/// Whether a disk has been free for longer than `limit`. If not, the plan requests a pass for the time when
/// it will be.
fn has_been_free_for(
    observed: &ObservedPool<'_>,
    free: &FreeDisk<'_>,
    limit: Duration,
    plan: &mut Plan,
) -> bool {
    let left = limit.checked_sub(elapsed_time(observed.now, free.since));
    if let Some(left) = left {
        plan.requeue_in(left.max(SHORTEST_REQUEUE));
    }
    left.is_none()
}

/// One step for one disk: a disk to delete is marked, and deleted after the grace period. A disk to keep
/// loses its mark.
fn next_collection_step(
    observed: &ObservedPool<'_>,
    free: &FreeDisk<'_>,
    end: Option<DiskDeleteReason>,
    plan: &mut Plan,
) -> Option<PoolAction> {
    let disk = free.disk;
    let collecting = disk.annotations.collecting_since.map(|stored| valid_time(observed.now, disk, stored));
    let annotated = |collecting_since| {
        Some(annotate_disk_action(disk, DiskAnnotations { collecting_since, ..disk.annotations.clone() }))
    };
    match (end, collecting) {
        (None, None) => None,
        (None, Some(_)) => annotated(None),
        (Some(reason), Some(Some(since))) => {
            let left = observed.settings.collection_grace.saturating_sub(elapsed_time(observed.now, since));
            if left.is_zero() {
                return Some(PoolAction::DeleteDisk { disk: disk.id.clone(), reason });
            }
            plan.requeue_in(left);
            None
        }
        (Some(_), None | Some(None)) => {
            plan.requeue_in(observed.settings.collection_grace);
            annotated(Some(current_time(observed, disk)))
        }
    }
}

#[cfg(test)]
mod tests;

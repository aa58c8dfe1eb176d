//! Disks of the pool between two machines: since when nobody has them, and which of them end.
//!
//! ```text
//!            nobody has it            too old, or its template left       the grace is over
//!   in use ─────────────────> free ─────────────────────────────> marked ───────────────────> deleted
//!      ▲      free_since       │             collecting_since        │      confirmed by reads
//!      └───────────────────────┴─────────────────────────────────────┘
//!              somebody takes it: the marks are cleared
//! ```
//!
//! All of it stands on the disk, so that a pool that nothing happens to, and a leader that came later, go on counting.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::allocation::{DiskUsage, FreeDisks, PATIENCE, PoolDisk, is_usable};
use super::{Action, Blocker, DiskDeleteReason, Observed, Plan, Stage};
use crate::backoff::FailureReason;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Disk, DiskAnnotations, DiskTemplate, Lifetime, StoredTime};

/// A stamp that is later than now by less counts as now; clocks of two leaders may differ so much. The controller writes
/// a later one anew, or the disk would not age for as long.
const SKEW: Duration = Duration::from_mins(1);

/// Age at which a free disk without data is deleted, where its template does not say.
pub(super) const BROKEN_AGE: Duration = Duration::from_mins(10);

/// The shortest time after which a pass looks for a disk that has become too old.
const SHORTEST_LOOK: Duration = Duration::from_secs(1);

/// Plans the marks of all disks of the pool, and the end of those that are not needed.
pub(super) fn plan(observed: &Observed<'_>, free_disks: &FreeDisks<'_>, plan: &mut Plan) {
    let mut actions = Vec::new();
    let mut free: BTreeMap<&str, Vec<Free<'_>>> = BTreeMap::new();
    for PoolDisk { disk, usage } in free_disks.all() {
        let Some(template) = &disk.template else { continue };
        match usage {
            DiskUsage::InUse | DiskUsage::Allocated => actions.extend(used(disk)),
            DiskUsage::AllocatedInPass => {}
            DiskUsage::Unmounting => leaving(observed, disk, plan),
            DiskUsage::AwaitingMachine => actions.extend(open(observed, disk, plan)),
            DiskUsage::Free => {
                if let Some(since) = since(observed.now, disk) {
                    free.entry(template).or_default().push(Free { disk, since });
                } else {
                    let free_since = Some(current_time(observed, disk));
                    actions
                        .push(annotate(disk, DiskAnnotations { free_since, ..DiskAnnotations::default() }));
                }
            }
        }
    }
    if observed.pool.flaws.is_empty() {
        for (template, free) in free {
            let known = observed.pool.disks.iter().find(|known| *known.name == *template);
            collect(observed, known, free, plan, &mut actions);
        }
    }
    if !actions.is_empty() {
        plan.wants.collect_disks = true;
        let pace = observed.memory.collecting_disks.batch_size(observed.uptime);
        plan.extend_by(observed, Stage::CollectDisks, pace, actions);
    }
}

/// A disk that nobody has, and since when.
struct Free<'a> {
    disk: &'a Disk,
    since: Timestamp,
}

/// Somebody has it: since when it was free means nothing any more, and it must not be deleted.
fn used(disk: &Disk) -> Option<Action> {
    let annotations = &disk.annotations;
    (annotations.free_since.is_some() || annotations.collecting_since.is_some()).then(|| {
        annotate(
            disk,
            DiskAnnotations { claimed_by: annotations.claimed_by.clone(), ..DiskAnnotations::default() },
        )
    })
}

/// It is mounted by a machine that is gone. Who waits for it does so for a while.
fn leaving(observed: &Observed<'_>, disk: &Disk, plan: &mut Plan) {
    plan.awaited.push(disk.id.name.clone());
    let age = observed.memory.awaited(&disk.id.name, observed.uptime);
    if let Some(left) = PATIENCE.checked_sub(age).filter(|left| !left.is_zero()) {
        plan.look_again(left);
    }
}

/// Its machine was never seen. As long as its create may still be committed, the disk is nobody else's.
fn open(observed: &Observed<'_>, disk: &Disk, plan: &mut Plan) -> Option<Action> {
    plan.awaited.push(disk.id.name.clone());
    let age = observed.memory.awaited(&disk.id.name, observed.uptime);
    match REQUEST_TIMEOUT.checked_sub(age) {
        Some(left) if !left.is_zero() => {
            plan.look_again(left);
            None
        }
        _ => Some(Action::AnnotateDisk {
            disk: disk.id.clone(),
            annotations: DiskAnnotations {
                free_since: Some(current_time(observed, disk)),
                ..DiskAnnotations::default()
            },
            absent: disk.annotations.claimed_by.clone(),
        }),
    }
}

/// Since when no machine has the disk; `None` if the disk does not say so, or if the stamp cannot be true.
pub(super) fn since(now: Timestamp, disk: &Disk) -> Option<Timestamp> {
    if disk.annotations.claimed_by.is_some() {
        return None;
    }
    valid_time(now, disk, disk.annotations.free_since?)
}

/// The moment of a mark. A moment before the creation of the disk, or in the future, counts as unreadable: a person has
/// edited the mark, and the controller must not delete a disk for it.
fn valid_time(now: Timestamp, disk: &Disk, stored: StoredTime) -> Option<Timestamp> {
    match stored {
        StoredTime::At(at) if at >= disk.created && elapsed(at, latest(now, disk)) <= SKEW => Some(at),
        StoredTime::At(_) | StoredTime::Unreadable => None,
    }
}

/// Now. The creation time comes from the clock of the API server: if that clock is ahead, the creation time, so that a
/// new mark is never older than its disk.
fn latest(now: Timestamp, disk: &Disk) -> Timestamp {
    now.max(disk.created)
}

/// From `earlier` to `later`; nothing if they are the other way round.
fn elapsed(later: Timestamp, earlier: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// The mark of this moment.
fn current_time(observed: &Observed<'_>, disk: &Disk) -> StoredTime {
    StoredTime::At(latest(observed.now, disk))
}

fn annotate(disk: &Disk, annotations: DiskAnnotations) -> Action {
    Action::AnnotateDisk { disk: disk.id.clone(), annotations, absent: None }
}

/// Takes the next step towards the end of every free disk of a template that is not needed any more; `template` is
/// `None` once it has left the pool.
fn collect(
    observed: &Observed<'_>,
    template: Option<&DiskTemplate>,
    free: Vec<Free<'_>>,
    plan: &mut Plan,
    actions: &mut Vec<Action>,
) {
    let Some(template) = template else {
        let ends = free
            .iter()
            .filter_map(|free| step(observed, free, Some(DiskDeleteReason::TemplateRemoved), plan));
        return actions.extend(ends);
    };
    // What a machine owns and does not refer to any more was replaced, because it could not be made.
    let is_kept =
        |free: &Free<'_>| free.disk.owner.as_ref().is_some_and(|owner| owner.uid == observed.pool.id.uid);
    let (free, replaced): (Vec<_>, Vec<_>) = free.into_iter().partition(is_kept);
    actions.extend(
        replaced.iter().filter_map(|free| step(observed, free, Some(DiskDeleteReason::Broken), plan)),
    );
    if free.is_empty() {
        return;
    }
    if template.lifetime == Lifetime::Ephemeral {
        let message = format!(
            "disk template {} says that its disks end with their machines, and the pool has kept {} that no machine \
             has: they are left as they are; delete them, or set reclaim.onScaleDown to Retain again",
            template.name,
            free.len()
        );
        plan.complain(FailureReason::DiskFailure, &message);
        plan.blockers.push(Blocker::UserAction(message));
        return actions.extend(free.iter().filter_map(|free| step(observed, free, None, plan)));
    }
    let (mut usable, broken): (Vec<_>, Vec<_>) = free.into_iter().partition(|free| is_usable(free.disk));
    let patience = template.ttl.unwrap_or(BROKEN_AGE);
    for free in broken {
        let end = due(observed, &free, patience, plan).then_some(DiskDeleteReason::Broken);
        actions.extend(step(observed, &free, end, plan));
    }
    // The newest are kept. Only the others are looked at one by one, so that the pass stays linear.
    let keep = template.keep.min(usable.len());
    if keep < usable.len() {
        let newest_first = |free: &Free<'_>| (Reverse(free.since), free.disk.id.name.clone());
        usable.select_nth_unstable_by_key(keep, newest_first);
    }
    for (position, free) in usable.iter().enumerate() {
        let end = template
            .ttl
            .filter(|_| template.used && position >= keep)
            .and_then(|ttl| due(observed, free, ttl, plan).then_some(DiskDeleteReason::Expired));
        actions.extend(step(observed, free, end, plan));
    }
}

/// Whether a disk has been free for longer than `limit`; if not, the plan looks again when it will have been.
fn due(observed: &Observed<'_>, free: &Free<'_>, limit: Duration, plan: &mut Plan) -> bool {
    let left = limit.checked_sub(elapsed(observed.now, free.since));
    if let Some(left) = left {
        plan.look_again(left.max(SHORTEST_LOOK));
    }
    left.is_none()
}

/// One step: a disk that ends is marked, and deleted after the grace; one that does not end loses its mark.
fn step(
    observed: &Observed<'_>,
    free: &Free<'_>,
    end: Option<DiskDeleteReason>,
    plan: &mut Plan,
) -> Option<Action> {
    let disk = free.disk;
    let collecting = disk.annotations.collecting_since.map(|stored| valid_time(observed.now, disk, stored));
    let annotated = |collecting_since| {
        Some(annotate(disk, DiskAnnotations { collecting_since, ..disk.annotations.clone() }))
    };
    match (end, collecting) {
        (None, None) => None,
        (None, Some(_)) => annotated(None),
        (Some(reason), Some(Some(since))) => {
            let left = observed.collection_grace.saturating_sub(elapsed(observed.now, since));
            if left.is_zero() {
                return Some(Action::DeleteDisk { disk: disk.id.clone(), reason });
            }
            plan.look_again(left);
            None
        }
        (Some(_), None | Some(None)) => {
            plan.look_again(observed.collection_grace);
            annotated(Some(current_time(observed, disk)))
        }
    }
}

#[cfg(test)]
mod tests;

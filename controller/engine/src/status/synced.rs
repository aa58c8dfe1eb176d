//! The condition `Synced`: whether the current revision is in effect in all machines, and if not, why.

use super::counts::MachineCounts;
use super::detached::{DetachedDiskReport, describe_detached_disks, find_detached_disks};
use super::overridden;
use super::text::{join_message_parts, list_some_names, machine_count_text, verb_for_count};
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::failure::{FailureReason, PoolFailure};
use crate::ids::Uid;
use crate::plan::ApplyStage;
use crate::plan::observed::ObservedPool;
use crate::rollout::progress::RolloutProgress;

/// The condition. `waits` says which machines wait for a disk.
pub(super) fn synced_condition(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    waits: &[String],
    failure: Option<&PoolFailure>,
) -> ComputedCondition {
    if let Some(unread) = failure.filter(|failure| failure.reason == FailureReason::FailedRead) {
        let message =
            format!("unknown whether the current template is in effect in all machines: {}", unread.message);
        return ComputedCondition {
            kind: ConditionType::Synced,
            holds: false,
            reason: ConditionReason::FailedRead,
            message,
        };
    }
    let (overdue, first) = observed.memory.rollout_attempts.overdue(observed.uptime);
    let detached = find_detached_disks(observed);
    let holds = counts.updated == counts.live && overdue == 0 && detached.is_empty();
    let reason = if holds {
        ConditionReason::PoolSynced
    } else if overdue > 0 {
        ConditionReason::ChangesNotEvaluated
    } else if counts.for_approval > 0 {
        ConditionReason::RestartPendingApproval
    } else if counts.updated == counts.live {
        ConditionReason::DiskDetachedByHand
    } else if counts.updated + counts.stranded == counts.live {
        ConditionReason::RecreationRequired
    } else if counts.updated + counts.stranded + counts.overridden == counts.live {
        ConditionReason::FieldsOverridden
    } else {
        ConditionReason::RolloutInProgress
    };
    let message = if holds {
        describe_updated_count(observed, counts)
    } else {
        let causes = unsynced_causes(observed, counts, overdue, first, &detached);
        join_message_parts(
            std::iter::once(describe_updated_count(observed, counts))
                .chain(causes)
                .chain(waits.iter().cloned()),
        )
    };
    ComputedCondition { kind: ConditionType::Synced, holds, reason, message }
}

/// In how many machines the current revision is in effect.
fn describe_updated_count(observed: &ObservedPool<'_>, counts: &MachineCounts) -> String {
    let revision = &observed.pool.revision;
    let what = if revision.pinned {
        format!("revision {}, {}, is in effect in", revision.id, stored_revision_reason(observed))
    } else {
        "the current template is in effect in".to_owned()
    };
    match (counts.updated, counts.live) {
        (_, 0) => "the pool has no machines".to_owned(),
        (updated, live) if updated == live && live > 1 => format!("{what} all {live} machines"),
        (updated, live) => format!("{what} {updated} of {}", machine_count_text(live)),
    }
}

/// Why the pool uses a stored revision instead of its template.
fn stored_revision_reason(observed: &ObservedPool<'_>) -> &'static str {
    if observed.pool.revision.held {
        "the last current one, because the requested revision cannot be used"
    } else {
        "which the pool requests instead of its template"
    }
}

/// All causes that a user can influence.
fn unsynced_causes(
    observed: &ObservedPool<'_>,
    counts: &MachineCounts,
    overdue: usize,
    first: Option<&Uid>,
    detached: &[DetachedDiskReport],
) -> Vec<String> {
    let pool = observed.pool;
    let mut causes = Vec::new();
    if overdue > 0 {
        causes.push(format!(
            "the platform has not evaluated changes of {}{} for more than 10 minutes: check whether its controller \
             runs",
            machine_count_text(overdue),
            name_in_parentheses(observed, first)
        ));
    }
    if counts.for_approval > 0 {
        let need = if counts.for_approval == 1 { "needs" } else { "need" };
        causes.push(format!(
            "{} {need} a restart for it, which you must approve",
            machine_count_text(counts.for_approval)
        ));
    }
    if counts.restarting > 0 {
        let restart = if counts.restarting == 1 { "restarts" } else { "restart" };
        causes.push(format!("{} {restart} to apply it", machine_count_text(counts.restarting)));
    }
    match counts.stranded {
        0 => {}
        1 => causes.push(
            "1 machine keeps the disk that it booted from, whose disk template was removed, until you stop or recreate \
             the machine"
                .to_owned(),
        ),
        stranded => causes.push(format!(
            "{stranded} machines keep the disks that they booted from, whose disk template was removed, until you stop \
             or recreate these machines"
        )),
    }
    causes.extend(overridden::describe_overridden(observed, counts));
    if !detached.is_empty() {
        causes.push(describe_detached_disks(detached));
    }
    if pool.revision.held {
        causes.push(
            "held: the requested revision cannot be used, so the controller updates no further machine"
                .to_owned(),
        );
    } else if pool.rollout.paused && counts.updated < counts.live {
        causes.push("paused: the controller updates no further machine".to_owned());
    } else {
        causes.extend(rollout_limits(observed));
    }
    causes
}

/// What keeps the controller from updating further machines.
fn rollout_limits(observed: &ObservedPool<'_>) -> Vec<String> {
    let (pool, memory) = (observed.pool, observed.memory);
    let progress = RolloutProgress::of(observed);
    let mut limits = Vec::new();
    if progress.refusing > 0 {
        let attempts = &memory.rollout_attempts;
        let live = observed.pool_machines().filter(|machine| !machine.terminating);
        let refusing = live.filter(|machine| attempts.refuses(&machine.id.uid, &pool.revision.id));
        let refusing: Vec<&str> = refusing.map(|machine| &*machine.id.name).collect();
        let of = if refusing.len() == 1 { "the update of machine" } else { "the updates of machines" };
        limits.push(format!("the API server rejected {of} {}", list_some_names(refusing)));
        if progress.stopped() {
            limits.push(
                "stopped: the controller updates no other machine until the API server accepts one of these updates"
                    .to_owned(),
            );
        }
    }
    if progress.outdated > 0 && progress.remaining_budget() == 0 {
        limits.push(format!(
            "waiting: {} {} unavailable, and the disruption budget is {}",
            machine_count_text(progress.unavailable),
            verb_for_count(progress.unavailable),
            progress.budget
        ));
    }
    let backoffs = [
        memory.backoff(ApplyStage::Update),
        memory.backoff(ApplyStage::Restart),
        memory.backoff(ApplyStage::RecordRevision),
    ];
    if backoffs.into_iter().any(|backoff| backoff.cause().is_some()) {
        limits.push("updates are in backoff after a failure".to_owned());
    }
    limits
}

/// The name of one of the machines, in parentheses.
fn name_in_parentheses(observed: &ObservedPool<'_>, uid: Option<&Uid>) -> String {
    let machine = observed.pool_machines().find(|machine| Some(&machine.id.uid) == uid);
    machine.map_or(String::new(), |machine| format!(" ({})", machine.id.name))
}

//! The condition `Synced`: whether the current revision is in effect in all machines, and if not, why.

use std::fmt::Write as _;

use super::counts::MachineCounts;
use super::detached::{Detached, detached, sentence};
use crate::condition::{self, Wanted};
use crate::ids::Uid;
use crate::plan::observed::Observed;
use crate::plan::progress::RolloutProgress;

pub(super) fn synced(observed: &Observed<'_>, counts: &MachineCounts) -> Wanted {
    let (overdue, first) = observed.memory.rollout_attempts.overdue(observed.uptime);
    let detached = detached(observed);
    let holds = counts.updated == counts.live && overdue == 0 && detached.is_empty();
    let reason = if holds {
        condition::POOL_SYNCED
    } else if overdue > 0 {
        condition::CHANGES_NOT_EVALUATED
    } else if counts.for_approval > 0 {
        condition::RESTART_PENDING_APPROVAL
    } else if counts.updated == counts.live {
        condition::DISK_DETACHED_BY_HAND
    } else if counts.updated + counts.stranded == counts.live {
        condition::RECREATION_REQUIRED
    } else {
        condition::ROLLOUT_IN_PROGRESS
    };
    let message = match (holds, &observed.pool.rollout.pinned) {
        (true, None) => String::new(),
        (true, Some(pinned)) => {
            format!("all live replicas are at revision {pinned}, {}", because(observed))
        }
        (false, _) => message(observed, counts, (overdue, first), &detached),
    };
    Wanted { kind: condition::SYNCED, holds, reason, message }
}

/// Why the pool uses a stored revision instead of its template.
fn because(observed: &Observed<'_>) -> &'static str {
    if observed.pool.rollout.held {
        "the last current one, because the requested revision cannot be used"
    } else {
        "which the pool requests instead of its template"
    }
}

/// The count, and then all causes that a user can influence.
fn message(
    observed: &Observed<'_>,
    counts: &MachineCounts,
    (overdue, first): (usize, Option<&Uid>),
    detached: &[Detached],
) -> String {
    let (pool, live) = (observed.pool, counts.live);
    let what = match &pool.rollout.pinned {
        Some(pinned) => format!("revision {pinned}, {}", because(observed)),
        None => "the current template".to_owned(),
    };
    let mut message = format!("{} of {live} live replicas have {what}", counts.updated);
    let mut add = |sentence: std::fmt::Arguments<'_>| {
        message.write_str("; ").and_then(|()| message.write_fmt(sentence)).expect("a string takes all");
    };
    if overdue > 0 {
        add(format_args!(
            "the platform has not evaluated changes of {overdue} replicas{} for more than 10 minutes: check \
             whether its controller runs",
            named(observed, first)
        ));
    }
    if counts.for_approval > 0 {
        add(format_args!(
            "{} of {live} have it and need a restart, which you must approve",
            counts.for_approval
        ));
    }
    if counts.stranded > 0 {
        add(format_args!(
            "{} of {live} keep the disk that they booted from, whose disk template was removed, until they are \
             stopped \
             or recreated",
            counts.stranded
        ));
    }
    if !detached.is_empty() {
        add(format_args!("{}", sentence(detached)));
    }
    if pool.rollout.held {
        add(format_args!("held: the requested revision cannot be used, so no further replica is updated"));
        return message;
    }
    if pool.rollout.paused && counts.updated < live {
        add(format_args!("paused: no further replica is updated"));
        return message;
    }
    let progress = RolloutProgress::of(observed);
    if progress.refusing > 0 {
        let attempts = &observed.memory.rollout_attempts;
        let machines = observed.pool_machines().filter(|machine| !machine.terminating);
        let refusing = machines.filter(|machine| attempts.refuses(&machine.id.uid, &pool.revision));
        let first = refusing.map(|machine| &machine.id.name).min();
        let first = first.map_or(String::new(), |name| format!(" ({name} among them)"));
        add(format_args!("rejected by {}{first}", progress.refusing));
        if progress.stopped() {
            add(format_args!("stopped: no other replica is updated until one of these accepts it"));
        }
    }
    if progress.outdated > 0 && progress.remaining_budget() == 0 {
        add(format_args!(
            "waiting: {} replicas are unavailable, and the disruption budget is {}",
            progress.unavailable, progress.budget
        ));
    }
    message
}

/// The name of one of the machines, in parentheses.
fn named(observed: &Observed<'_>, uid: Option<&Uid>) -> String {
    let machine = observed.pool_machines().find(|machine| Some(&machine.id.uid) == uid);
    machine.map_or(String::new(), |machine| format!(" ({})", machine.id.name))
}

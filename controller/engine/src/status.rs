//! The status of a pool, computed from the observed state and the last failure.

mod availability;
mod blocked;
mod counts;
mod detached;
mod problem;
mod protection;
mod synced;
mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::condition::{self, Condition, Wanted};
use crate::failure::Failure;
use crate::ids::Uid;
use crate::model::{Machine, ScaleDownPolicy, StatusScope};
use crate::plan::observed::Observed;

pub use crate::model::Summary;
pub use availability::Availability;
use blocked::Blocked;
use counts::MachineCounts;
pub use detached::{Detached, detached};
pub use problem::{Problem, problem};
use text::{are, join, machines};

/// The status of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Counters and identities.
    pub summary: Summary,
    /// All conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
}

/// The status of the observed pool.
pub fn status(observed: &Observed<'_>, failure: Option<&Failure>) -> Status {
    let pool = observed.pool;
    let counts = MachineCounts::of(observed);
    let summary = Summary {
        observed_generation: pool.generation,
        replicas: counts.total,
        ready: counts.ready,
        available: counts.available,
        updated: counts.updated,
        restart_pending: counts.restart_pending,
        healed: observed.memory.healed_machines(),
        revision: pool.revision.clone(),
    };

    let blocked = Blocked::of(observed);
    let mut wanted = Vec::new();
    if pool.status_scope == StatusScope::Complete {
        let available = available(observed, &summary, &blocked);
        // A machine that waits for a disk keeps either the pool from being available, or the rollout from being
        // complete.
        let waits = if available.holds { &blocked.machines[..] } else { &[] };
        wanted.extend([available, synced::synced(observed, &counts, waits, failure)]);
        if counts.total != pool.desired {
            wanted.push(progressing(observed, &counts, &blocked));
        }
    }
    if pool.paused {
        wanted.push(Wanted {
            kind: condition::REPLICA_PAUSED,
            holds: true,
            reason: condition::SUCCESSFUL_PAUSED,
            message: "the pool is paused: the controller creates, deletes and updates no machine".to_owned(),
        });
    }
    if let Some(unresolved) = &pool.unresolved {
        wanted.push(Wanted {
            kind: condition::TEMPLATE_RESOLVED,
            holds: false,
            reason: unresolved.reason,
            message: unresolved.message.clone(),
        });
    }
    if let Some(failure) = pool.invalid_spec().as_ref().or(failure) {
        wanted.push(Wanted {
            kind: condition::REPLICA_FAILURE,
            holds: true,
            reason: failure.reason.as_str(),
            message: failure.message.clone(),
        });
    }
    if !pool.invalid_settings.is_empty() {
        wanted.push(Wanted {
            kind: condition::INVALID_SETTINGS,
            holds: true,
            reason: condition::UNREADABLE_SETTINGS,
            message: summarize(&pool.invalid_settings),
        });
    }
    wanted.extend(protection::blocked(observed));
    let conditions =
        condition::merge(wanted, &pool.published.conditions, observed.now, summary.observed_generation);
    Status { summary, conditions }
}

/// The invalid settings in one message, limited to a number that the API server accepts.
fn summarize(settings: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = settings.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match settings.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{shown}; and {more} more"),
        Some(0) | None => shown,
    }
}

fn available(observed: &Observed<'_>, summary: &Summary, blocked: &Blocked) -> Wanted {
    let (ready, desired) = (summary.ready, observed.pool.desired);
    let holds = ready >= desired;
    let count = match ready.checked_sub(desired) {
        Some(1..) => format!("{} {} ready, {desired} desired", machines(ready), are(ready)),
        _ if desired == 0 => "no machines are desired".to_owned(),
        _ => format!("{ready} of {} {} ready", machines(desired), are(desired)),
    };
    let problem = problem(observed).filter(|_| !holds).map(Problem::sentence);
    let waits = if holds { &[] } else { &blocked.machines[..] };
    Wanted {
        kind: condition::AVAILABLE,
        holds,
        reason: if holds { condition::ALL_REPLICAS_READY } else { condition::INSUFFICIENT_READY_REPLICAS },
        message: join(std::iter::once(count).chain(problem).chain(waits.iter().cloned())),
    }
}

fn progressing(observed: &Observed<'_>, counts: &MachineCounts, blocked: &Blocked) -> Wanted {
    let pool = observed.pool;
    let MachineCounts { total, live, .. } = *counts;
    let desired = pool.desired;
    let named: BTreeSet<&Uid> = pool.record.accepted().map(|target| &target.uid).collect();
    let leaving = |machine: &&Arc<Machine>| !machine.terminating && named.contains(&machine.id.uid);
    let staying = live - observed.pool_machines().filter(leaving).count();
    let message = if total < desired {
        format!("creating machines: {total} of {desired} exist")
    } else if pool.scale_down_policy == ScaleDownPolicy::Explicit && staying > desired {
        explicit_surplus(staying, desired)
    } else if live <= desired {
        let terminating = total - live;
        format!("{terminating} of {} {} terminating, {desired} desired", machines(total), are(terminating))
    } else {
        format!("deleting machines: {total} exist, {desired} desired")
    };
    let message = join(std::iter::once(message).chain(blocked.count(observed, total)));
    Wanted { kind: condition::PROGRESSING, holds: true, reason: condition::REPLICAS_PROGRESSING, message }
}

/// What to do about the surplus of an Explicit pool. A targeted removal lowers `replicas`, but not below 0.
fn explicit_surplus(staying: usize, desired: usize) -> String {
    let surplus = staying - desired;
    let (exceed, all) = if staying == 1 { ("exceeds", "it") } else { ("exceed", "all") };
    let again = if desired == 0 {
        String::new()
    } else {
        format!(", which lowers replicas, and then set replicas to {desired} again")
    };
    format!(
        "{} {exceed} replicas: {desired}, and with scaleDownPolicy Explicit the controller deletes only the targets of \
         targeted removals: remove {} by name{again}; or set replicas to {staying} to keep {all}",
        machines(staying),
        machines(surplus)
    )
}

#[cfg(test)]
mod tests;

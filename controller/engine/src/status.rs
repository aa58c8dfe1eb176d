//! The status of a pool, computed from the observed state and the last failure.

mod activity;
mod availability;
mod blocked;
mod counts;
mod detached;
mod overridden;
mod phase;
mod pins;
mod problem;
mod protection;
mod surplus;
mod synced;
mod text;

use crate::activity::Entry;
use crate::condition::{self, Condition, Wanted};
use crate::failure::{Failure, summarize};
use crate::model::{Naming, ScaleDownPolicy, StatusScope};
use crate::plan::observed::Observed;

pub use crate::model::Summary;
pub use availability::Availability;
use blocked::Blocked;
use counts::MachineCounts;
pub use detached::{Detached, Link, detached};
pub use phase::Phase;
pub use problem::{Problem, machine_waiting_for_storage, problem};
use surplus::{explicit_surplus, staying};
use text::{are, join, machines};

/// The status of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Counters and identities.
    pub summary: Summary,
    /// All conditions, including those of other controllers.
    pub conditions: Vec<Condition>,
    /// The activity log. A difference in it alone causes no write.
    pub activity: Vec<Entry>,
}

impl Status {
    /// Whether two statuses are equal, apart from the activity log.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        let Self { summary, conditions, activity: _ } = self;
        (summary, conditions) == (&other.summary, &other.conditions)
    }
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
        next_number: (pool.naming == Naming::Random).then(|| observed.settled_numbers()),
        healed: observed.memory.healed_machines(),
        revision: pool.revision.id.clone(),
        used_copies: pool.revision.used_copies.clone(),
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
    let overridden = overridden::describe_overridden(observed, &counts);
    if let Some(message) = &overridden {
        wanted.push(Wanted {
            kind: condition::TEMPLATE_OVERRIDDEN,
            holds: true,
            reason: condition::FIELDS_OVERRIDDEN,
            message: message.clone(),
        });
    }
    if pool.status_scope == StatusScope::FailureAndPause {
        let detached = detached(observed);
        if !detached.is_empty() {
            wanted.push(Wanted {
                kind: condition::DISK_DETACHED,
                holds: true,
                reason: condition::DISK_DETACHED_BY_HAND,
                message: detached::sentence(&detached),
            });
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
    wanted.extend(pins::conditions(observed));
    if let Some(images) = &pool.images {
        wanted.push(Wanted {
            kind: condition::IMAGES_READY,
            holds: false,
            reason: images.reason,
            message: images.message.clone(),
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
    let protected = protection::blocked(observed);
    let waits = protected.iter().map(|condition| condition.message.clone()).collect();
    wanted.extend(phase::conditions(observed, &counts, failure, overridden, waits));
    wanted.extend(protected);
    let conditions =
        condition::merge(wanted, &pool.published.conditions, observed.now, summary.observed_generation);
    let activity = activity::log(observed, &summary);
    Status { summary, conditions, activity }
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
    let staying = staying(observed, counts);
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

#[cfg(test)]
mod tests;

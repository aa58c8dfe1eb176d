//! The status of a pool, computed from the observed state and the last failure.

mod counts;
mod detached;
mod synced;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::condition::{self, Condition, Wanted};
use crate::failure::Failure;
use crate::ids::Uid;
use crate::model::{Machine, ScaleDownPolicy, StatusScope};
use crate::plan::observed::Observed;

pub use crate::model::Summary;
use counts::MachineCounts;
pub use detached::{Detached, detached};

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
        updated: counts.updated,
        restart_pending: counts.restart_pending,
        revision: pool.revision.clone(),
    };

    let mut wanted = match pool.status_scope {
        StatusScope::Complete => vec![available(&summary, pool.desired), synced::synced(observed, &counts)],
        StatusScope::FailureAndPause => Vec::new(),
    };
    if counts.total != pool.desired && pool.status_scope == StatusScope::Complete {
        wanted.push(progressing(observed, counts.total, counts.live));
    }
    if pool.paused {
        wanted.push(Wanted {
            kind: condition::REPLICA_PAUSED,
            holds: true,
            reason: condition::SUCCESSFUL_PAUSED,
            message: "the pool is paused: the controller creates, deletes and updates no machine".to_owned(),
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
    if !pool.invalid_settings.is_empty() && pool.status_scope == StatusScope::Complete {
        wanted.push(Wanted {
            kind: condition::INVALID_SETTINGS,
            holds: true,
            reason: condition::UNREADABLE_SETTINGS,
            message: summarize(&pool.invalid_settings),
        });
    }
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

fn available(summary: &Summary, desired: usize) -> Wanted {
    let holds = summary.ready >= desired;
    Wanted {
        kind: condition::AVAILABLE,
        holds,
        reason: if holds { condition::ALL_REPLICAS_READY } else { condition::INSUFFICIENT_READY_REPLICAS },
        message: if holds {
            String::new()
        } else {
            format!("{} of {desired} desired replicas are ready", summary.ready)
        },
    }
}

fn progressing(observed: &Observed<'_>, machines: usize, live: usize) -> Wanted {
    let pool = observed.pool;
    let desired = pool.desired;
    let named: BTreeSet<&Uid> = pool.record.accepted().map(|target| &target.uid).collect();
    let leaving = |machine: &&Arc<Machine>| !machine.terminating && named.contains(&machine.id.uid);
    let staying = live - observed.pool_machines().filter(leaving).count();
    let message = if machines < desired {
        format!("creating replicas: {machines} of {desired} exist")
    } else if pool.scale_down_policy == ScaleDownPolicy::Explicit && staying > desired {
        format!(
            "{staying} live replicas exceed replicas: {desired}, and with explicit removal the controller deletes \
             only the targets of targeted removals: remove {} by name, which lowers replicas, and then set \
             replicas to {desired} again; or set replicas to {staying} to keep all",
            staying - desired
        )
    } else if live <= desired {
        format!("{} of {machines} replicas are terminating, {desired} desired", machines - live)
    } else {
        format!("removing replicas: {machines} exist, {desired} desired")
    };
    Wanted { kind: condition::PROGRESSING, holds: true, reason: condition::REPLICAS_PROGRESSING, message }
}

#[cfg(test)]
mod tests;

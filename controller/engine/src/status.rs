//! The status of a pool, computed from the observed state and the last failure.

mod detached;
mod synced;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backoff::Failure;
use crate::condition::{self, Condition, Wanted};
use crate::model::{Activity, Machine, ScaleDownPolicy, Uid};
use crate::plan::rollout::RolloutState;
use crate::plan::{Observed, invalid_spec};
use crate::revision::RevisionId;

pub use detached::{Detached, detached};

/// The counters and identities of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The generation that the pass used.
    pub observed_generation: i64,
    /// Machines that exist, including terminating and stopped ones, because they still use resources.
    pub replicas: usize,
    /// Live machines that run.
    pub ready: usize,
    /// Live machines in which the current revision is in effect.
    pub updated: usize,
    /// Live machines with the current revision that need a restart.
    pub restart_pending: usize,
    /// Identity of the current revision.
    pub revision: RevisionId,
}

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

    let mut wanted = vec![available(&summary, pool.desired), synced::synced(observed, &counts)];
    if counts.total != pool.desired {
        wanted.push(progressing(observed, counts.total, counts.live));
    }
    if let Some(failure) = invalid_spec(pool).as_ref().or(failure) {
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

/// Counts of the pool's machines.
#[derive(Clone, Copy, Debug, Default)]
struct MachineCounts {
    total: usize,
    /// Live machines. The following counts include only these.
    live: usize,
    ready: usize,
    updated: usize,
    /// Machines with the current revision that need a restart.
    restart_pending: usize,
    /// Machines of these that need an approval for the restart.
    for_approval: usize,
    /// Machines that keep a disk of an earlier template.
    stranded: usize,
}

impl MachineCounts {
    fn of(observed: &Observed<'_>) -> Self {
        let pool = observed.pool;
        let mut counts = Self::default();
        for machine in observed.pool_machines() {
            counts.total += 1;
            if !machine.terminating {
                counts.count(RolloutState::of(pool, machine), machine);
            }
        }
        counts
    }

    fn count(&mut self, state: RolloutState, machine: &Machine) {
        let waits = machine.restart_pending && state != RolloutState::Outdated;
        self.live += 1;
        self.ready += usize::from(machine.activity == Activity::Running);
        self.updated += usize::from(state == RolloutState::Current);
        self.restart_pending += usize::from(waits);
        self.for_approval += usize::from(waits && !machine.restarts_itself);
        self.stranded += usize::from(state == RolloutState::Stranded);
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

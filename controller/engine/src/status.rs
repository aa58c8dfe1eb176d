//! The status of a pool: a function of what was observed and of the last failure.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::condition::{self, Condition, Wanted};
use crate::model::{Activity, Removal, Replica, Uid};
use crate::pacing::Failure;
use crate::plan::{Observed, blocker};
use crate::revision::RevisionId;

/// The counters and identities of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The generation that the pass worked on.
    pub observed_generation: i64,
    /// Members that exist, Terminating and stopped ones included: they still use resources.
    pub replicas: usize,
    /// Live members that run.
    pub ready: usize,
    /// Live members in which the current template is in effect.
    pub updated: usize,
    /// Live members that carry the current template and wait for a restart.
    pub restart_pending: usize,
    /// Identity of the current template.
    pub revision: RevisionId,
}

/// What the pool should show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Counters and identities.
    pub summary: Summary,
    /// All conditions, those of others included.
    pub conditions: Vec<Condition>,
}

/// The status of the observed pool.
pub fn status(observed: &Observed<'_>, failure: Option<&Failure>) -> Status {
    let pool = observed.pool;
    let members: Vec<_> = observed.members().collect();
    let live: Vec<_> = members.iter().filter(|member| !member.terminating).collect();
    let current = |member: &Replica| member.revision.as_ref() == Some(&pool.revision);
    let summary = Summary {
        observed_generation: pool.generation,
        replicas: members.len(),
        ready: live.iter().filter(|member| member.activity == Activity::Running).count(),
        updated: live.iter().filter(|member| current(member) && !member.restart_pending).count(),
        restart_pending: live.iter().filter(|member| current(member) && member.restart_pending).count(),
        revision: pool.revision.clone(),
    };

    let mut wanted = vec![available(&summary, pool.desired), synced(&summary, live.len())];
    if members.len() != pool.desired {
        wanted.push(progressing(observed, members.len(), live.len()));
    }
    let matters = members.len() < pool.desired || !pool.flaws.is_empty();
    let blocked = matters.then(|| blocker(pool)).flatten();
    if let Some(failure) = blocked.as_ref().or(failure) {
        wanted.push(Wanted {
            kind: condition::REPLICA_FAILURE,
            holds: true,
            reason: failure.reason.as_str(),
            message: failure.message.clone(),
        });
    }
    let conditions =
        condition::merge(wanted, &pool.published.conditions, observed.now, summary.observed_generation);
    Status { summary, conditions }
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

fn synced(summary: &Summary, live: usize) -> Wanted {
    let holds = summary.updated == live;
    Wanted {
        kind: condition::SYNCED,
        holds,
        reason: if holds {
            condition::POOL_SYNCED
        } else if summary.updated + summary.restart_pending == live {
            condition::RESTART_PENDING_APPROVAL
        } else {
            condition::RECREATION_REQUIRED
        },
        message: if holds {
            String::new()
        } else {
            format!(
                "{} of {live} live replicas have the current template; the others keep what they were made from \
                 until they are restarted or recreated",
                summary.updated
            )
        },
    }
}

fn progressing(observed: &Observed<'_>, members: usize, live: usize) -> Wanted {
    let pool = observed.pool;
    let desired = pool.desired;
    let named: BTreeSet<&Uid> = pool.record.accepted().map(|target| &target.uid).collect();
    let leaving = |member: &&Arc<Replica>| !member.terminating && named.contains(&member.id.uid);
    let staying = live - observed.members().filter(leaving).count();
    let message = if members < desired {
        format!("creating replicas: {members} of {desired} exist")
    } else if pool.removal == Removal::Explicit && staying > desired {
        format!(
            "{staying} live replicas exceed replicas: {desired}, and in a pool with explicit removal none leaves by \
             itself: remove {} by name, which lowers replicas, and then raise replicas to {desired} again; or raise \
             replicas to {staying} to keep all",
            staying - desired
        )
    } else if live <= desired {
        format!("{} of {members} replicas are terminating, {desired} desired", members - live)
    } else {
        format!("removing replicas: {members} exist, {desired} desired")
    };
    Wanted { kind: condition::PROGRESSING, holds: true, reason: condition::REPLICAS_PROGRESSING, message }
}

#[cfg(test)]
mod tests;

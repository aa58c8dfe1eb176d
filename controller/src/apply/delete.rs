//! Deletions of machines: one request each, and it cannot meet another machine than the one that was meant.

use vmpool_engine::ObjectId;
use vmpool_engine::plan::DeleteReason;

use super::{Outcome, seen};
use crate::context::{Context, PoolEntry, collection};
use crate::events::{Happening, Reason};
use crate::metrics::WriteKind;
use crate::platform::Platform;
use crate::write::WriteError;

/// Deletes a machine that was named. Whatever it has become since: the name means this UID.
pub(super) async fn named<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
) -> Outcome {
    let path = collection::<P::Machine>(&pool.facts.namespace);
    match context.writer.delete(WriteKind::DeleteMachine, path, member, None).await {
        Ok(_) => Outcome::Deleted(member.clone(), DeleteReason::Named),
        // Not there, or another object by now: the one that should leave is gone.
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Gone(member.clone()),
        Err(error) => uncertain(member, error),
    }
}

/// Deletes a machine because there are too many. It was chosen for what it was at `version`: released, or terminating
/// meanwhile, it must not leave for the count.
pub(super) async fn surplus<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    member: &ObjectId,
    version: Option<u64>,
) -> Outcome {
    // The cache knows already that it changed.
    let Some(version) = version else { return Outcome::Outdated };
    let path = collection::<P::Machine>(&pool.facts.namespace);
    let sent = context.env.uptime();
    match context.writer.delete(WriteKind::DeleteMachine, path, member, Some(version)).await {
        Ok(left) => {
            // A deletion at a version at which nobody had deleted it yet is a write, and has a version of its own.
            if let Some(left) = left {
                context.machines.wrote(left, sent);
            }
            Outcome::Deleted(member.clone(), DeleteReason::Surplus)
        }
        Err(error) if error.is_gone() => Outcome::Gone(member.clone()),
        Err(error) if error.is_conflict() => changed(context, pool, member).await,
        Err(error) => uncertain(member, error),
    }
}

/// What a machine is that was not what it should be. The watch may be stalled, so it is read.
async fn changed<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, member: &ObjectId) -> Outcome {
    match context.get_live::<P::Machine>(&pool.facts.namespace, &member.name).await {
        Ok(live) => match live.map(|live| seen(&live, P::read_machine)) {
            Some(live) if live.facts.id == *member => Outcome::Changed(live),
            _ => Outcome::Gone(member.clone()),
        },
        Err(error) => {
            let error = WriteError::Lost(error.to_string());
            Outcome::Failed(failure(member, &error), error)
        }
    }
}

fn uncertain(member: &ObjectId, error: WriteError) -> Outcome {
    match error {
        WriteError::Lost(_) => Outcome::MaybeDeleted(member.clone(), error),
        error => Outcome::Failed(failure(member, &error), error),
    }
}

pub(super) fn failure(member: &ObjectId, error: &WriteError) -> Happening {
    Happening {
        reason: Reason::FailedDelete,
        name: member.name.to_string(),
        note: format!("deleting machine {member}: {error}"),
    }
}

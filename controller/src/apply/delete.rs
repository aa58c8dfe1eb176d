//! Deletions of machines: one request each, with a UID precondition.

use vmpool_engine::ObjectId;
use vmpool_engine::plan::DeleteReason;
use vmpool_platforms::Platform;

use super::outcome::Outcome;
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Deletes a machine in any state, for example the target of a targeted removal. It is identified by its UID.
pub(super) async fn by_uid<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    reason: DeleteReason,
) -> Outcome {
    let path = collection::<P::Machine>(&pool.facts.namespace);
    match delete(context, path, machine, reason, None).await {
        Ok(_) => Outcome::Deleted(machine.clone(), reason),
        // Not found, or another object has the name: the target is gone.
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Gone(machine.clone()),
        Err(error) => uncertain(machine, error),
    }
}

/// Deletes a machine at `version`, which the plan used. If the machine was released or is terminating meanwhile, it must
/// not count as this deletion; and if it is protected meanwhile, it must stay.
pub(super) async fn at_version<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    reason: DeleteReason,
    version: Option<u64>,
) -> Outcome {
    // The cache already shows a change.
    let Some(version) = version else { return Outcome::Outdated };
    let path = collection::<P::Machine>(&pool.facts.namespace);
    let sent = context.env.uptime();
    match delete(context, path, machine, reason, Some(version)).await {
        Ok(left) => {
            // The first deletion of an object is a write with a version of its own.
            if let Some(left) = left {
                context.machines.wrote(left, sent);
            }
            Outcome::Deleted(machine.clone(), reason)
        }
        Err(error) if error.is_gone() => Outcome::Gone(machine.clone()),
        Err(error) if error.is_conflict() => changed(context, pool, machine).await,
        Err(error) => uncertain(machine, error),
    }
}

/// Deletes a machine. If its storage changed, the machine is deleted after its storage, so that the next machine with its name
/// gets new storage.
async fn delete<P: Platform>(
    context: &Context<P>,
    path: String,
    machine: &ObjectId,
    reason: DeleteReason,
    version: Option<u64>,
) -> Result<Option<u64>, WriteError> {
    let (writer, kind) = (&context.writer, WriteKind::DeleteMachine);
    match reason {
        DeleteReason::StorageChanged => writer.delete_dependents_first(kind, path, machine, version).await,
        DeleteReason::Surplus | DeleteReason::Targeted | DeleteReason::Unhealthy => {
            writer.delete(kind, path, machine, version).await
        }
    }
}

/// Reads a machine that differs from the one that the plan used, because the watch may be stalled.
async fn changed<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, machine: &ObjectId) -> Outcome {
    match context.get_live::<P::Machine>(&pool.facts.namespace, &machine.name).await {
        Ok(live) => match live.map(|live| seen(&live, P::read_machine)) {
            Some(live) if live.facts.id == *machine => Outcome::Changed(live),
            _ => Outcome::Gone(machine.clone()),
        },
        Err(error) => {
            let error = WriteError::Unconfirmed(error.to_string());
            Outcome::Failed(failure(machine, &error), error)
        }
    }
}

fn uncertain(machine: &ObjectId, error: WriteError) -> Outcome {
    match error {
        WriteError::Unconfirmed(_) => Outcome::MaybeDeleted(machine.clone(), error),
        error => Outcome::Failed(failure(machine, &error), error),
    }
}

pub(super) fn failure(machine: &ObjectId, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: Reason::FailedDelete,
        name: machine.name.to_string(),
        note: format!("deleting machine {machine}: {error}"),
    }
}

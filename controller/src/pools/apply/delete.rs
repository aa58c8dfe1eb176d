//! Deletions of machines: one request each, with a UID precondition.

use vmpool_engine::ObjectId;
use vmpool_engine::plan::DeleteReason;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, Wording};

use super::outcome::{ActionOutcome, Effect};
use crate::metrics::{MachineActions, WriteKind};
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;
use crate::pools::seen_facts::seen_facts;

/// Deletes a machine in any state, for example the target of a targeted removal. It is identified by its UID.
pub(super) async fn delete_by_uid<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    reason: DeleteReason,
) -> ActionOutcome {
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    match delete_machine(context, path, machine, reason, None).await {
        Ok(_) => deleted_machine_outcome(context, pool, machine, reason),
        // Not found, or another object has the name: the target is gone.
        Err(error) if error.is_gone() || error.is_conflict() => ActionOutcome::gone(machine),
        Err(error) => failed_delete_outcome(machine, error),
    }
}

/// Deletes a machine at `version`, which the plan used. If the machine was released or is terminating
/// meanwhile, it must not count as this deletion; and if it is protected meanwhile, it must stay.
pub(super) async fn delete_at_version<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    reason: DeleteReason,
    version: Option<u64>,
) -> ActionOutcome {
    // The cache already shows a change.
    let Some(version) = version else { return ActionOutcome::outdated() };
    let path = collection_path::<P::Machine>(&pool.facts.namespace);
    let sent = context.leader.env.uptime();
    match delete_machine(context, path, machine, reason, Some(version)).await {
        Ok(left) => {
            // The first deletion of an object is a write with a version of its own.
            if let Some(left) = left {
                context.caches.machines.wrote(left, sent);
            }
            deleted_machine_outcome(context, pool, machine, reason)
        }
        Err(error) if error.is_gone() => ActionOutcome::gone(machine),
        Err(error) if error.is_conflict() => reread_changed_machine(context, pool, machine).await,
        Err(error) => failed_delete_outcome(machine, error),
    }
}

/// Deletes a machine. If the next machine with its name needs new storage, the machine is deleted after its
/// storage. The finalizer of this deletion records on the machine that its storage is not preserved.
async fn delete_machine<P: Platform>(
    context: &PoolContext<P>,
    path: String,
    machine: &ObjectId,
    reason: DeleteReason,
    version: Option<u64>,
) -> Result<Option<u64>, WriteError> {
    let (writer, kind) = (&context.leader.writer, WriteKind::DeleteMachine);
    match reason {
        DeleteReason::StorageChanged { preserved: false } | DeleteReason::Unhealthy => {
            writer.delete_dependents_first(kind, path, machine, version).await
        }
        DeleteReason::StorageChanged { preserved: true }
        | DeleteReason::Surplus { .. }
        | DeleteReason::Targeted { .. }
        | DeleteReason::StandbySurplus
        | DeleteReason::StandbyReplaced
        | DeleteReason::NotReady
        | DeleteReason::Recycled { .. } => writer.delete(kind, path, machine, version).await,
    }
}

/// Reads a machine that differs from the one that the plan used, because the watch may be stalled.
async fn reread_changed_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    match context.get_live::<P::Machine>(&pool.facts.namespace, &machine.name).await {
        Ok(live) => match live.map(|live| seen_facts(&live, P::read_machine)) {
            Some(live) if live.facts.id == *machine => ActionOutcome::changed(live),
            _ => ActionOutcome::gone(machine),
        },
        Err(error) => {
            let error = WriteError::Unconfirmed(error.to_string());
            ActionOutcome::failed(failed_delete_event(machine, &error), error)
        }
    }
}

/// The outcome of an accepted deletion.
fn deleted_machine_outcome<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    reason: DeleteReason,
) -> ActionOutcome {
    tracing::info!(
        machine = &*machine.name,
        machine_uid = machine.uid.as_str(),
        ?reason,
        "deleted a machine"
    );
    context.metrics.removals.deleted(reason);
    let healed = usize::from(reason == DeleteReason::Unhealthy);
    let deleted = MachineActions { deleted: 1, healed, ..MachineActions::default() };
    context.pool_counts.count_actions(&PoolKey::of(&pool.facts), deleted);
    let mut outcome = ActionOutcome::gone(machine);
    if reason == DeleteReason::Unhealthy {
        outcome = outcome.with(Effect::Healed(machine.clone()));
    }
    if reason == DeleteReason::NotReady {
        outcome = outcome.with(Effect::UnreadyReplaced(machine.clone()));
    }
    // The event about a target is sent when its entry is removed from the record, because other programs
    // delete most targets.
    let event = (!matches!(reason, DeleteReason::Targeted { .. })).then(|| PoolEvent {
        reason: EventReason::SuccessfulDelete,
        name: machine.name.to_string(),
        note: P::Wording::deleted(&pool.facts.namespace, machine, reason),
    });
    outcome.reporting(event)
}

fn failed_delete_outcome(machine: &ObjectId, error: WriteError) -> ActionOutcome {
    let is_unconfirmed = matches!(error, WriteError::Unconfirmed(_));
    let outcome = ActionOutcome::failed(failed_delete_event(machine, &error), error);
    if is_unconfirmed { outcome.with(Effect::DeleteUnconfirmed(machine.uid.clone())) } else { outcome }
}

fn failed_delete_event(machine: &ObjectId, error: &WriteError) -> PoolEvent {
    PoolEvent {
        reason: EventReason::FailedDelete,
        name: machine.name.to_string(),
        note: format!("deleting machine {machine}: {error}"),
    }
}

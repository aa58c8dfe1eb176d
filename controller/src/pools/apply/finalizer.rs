//! The finalizer of the controller on pools and machines, and the storage of machines that leave.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use vmpool_engine::scale_up::names::ordinal_of;
use vmpool_engine::{ObjectId, PoolSpec};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{ApiObject, ClaimOf, Finalizers, MachineStorage, Platform, VolumeOf};

use super::copy;
use super::outcome::{ActionOutcome, Effect};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// Adds the finalizer to the pool.
pub(super) async fn add_to_pool<P: Platform>(context: &PoolContext<P>, pool: &PoolEntry<P>) -> ActionOutcome {
    match P::Finalizers::add_to_pool(&pool.object) {
        Some(operations) => write_pool(context, pool, operations, "adding").await,
        None => ActionOutcome::outdated(),
    }
}

/// Removes the finalizer from a deleted pool, after the machines that need its pins have become their owners.
pub(super) async fn remove_from_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
) -> ActionOutcome {
    match copy::transfer_copies_to_users(context, pool).await {
        Ok(()) => {}
        Err(error) if error.is_conflict() || error.is_unprocessable() => return ActionOutcome::outdated(),
        Err(error) => {
            let id = &pool.facts.id;
            let doing = format!("making the machines that name copies of pool {id} their owners");
            return failed_finalizer_outcome(id, &doing, error);
        }
    }
    match P::Finalizers::remove_from_pool(&pool.object) {
        Some(operations) => write_pool(context, pool, operations, "removing").await,
        None => ActionOutcome::outdated(),
    }
}

async fn write_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    operations: Value,
    doing: &str,
) -> ActionOutcome {
    let id = &pool.facts.id;
    let path = collection_path::<P::Pool>(&pool.facts.namespace);
    let result = match json_patch(operations) {
        Ok(patch) => {
            context
                .leader
                .writer
                .patch::<IgnoredAny, _>(WriteKind::PatchPool, path, &id.name, None, patch)
                .await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(_) => ActionOutcome::done(),
        Err(error) if error.is_gone() || context.is_outdated(&error, &*pool.object).await => {
            ActionOutcome::outdated()
        }
        Err(error) => failed_finalizer_outcome(id, &format!("{doing} the finalizer of pool {id}"), error),
    }
}

/// Removes the finalizer from a machine. If its storage is preserved, the machine first stops being its
/// owner; the deletion comes before that, so that the platform does not make the machine the owner again.
pub(super) async fn remove_machine_finalizer<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    preserve_storage: bool,
) -> ActionOutcome {
    let namespace = &*pool.facts.namespace;
    let doing = format!("removing the finalizer of machine {machine}");
    let live = match live_machine(context, namespace, machine, &doing).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let facts = seen_facts(&live, P::read_machine);
    if !facts.facts.terminating && !pool.facts.deleting {
        return ActionOutcome::changed(facts);
    }
    let preserves = preserve_storage && !facts.facts.discards_storage;
    if preserves && let Err(outcome) = preserve_machine_storage(context, pool, machine, &live).await {
        return outcome;
    }
    if !pool.facts.deleting
        && let Err(outcome) = record_moves(context, pool, machine, &live, preserves).await
    {
        return outcome;
    }
    let Some(operations) = P::Finalizers::remove(&live) else { return ActionOutcome::changed(facts) };
    let path = collection_path::<P::Machine>(namespace);
    let patched = match json_patch(operations) {
        Ok(patch) => {
            let kind = WriteKind::PatchMachine;
            context.leader.writer.patch::<P::Machine, _>(kind, path, &machine.name, None, patch).await
        }
        Err(error) => Err(error),
    };
    match patched {
        Ok(left) => ActionOutcome::done().with(Effect::Machine(seen_facts(&left, P::read_machine))),
        Err(error) if error.is_gone() => ActionOutcome::gone(machine),
        Err(error) if context.is_outdated(&error, &live).await => ActionOutcome::outdated(),
        Err(error) => failed_finalizer_outcome(machine, &doing, error),
    }
}

/// Reads a machine. The outcome if it is gone or cannot be read.
async fn live_machine<P: Platform>(
    context: &PoolContext<P>,
    namespace: &str,
    machine: &ObjectId,
    doing: &str,
) -> Result<P::Machine, ActionOutcome> {
    match context.get_live::<P::Machine>(namespace, &machine.name).await {
        Ok(Some(live)) if live.meta().uid.as_deref() == Some(machine.uid.as_str()) => Ok(live),
        Ok(_) => Err(ActionOutcome::gone(machine)),
        Err(error) => {
            Err(failed_finalizer_outcome(machine, doing, WriteError::Unconfirmed(error.to_string())))
        }
    }
}

/// Ends a deletion that only the garbage collector holds, if the storage of the machine is gone.
pub(super) async fn end_deletion<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
) -> ActionOutcome {
    let namespace = &*pool.facts.namespace;
    let doing = format!("ending the deletion of machine {machine}");
    let failed = |error| failed_finalizer_outcome(machine, &doing, error);
    let live = match live_machine(context, namespace, machine, &doing).await {
        Ok(live) => live,
        Err(outcome) => return outcome,
    };
    let Some(operations) = P::Finalizers::end_deletion(&live) else {
        return ActionOutcome::changed(seen_facts(&live, P::read_machine));
    };
    let (volumes, claims) = storage_of::<P>(&pool.facts, &machine.name, &live);
    for volume in &volumes {
        if let Err(error) = check_storage_gone::<P, VolumeOf<P>>(context, namespace, machine, volume).await {
            return failed(error);
        }
    }
    for claim in &claims {
        if let Err(error) = check_storage_gone::<P, ClaimOf<P>>(context, namespace, machine, claim).await {
            return failed(error);
        }
    }
    let path = collection_path::<P::Machine>(namespace);
    let patched = match json_patch(operations) {
        Ok(patch) => {
            let kind = WriteKind::PatchMachine;
            context.leader.writer.patch::<IgnoredAny, _>(kind, path, &machine.name, None, patch).await
        }
        Err(error) => Err(error),
    };
    match patched {
        Ok(_) => {
            tracing::info!(
                machine = &*machine.name,
                machine_uid = machine.uid.as_str(),
                "ended a deletion that an object outside of the pool held up"
            );
            ActionOutcome::gone(machine)
        }
        Err(error) if error.is_gone() => ActionOutcome::gone(machine),
        Err(error) if context.is_outdated(&error, &live).await => ActionOutcome::outdated(),
        Err(error) => failed(error),
    }
}

/// Fails if a storage object exists that the machine owns.
async fn check_storage_gone<P: Platform, K: ApiObject>(
    context: &PoolContext<P>,
    namespace: &str,
    machine: &ObjectId,
    name: &str,
) -> Result<(), WriteError> {
    let live = context.get_live::<K>(namespace, name).await;
    let live = live.map_err(|error| WriteError::Unconfirmed(error.to_string()))?;
    let is_owned = live.is_some_and(|live| {
        let mut owners = live.meta().owner_references.iter().flatten();
        owners.any(|owner| owner.uid == machine.uid.as_str())
    });
    if is_owned {
        let kind = K::kind(&());
        return Err(WriteError::Invalid(format!("{kind} {name} is still being deleted").into()));
    }
    Ok(())
}

/// Removes the machine from the owners of its storage objects. It may own storage whose volume a user removed
/// from it.
async fn preserve_machine_storage<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    live: &P::Machine,
) -> Result<(), ActionOutcome> {
    let (volumes, claims) = storage_of::<P>(&pool.facts, &machine.name, live);
    for volume in volumes {
        disown_storage_object::<P, VolumeOf<P>>(context, pool, machine, &volume).await?;
    }
    for claim in claims {
        disown_storage_object::<P, ClaimOf<P>>(context, pool, machine, &claim).await?;
    }
    Ok(())
}

/// Records on the pool to which storage a user moved volumes of a machine, so that the next one with its
/// ordinal uses it. Storage that is not preserved is not used again.
async fn record_moves<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    live: &P::Machine,
    preserves: bool,
) -> Result<(), ActionOutcome> {
    let Some(ordinal) = ordinal_of(&pool.facts.id.name, &machine.name) else { return Ok(()) };
    let recorded = pool.facts.storage_moves.get(&ordinal).map(|moves| &**moves);
    let moves = if preserves { P::Storage::moves(&P::template(&pool.object), live) } else { None };
    if moves.as_deref() == recorded {
        return Ok(());
    }
    let mut patch = P::Storage::record_moves(ordinal, moves.as_deref());
    patch["metadata"]["uid"] = json!(pool.facts.id.uid.as_str());
    let path = collection_path::<P::Pool>(&pool.facts.namespace);
    let name = &pool.facts.id.name;
    let written = context
        .leader
        .writer
        .patch::<IgnoredAny, _>(WriteKind::PatchPool, path, name, None, Patch::Merge(patch))
        .await;
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() || error.is_conflict() => Err(ActionOutcome::outdated()),
        Err(error) => {
            let doing = format!("recording the moved storage of machine {machine}");
            Err(failed_finalizer_outcome(machine, &doing, error))
        }
    }
}

/// Names of the volumes and of the claims of a machine: those of its spec, and those of the template.
pub(crate) fn storage_of<P: Platform>(
    pool: &PoolSpec,
    name: &str,
    machine: &P::Machine,
) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
    let of_templates = pool.storage_of(name);
    let volumes = merge_distinct_names(P::Storage::volumes(machine), &of_templates);
    (volumes, merge_distinct_names(P::Storage::claims(machine), &of_templates))
}

fn merge_distinct_names(mut names: Vec<Arc<str>>, more: &[Arc<str>]) -> Vec<Arc<str>> {
    let known = names.len();
    names.extend(more.iter().filter(|name| !names[..known].contains(name)).cloned().collect::<Vec<_>>());
    names
}

async fn disown_storage_object<P: Platform, K: ApiObject>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    name: &str,
) -> Result<(), ActionOutcome> {
    let namespace = &*pool.facts.namespace;
    let doing = format!("preserving {} {name} of machine {machine}", K::kind(&()));
    let live = match context.get_live::<K>(namespace, name).await {
        Ok(live) => live,
        Err(error) => {
            return Err(failed_finalizer_outcome(
                machine,
                &doing,
                WriteError::Unconfirmed(error.to_string()),
            ));
        }
    };
    let Some(live) = live else { return Ok(()) };
    let Some(operations) = P::Storage::preserve(&live, machine, &pool.facts.id) else { return Ok(()) };
    let written = match json_patch(operations) {
        Ok(patch) => {
            let path = collection_path::<K>(namespace);
            context
                .leader
                .writer
                .patch::<IgnoredAny, _>(WriteKind::PatchStorage, path, name, None, patch)
                .await
        }
        Err(error) => Err(error),
    };
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() => Ok(()),
        Err(error) if context.is_outdated(&error, &live).await => Err(ActionOutcome::outdated()),
        Err(error) => Err(failed_finalizer_outcome(machine, &doing, error)),
    }
}

fn json_patch(operations: Value) -> Result<Patch<()>, WriteError> {
    serde_json::from_value(operations).map(Patch::Json).map_err(|error| WriteError::Invalid(error.into()))
}

fn failed_finalizer_outcome(object: &ObjectId, doing: &str, error: WriteError) -> ActionOutcome {
    let note = format!("{doing}: {error}");
    ActionOutcome::failed(
        PoolEvent { reason: EventReason::FailedRepair, name: object.name.to_string(), note },
        error,
    )
}

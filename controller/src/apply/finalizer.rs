//! The finalizer of the controller on pools and machines, and the storage of machines that leave.

use std::sync::Arc;

use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use vmpool_engine::names::ordinal_of;
use vmpool_engine::{ObjectId, Pool};
use vmpool_platforms::{ApiObject, ClaimOf, Finalizers, Platform, Storage, VolumeOf};

use super::outcome::{Effect, Outcome};
use super::pin;
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Adds the finalizer to the pool.
pub(super) async fn add_to_pool<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>) -> Outcome {
    match P::Finalizers::add_to_pool(&pool.object) {
        Some(operations) => write_pool(context, pool, operations, "adding").await,
        None => Outcome::outdated(),
    }
}

/// Removes the finalizer from a deleted pool, after the machines that need its pins have become their owners.
pub(super) async fn remove_from_pool<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>) -> Outcome {
    match pin::keep_for_users(context, pool).await {
        Ok(()) => {}
        Err(error) if error.is_conflict() || error.is_unprocessable() => return Outcome::outdated(),
        Err(error) => {
            let id = &pool.facts.id;
            let doing = format!("making the machines that name copies of pool {id} their owners");
            return failed(id, &doing, error);
        }
    }
    match P::Finalizers::remove_from_pool(&pool.object) {
        Some(operations) => write_pool(context, pool, operations, "removing").await,
        None => Outcome::outdated(),
    }
}

async fn write_pool<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    operations: Value,
    doing: &str,
) -> Outcome {
    let id = &pool.facts.id;
    let path = collection::<P::Pool>(&pool.facts.namespace);
    let result = match json_patch(operations) {
        Ok(patch) => {
            context.writer.patch::<IgnoredAny, _>(WriteKind::PatchPool, path, &id.name, None, patch).await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(_) => Outcome::done(),
        Err(error) if error.is_gone() || context.is_outdated(&error, &*pool.object).await => {
            Outcome::outdated()
        }
        Err(error) => failed(id, &format!("{doing} the finalizer of pool {id}"), error),
    }
}

/// Removes the finalizer from a machine. If its storage is preserved, the machine first stops being its owner; the deletion
/// comes before that, so that the platform does not make the machine the owner again.
pub(super) async fn remove<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    preserve_storage: bool,
) -> Outcome {
    let namespace = &*pool.facts.namespace;
    let doing = format!("removing the finalizer of machine {machine}");
    let live = match context.get_live::<P::Machine>(namespace, &machine.name).await {
        Ok(Some(live)) if live.meta().uid.as_deref() == Some(machine.uid.as_str()) => live,
        Ok(_) => return Outcome::gone(machine),
        Err(error) => return failed(machine, &doing, WriteError::Unconfirmed(error.to_string())),
    };
    let facts = seen(&live, P::read_machine);
    if !facts.facts.terminating && !pool.facts.deleting {
        return Outcome::changed(facts);
    }
    let preserves = preserve_storage && !facts.facts.discards_storage;
    if preserves && let Err(outcome) = preserve(context, pool, machine, &live).await {
        return outcome;
    }
    if !pool.facts.deleting
        && let Err(outcome) = record_moves(context, pool, machine, &live, preserves).await
    {
        return outcome;
    }
    let Some(operations) = P::Finalizers::remove(&live) else { return Outcome::changed(facts) };
    let path = collection::<P::Machine>(namespace);
    let patched = match json_patch(operations) {
        Ok(patch) => {
            let kind = WriteKind::PatchMachine;
            context.writer.patch::<P::Machine, _>(kind, path, &machine.name, None, patch).await
        }
        Err(error) => Err(error),
    };
    match patched {
        Ok(left) => Outcome::done().with(Effect::Machine(seen(&left, P::read_machine))),
        Err(error) if error.is_gone() => Outcome::gone(machine),
        Err(error) if context.is_outdated(&error, &live).await => Outcome::outdated(),
        Err(error) => failed(machine, &doing, error),
    }
}

/// Removes the machine from the owners of its storage objects. It may own storage whose volume a user removed from it.
async fn preserve<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    live: &P::Machine,
) -> Result<(), Outcome> {
    let (volumes, claims) = storage_of::<P, _>(&pool.facts, &machine.name, live);
    for volume in volumes {
        disown::<P, VolumeOf<P>>(context, pool, machine, &volume).await?;
    }
    for claim in claims {
        disown::<P, ClaimOf<P>>(context, pool, machine, &claim).await?;
    }
    Ok(())
}

/// Records on the pool to which storage a user moved volumes of a machine, so that the next one with its ordinal uses it. Storage that
/// is not preserved is not used again.
async fn record_moves<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    live: &P::Machine,
    preserves: bool,
) -> Result<(), Outcome> {
    let Some(ordinal) = ordinal_of(&pool.facts.id.name, &machine.name) else { return Ok(()) };
    let recorded = pool.facts.storage_moves.get(&ordinal).map(|moves| &**moves);
    let moves = if preserves { P::Storage::moves(&P::template(&pool.object), live) } else { None };
    if moves.as_deref() == recorded {
        return Ok(());
    }
    let mut patch = P::Storage::record_moves(ordinal, moves.as_deref());
    patch["metadata"]["uid"] = json!(pool.facts.id.uid.as_str());
    let path = collection::<P::Pool>(&pool.facts.namespace);
    let name = &pool.facts.id.name;
    let written = context
        .writer
        .patch::<IgnoredAny, _>(WriteKind::PatchPool, path, name, None, Patch::Merge(patch))
        .await;
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() || error.is_conflict() => Err(Outcome::outdated()),
        Err(error) => {
            let doing = format!("recording the moved storage of machine {machine}");
            Err(failed(machine, &doing, error))
        }
    }
}

/// Names of the volumes and of the claims of a machine: those of its spec, and those of the template.
pub(crate) fn storage_of<P: Platform, R>(
    pool: &Pool<R>,
    name: &str,
    machine: &P::Machine,
) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
    let of_templates = pool.storage_of(name);
    let volumes = distinct(P::Storage::volumes(machine), &of_templates);
    (volumes, distinct(P::Storage::claims(machine), &of_templates))
}

fn distinct(mut names: Vec<Arc<str>>, more: &[Arc<str>]) -> Vec<Arc<str>> {
    let known = names.len();
    names.extend(more.iter().filter(|name| !names[..known].contains(name)).cloned().collect::<Vec<_>>());
    names
}

async fn disown<P: Platform, K: ApiObject>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machine: &ObjectId,
    name: &str,
) -> Result<(), Outcome> {
    let namespace = &*pool.facts.namespace;
    let doing = format!("preserving {} {name} of machine {machine}", K::kind(&()));
    let live = match context.get_live::<K>(namespace, name).await {
        Ok(live) => live,
        Err(error) => return Err(failed(machine, &doing, WriteError::Unconfirmed(error.to_string()))),
    };
    let Some(live) = live else { return Ok(()) };
    let Some(operations) = P::Storage::preserve(&live, machine, &pool.facts.id) else { return Ok(()) };
    let written = match json_patch(operations) {
        Ok(patch) => {
            let path = collection::<K>(namespace);
            context.writer.patch::<IgnoredAny, _>(WriteKind::PatchStorage, path, name, None, patch).await
        }
        Err(error) => Err(error),
    };
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() => Ok(()),
        Err(error) if context.is_outdated(&error, &live).await => Err(Outcome::outdated()),
        Err(error) => Err(failed(machine, &doing, error)),
    }
}

fn json_patch(operations: Value) -> Result<Patch<()>, WriteError> {
    serde_json::from_value(operations).map(Patch::Json).map_err(|error| WriteError::Invalid(error.into()))
}

fn failed(object: &ObjectId, doing: &str, error: WriteError) -> Outcome {
    let note = format!("{doing}: {error}");
    Outcome::failed(PoolEvent { reason: Reason::FailedRepair, name: object.name.to_string(), note }, error)
}

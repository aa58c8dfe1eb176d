//! Writes of pins: the objects that store copies of what the template refers to.

use std::sync::Arc;

use kube::api::Patch;
use serde::Deserialize;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_platforms::{Existing, Pins, Platform, Reference};

use super::outcome::Outcome;
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::metrics::WriteKind;
use crate::object::collection;
use crate::pool_entry::PoolEntry;
use crate::revisions::stored::RevisionObject;
use crate::write::WriteError;

/// The response to a write, of which nothing is read.
#[derive(Deserialize)]
struct Ignored {}

/// Stores a pin, unless the watch shows it. Revisions with the same template have the same pins, so in most cases it exists.
/// Returns whether anything was written.
pub(super) async fn store<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    pin: &Value,
) -> Result<bool, WriteError> {
    let (facts, name) = (&pool.facts, pin["metadata"]["name"].as_str().unwrap_or_default());
    let shown = context.revisions.get(&facts.namespace, name);
    if shown.is_some_and(|shown| shown.facts.is_pin_of(&facts.id.uid)) {
        return Ok(false);
    }
    let pin = &P::Pins::shared_with(pin, &released_users(context, pool, name));
    match create(context, pool, pin).await {
        Ok(()) => {
            tracing::info!(name, "stored a copy of an object that the template refers to");
            return Ok(true);
        }
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error),
    }
    let live = live(context, pool, name).await?;
    let live = live.ok_or_else(|| WriteError::Unconfirmed(format!("{name} existed and is gone")))?;
    match P::Pins::existing(&facts.id, pin, &live) {
        Existing::Same => Ok(false),
        Existing::Incomplete(operations) => {
            tracing::info!(name, "a copy gets the pool as an owner and its labels again");
            patch(context, pool, name, operations).await?;
            Ok(true)
        }
        Existing::OldVersion(replacement) => {
            tracing::info!(name, "a copy in the current version of the API replaces one in a former version");
            let path = collection::<RevisionObject>(&facts.namespace);
            let old = ObjectId::new(name, live["metadata"]["uid"].as_str().unwrap_or_default());
            match context.writer.delete(WriteKind::DeleteRevision, path, &old, None).await {
                Err(error) if !error.is_gone() => return Err(error),
                // If the process exits here, the copy is lost, and is made again from the revision.
                _ => create(context, pool, &replacement).await?,
            }
            Ok(true)
        }
        Existing::Other => Err(WriteError::Invalid(
            format!("the object {name} exists with another content; delete it").into(),
        )),
    }
}

async fn create<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    pin: &Value,
) -> Result<(), WriteError> {
    let path = collection::<RevisionObject>(&pool.facts.namespace);
    context.writer.create::<Ignored>(WriteKind::CreateRevision, path, pin.clone()).await.map(drop)
}

/// The machines of other owners, or of none, that refer to a pin: the pool has released them.
fn released_users<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, name: &str) -> Vec<ObjectId> {
    let mut users = Vec::new();
    context.machines.for_each(&pool.facts.namespace, |machine| {
        let refers = machine.references.copies.iter().any(|copy| **copy == *name);
        if refers && machine.owner.as_ref() != Some(&pool.facts.id.uid) {
            users.push(machine.id.clone());
        }
    });
    users.sort();
    users
}

/// Makes a machine that the pool releases an owner of the pins that it refers to.
pub(super) async fn keep<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    names: &[Arc<str>],
    machine: &ObjectId,
) -> Result<(), WriteError> {
    for name in names {
        let live = live(context, pool, name).await?;
        if let Some(operations) = live.and_then(|live| P::Pins::keep(&live, machine)) {
            patch(context, pool, name, operations).await?;
        }
    }
    Ok(())
}

/// Deletes a pin that nothing refers to, at the version that the watch shows: a machine may have become an owner.
pub(super) async fn delete<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    pin: &ObjectId,
) -> Outcome {
    let shown = context.revisions.get(&pool.facts.namespace, &pin.name);
    let Some(shown) = shown.filter(|shown| shown.facts.id.uid == pin.uid) else { return Outcome::outdated() };
    let path = collection::<RevisionObject>(&pool.facts.namespace);
    match context.writer.delete(WriteKind::DeleteRevision, path, pin, Some(shown.version)).await {
        Ok(_) => tracing::info!(name = &*pin.name, "deleted a copy that nothing refers to"),
        Err(error) if error.is_gone() => {}
        Err(error) if error.is_conflict() => return Outcome::outdated(),
        Err(error) => {
            let note = format!("deleting ControllerRevision {pin}, a copy that nothing refers to: {error}");
            let name = pool.facts.id.name.to_string();
            return Outcome::failed(PoolEvent { reason: Reason::FailedRevisionPruning, name, note }, error);
        }
    }
    Outcome::done()
}

async fn live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    name: &str,
) -> Result<Option<Value>, WriteError> {
    let collection = collection::<RevisionObject>(&pool.facts.namespace);
    let reference = Reference { kind: "ControllerRevision", collection, name: name.to_owned() };
    context.get_referenced(&reference).await.map_err(|error| WriteError::Unconfirmed(error.to_string()))
}

async fn patch<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    name: &str,
    operations: Value,
) -> Result<(), WriteError> {
    let operations = serde_json::from_value(operations).map_err(|error| WriteError::Invalid(error.into()))?;
    let path = collection::<RevisionObject>(&pool.facts.namespace);
    let (writer, patch) = (&context.writer, Patch::<()>::Json(operations));
    writer.patch::<Ignored, _>(WriteKind::PatchRevision, path, name, None, patch).await?;
    Ok(())
}

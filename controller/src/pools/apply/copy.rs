//! Writes of pins: the objects that store copies of what the template refers to.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use kube::api::{ListParams, Patch};
use serde::Deserialize;
use serde_json::Value;
use vmpool_api::OwnerIdentity;
use vmpool_engine::ObjectId;
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{
    CopyComparison, Finalizers, Platform, ReferencedObject, TemplateCopies, is_controlled_by, is_owner,
};

use super::outcome::ActionOutcome;
use crate::metrics::WriteKind;
use crate::pools::cache::CacheKey;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::live::{MetadataOnly, ReadError};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;
use crate::pools::revisions::stored::{RevisionObject, pool_of};

/// The response to a write, of which nothing is read.
#[derive(Deserialize)]
struct Ignored {}

/// Stores a pin, unless the watch shows it. Revisions with the same template have the same pins, so in most
/// cases it exists. The watch does not show the content, so if the pin may be lost (`is_lost`), the one that
/// exists is read and compared. Returns whether anything was written.
pub(super) async fn store_copy<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    pin: &Value,
    is_lost: bool,
) -> Result<bool, WriteError> {
    let (facts, name) = (&pool.facts, pin["metadata"]["name"].as_str().unwrap_or_default());
    let shown = context.caches.revisions.get(&facts.namespace, name);
    if !is_lost && shown.is_some_and(|shown| shown.facts.is_pin_of(&facts.id)) {
        return Ok(false);
    }
    let pin = &P::TemplateCopies::with_machine_owners(pin, &released_users(context, pool, name));
    match create_copy_object(context, pool, pin).await {
        Ok(()) => {
            tracing::info!(name, "stored a copy of an object that the template refers to");
            context.metrics.types.copied(pin);
            return Ok(true);
        }
        Err(error) if error.is_already_exists() => {}
        Err(error) => return Err(error),
    }
    let live = read_live_copy(context, pool, name).await?;
    let live = live.ok_or_else(|| WriteError::Unconfirmed(format!("{name} existed and is gone")))?;
    match P::TemplateCopies::compare_copy(&facts.id, pin, &live) {
        CopyComparison::Same => Ok(false),
        CopyComparison::Incomplete(operations) => {
            tracing::info!(name, "a copy gets the pool as an owner and its labels again");
            patch_copy(context, pool, name, operations).await?;
            Ok(true)
        }
        CopyComparison::Replace { object: replacement, former_version } => {
            tracing::warn!(
                name,
                "a copy replaces one with another content or in a former version of the API"
            );
            let path = collection_path::<RevisionObject>(&facts.namespace);
            let old = ObjectId::new(name, live["metadata"]["uid"].as_str().unwrap_or_default());
            let replaced =
                match context.leader.writer.delete(WriteKind::DeleteRevision, path, &old, None).await {
                    Err(error) if !error.is_gone() => Err(error),
                    // If the process exits here, the copy is lost, and is made again from the revision.
                    _ => create_copy_object(context, pool, &replacement).await,
                };
            if let Some(version) = former_version {
                context.metrics.types.upgraded(version, replaced.is_ok());
            }
            replaced.map(|()| true)
        }
        CopyComparison::Other => Err(WriteError::Invalid(
            format!("the object {name} exists with another content; delete it").into(),
        )),
    }
}

async fn create_copy_object<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    pin: &Value,
) -> Result<(), WriteError> {
    let path = collection_path::<RevisionObject>(&pool.facts.namespace);
    context.leader.writer.create::<Ignored>(WriteKind::CreateRevision, path, pin.clone()).await.map(drop)
}

/// The machines of other owners, or of none, that refer to a pin: the pool has released them.
fn released_users<P: Platform>(context: &PoolContext<P>, pool: &PoolEntry<P>, name: &str) -> Vec<ObjectId> {
    let mut users = Vec::new();
    context.caches.machines.for_each(&pool.facts.namespace, |machine| {
        let refers = machine.references.copies.iter().any(|copy| **copy == *name);
        if refers && !machine.belongs_to(&pool.facts.id) {
            users.push(machine.id.clone());
        }
    });
    users.sort();
    users
}

/// Makes a machine that the pool releases an owner of the pins that it refers to.
pub(super) async fn share_copies_with_machine<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    names: &[Arc<str>],
    machine: &ObjectId,
) -> Result<(), WriteError> {
    for name in names {
        let live = read_live_copy(context, pool, name).await?;
        if let Some(operations) = live.and_then(|live| P::TemplateCopies::add_machine_owner(&live, machine)) {
            patch_copy(context, pool, name, operations).await?;
        }
    }
    Ok(())
}

/// Before a deleted pool is gone, makes the machines that need its pins without it their owners. The garbage
/// collector would otherwise delete the pins with the pool, or leave them without an owner for ever if the
/// dependents of the pool stay.
///
/// These are machines that a user removed from the pool and that it has not released yet, machines that never
/// belonged to it and name a pin, and all machines if the dependents stay. The lists are live: a cache may
/// lack the last machine. A pool whose template names nothing and that owns no pin causes no request.
pub(super) async fn transfer_copies_to_users<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
) -> Result<(), WriteError> {
    let (namespace, id) = (&*pool.facts.namespace, &pool.facts.id);
    let Some(labels) = P::TemplateCopies::LABELS else { return Ok(()) };
    let shows_none = context
        .caches
        .revisions
        .by_key_where(&CacheKey::Pool(PoolKey::of(&pool.facts)), |revision| revision.is_pin)
        .is_empty();
    if shows_none && !P::TemplateCopies::has_references(&P::template(&pool.object)) {
        return Ok(());
    }
    let failed = |error: ReadError| WriteError::Unconfirmed(error.to_string());
    let mut pins = Vec::new();
    let visit = |MetadataOnly { metadata }: MetadataOnly| {
        let is_of_pool = pool_of::<P>(&metadata).as_ref() == Some(id)
            || P::TemplateCopies::is_copy_of_pool(&metadata, &id.uid);
        pins.extend(Some(metadata).filter(|_| is_of_pool));
    };
    let wanted = ListParams::default().labels(labels);
    context.list_live_metadata_where::<RevisionObject>(namespace, wanted, visit).await.map_err(failed)?;
    if pins.is_empty() {
        return Ok(());
    }
    let stay = P::Finalizers::keeps_dependents(&pool.object);
    let mut users: BTreeMap<Arc<str>, Vec<ObjectId>> = BTreeMap::new();
    let visit = |machine: P::Machine| {
        let meta = machine.meta();
        let leaves = is_controlled_by::<P::Pool>(meta, id) && !stay;
        if leaves || meta.deletion_timestamp.is_some() {
            return;
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let id = ObjectId::new(&text(&meta.name), &text(&meta.uid));
        for pin in P::TemplateCopies::copies_used_by(&machine) {
            users.entry(pin.clone()).or_default().push(id.clone());
        }
    };
    context.list_live::<P::Machine>(namespace, visit).await.map_err(failed)?;
    for pin in pins {
        let name = pin.name.clone().unwrap_or_default();
        let written = match users.get(&*name) {
            Some(users) => match P::TemplateCopies::add_machine_owners(&pin, users) {
                Some(operations) => patch_copy(context, pool, &name, operations).await,
                None => Ok(()),
            },
            None if is_never_collected::<P>(&pin, id, stay) => {
                let path = collection_path::<RevisionObject>(namespace);
                let id = ObjectId::new(&name, pin.uid.as_deref().unwrap_or_default());
                let version = pin.resource_version.as_deref().and_then(|version| version.parse().ok());
                context.leader.writer.delete(WriteKind::DeleteRevision, path, &id, version).await.map(drop)
            }
            None => Ok(()),
        };
        match written {
            // The garbage collector was faster.
            Err(error) if error.is_gone() => {}
            other => other?,
        }
    }
    Ok(())
}

/// Whether the garbage collector would never delete a pin that no machine names: it has no owner, or will
/// have none.
fn is_never_collected<P: Platform>(pin: &ObjectMeta, pool: &ObjectId, stays: bool) -> bool {
    let is_pool = |owner: &OwnerReference| is_owner::<P::Pool>(OwnerIdentity::of(owner), pool);
    match pin.owner_references.as_deref() {
        None | Some([]) => true,
        Some(owners) => stays && owners.iter().all(is_pool),
    }
}

/// Deletes a pin that nothing refers to, at the version that the watch shows: a machine may have become an
/// owner.
pub(super) async fn delete_unused_copy<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    pin: &ObjectId,
) -> ActionOutcome {
    let shown = context.caches.revisions.get(&pool.facts.namespace, &pin.name);
    let Some(shown) = shown.filter(|shown| shown.facts.id.uid == pin.uid) else {
        return ActionOutcome::outdated();
    };
    let path = collection_path::<RevisionObject>(&pool.facts.namespace);
    match context.leader.writer.delete(WriteKind::DeleteRevision, path, pin, Some(shown.version)).await {
        Ok(_) => tracing::info!(name = &*pin.name, "deleted a copy that nothing refers to"),
        Err(error) if error.is_gone() => {}
        Err(error) if error.is_conflict() => return ActionOutcome::outdated(),
        Err(error) => {
            let note = format!("deleting ControllerRevision {pin}, a copy that nothing refers to: {error}");
            let name = pool.facts.id.name.to_string();
            return ActionOutcome::failed(
                PoolEvent { reason: EventReason::FailedRevisionPruning, name, note },
                error,
            );
        }
    }
    ActionOutcome::done()
}

async fn read_live_copy<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    name: &str,
) -> Result<Option<Value>, WriteError> {
    let collection = collection_path::<RevisionObject>(&pool.facts.namespace);
    let reference = ReferencedObject {
        kind: "ControllerRevision",
        collection,
        name: name.to_owned(),
        cross_namespace: None,
    };
    context.get_referenced(&reference).await.map_err(|error| WriteError::Unconfirmed(error.to_string()))
}

async fn patch_copy<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    name: &str,
    operations: Value,
) -> Result<(), WriteError> {
    let operations = serde_json::from_value(operations).map_err(|error| WriteError::Invalid(error.into()))?;
    let path = collection_path::<RevisionObject>(&pool.facts.namespace);
    let (writer, patch) = (&context.leader.writer, Patch::<()>::Json(operations));
    writer.patch::<Ignored, _>(WriteKind::PatchRevision, path, name, None, patch).await?;
    Ok(())
}

//! Storage that machines would share with other machines, because it has the names of theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Resource;
use serde_json::Value;
use vmpool_engine::PoolAction;
use vmpool_engine::scale_up::names::{ordinal_name, ordinal_of};
use vmpool_platforms::{
    ApiObject, ClaimOf, MachineStorage, Platform, StorageMove, Text, VolumeOf, VolumeUse,
};

use crate::pools::context::PoolContext;
use crate::pools::live::{MetadataOnly, ReadError};
use crate::pools::pool_entry::PoolEntry;
use crate::pools::revisions::templates::Templates;

/// Up to this number of names, each object is read by itself. Beyond it, one list reads all of the namespace.
const SINGLE_READS: usize = 8;

/// Names of machines that must not be created or updated, each with the reason.
pub(super) type StorageConflicts = BTreeMap<Arc<str>, String>;

/// A machine that gets new volumes.
struct Recipient {
    machine: Arc<str>,
    volume_use: VolumeUse,
}

/// The names of new volumes, each with the machines that get a volume with the name.
type NewVolumes = BTreeMap<String, Vec<Recipient>>;

/// Finds the storage that has the names of the volumes of new machines, and of the volumes that updated
/// machines do not have yet.
///
/// # Errors
/// A read failed.
pub(super) async fn find_storage_conflicts<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    templates: &Templates,
    batch: &[PoolAction],
) -> Result<StorageConflicts, ReadError> {
    let volumes = new_volumes(pool, templates, batch);
    let mut conflicts = StorageConflicts::new();
    if !volumes.is_empty() {
        find_conflicts_of_kind::<P, VolumeOf<P>>(context, pool, &volumes, &mut conflicts).await?;
        find_conflicts_of_kind::<P, ClaimOf<P>>(context, pool, &volumes, &mut conflicts).await?;
        find_conflicts_across_pools(context, pool, &volumes, &mut conflicts);
    }
    for action in batch {
        if let PoolAction::Create { draft } = action {
            find_missing_moved_storage(context, pool, &draft.name, &mut conflicts).await?;
        }
    }
    Ok(conflicts)
}

fn new_volumes<P: Platform>(pool: &PoolEntry<P>, templates: &Templates, batch: &[PoolAction]) -> NewVolumes {
    let wanted = templates.wanted.value();
    let mut bases: BTreeMap<_, Option<Value>> = BTreeMap::new();
    let mut new = NewVolumes::new();
    for action in batch {
        let (machine, old, volume_use) = match action {
            PoolAction::Create { draft } => (&draft.name, Vec::new(), VolumeUse::Create),
            PoolAction::Update { machine, base, to, .. } => {
                let base = bases.entry(base.as_ref()).or_insert_with(|| {
                    base.as_ref().and_then(|base| templates.of(base, to)).map(Text::value)
                });
                let old = base.as_ref().map(|base| P::Storage::new_volumes(base, &machine.name));
                let preserved = pool.facts.preservation.includes_changed_storage();
                (&machine.name, old.unwrap_or_default(), VolumeUse::Update { preserved })
            }
            _ => continue,
        };
        for volume in P::Storage::new_volumes(&wanted, machine) {
            if !old.contains(&volume) {
                new.entry(volume).or_default().push(Recipient { machine: machine.clone(), volume_use });
            }
        }
    }
    new
}

/// Finds the machines that would share volumes with machines of another pool, because both pools have a
/// storage template with the same name. Neither the volumes nor the machines need to exist yet: otherwise,
/// two pools that are created together would both create machines, and each volume would go to the faster
/// one. The older pool comes first.
fn find_conflicts_across_pools<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    volumes: &NewVolumes,
    conflicts: &mut StorageConflicts,
) {
    let PoolEntry { facts, object } = pool;
    if facts.storage_templates.is_empty() {
        return;
    }
    let age = |object: &P::Pool| object.meta().creation_timestamp.as_ref().map(|time| time.0);
    let machines: BTreeSet<&Arc<str>> =
        volumes.values().flatten().map(|recipient| &recipient.machine).collect();
    context.caches.pools.for_each(&facts.namespace, |other| {
        let PoolEntry { facts: theirs, object: their_object } = other;
        let shared = theirs
            .storage_templates
            .iter()
            .map(|template| &template.name)
            .find(|name| facts.storage_templates.iter().any(|own| own.name == **name));
        let Some(shared) = shared.filter(|_| theirs.id.uid != facts.id.uid && !theirs.deleting) else { return };
        let is_older = (age(their_object), &theirs.id.uid) < (age(object), &facts.id.uid);
        for &machine in &machines {
            let Some(ordinal) = ordinal_of(&facts.id.name, machine) else { continue };
            let name = ordinal_name(&theirs.id.name, ordinal);
            let existing = context.caches.machines.get(&facts.namespace, &name);
            let exists = existing.is_some_and(|found| found.facts.belongs_to(&theirs.id));
            if exists || is_older && usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < theirs.desired) {
                let why = format!(
                    "machine {machine} has no storage of its own, because pool {} also has a storage template {shared}, \
                     and its machine {name} gets the storage with this number. Use another name in one of the pools",
                    theirs.id.name,
                );
                conflicts.entry(machine.clone()).or_insert(why);
            }
        }
    });
}

/// Finds out whether the storage exists to which a user moved volumes of the earlier machine with this name.
/// Without it, the new machine would never start, and the storage of the template contains older data.
async fn find_missing_moved_storage<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    machine: &Arc<str>,
    conflicts: &mut StorageConflicts,
) -> Result<(), ReadError> {
    let facts = &pool.facts;
    let Some(ordinal) = ordinal_of(&facts.id.name, machine) else { return Ok(()) };
    let Some(moves) = facts.storage_moves.get(&ordinal) else { return Ok(()) };
    let used = facts.storage_of(machine);
    for StorageMove { from, to } in P::Storage::read_moves(moves) {
        if !used.iter().any(|name| **name == from)
            || context.get_live::<ClaimOf<P>>(&facts.namespace, &to).await?.is_some()
            || context.get_live::<VolumeOf<P>>(&facts.namespace, &to).await?.is_some()
        {
            continue;
        }
        let why = format!(
            "machine {machine} is not created, because the volume of {from} was moved to PersistentVolumeClaim {to}, which does \
             not exist: restore it, or remove the annotation of the pool that names it, so that the machine starts with {from}",
        );
        conflicts.entry(machine.clone()).or_insert(why);
    }
    Ok(())
}

/// Reads the objects of one kind with the names of `volumes`.
async fn find_conflicts_of_kind<P: Platform, K: ApiObject>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    volumes: &NewVolumes,
    conflicts: &mut StorageConflicts,
) -> Result<(), ReadError> {
    let namespace = &*pool.facts.namespace;
    let mut visit = |metadata: &_, recipients: &[Recipient]| {
        for Recipient { machine, volume_use } in recipients {
            if let Some(why) = P::Storage::conflict::<K>(metadata, machine, &pool.facts.id, *volume_use) {
                conflicts.entry(machine.clone()).or_insert(why);
            }
        }
    };
    if volumes.len() <= SINGLE_READS {
        for (name, recipients) in volumes {
            if let Some(object) = context.get_live::<K>(namespace, name).await? {
                visit(object.meta(), recipients);
            }
        }
        return Ok(());
    }
    let listed = context
        .list_live_metadata::<K>(namespace, |MetadataOnly { metadata }| {
            if let Some(recipients) = metadata.name.as_ref().and_then(|name| volumes.get(name)) {
                visit(&metadata, recipients);
            }
        })
        .await;
    match listed {
        // Without this kind of object there is no conflict.
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

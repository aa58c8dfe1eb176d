//! Storage that new machines would share with other machines, because it has the names of theirs.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use vmpool_engine::Action;
use vmpool_platforms::{ApiObject, ClaimOf, Platform, Storage, VolumeOf};

use crate::context::Context;
use crate::live::{MetadataOnly, ReadError};
use crate::pool_entry::PoolEntry;

/// Up to this number of names, each object is read by itself. Beyond it, one list reads all of the namespace.
const SINGLE_READS: usize = 8;

/// Names of drafted machines that must not be created, each with the reason.
pub(super) type Conflicts = HashMap<Arc<str>, String>;

/// Reads the storage objects that have the names of the volumes of new machines in `batch`.
///
/// # Errors
/// A read failed.
pub(super) async fn conflicts<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    template: &Value,
    batch: &[Action],
) -> Result<Conflicts, ReadError> {
    let mut machines: HashMap<String, Arc<str>> = HashMap::new();
    for action in batch {
        if let Action::Create { draft } = action {
            let volumes = P::Storage::new_volumes(template, draft.number);
            machines.extend(volumes.into_iter().map(|volume| (volume, draft.name.clone())));
        }
    }
    let mut conflicts = Conflicts::new();
    if !machines.is_empty() {
        read::<P, VolumeOf<P>>(context, pool, &machines, &mut conflicts).await?;
        read::<P, ClaimOf<P>>(context, pool, &machines, &mut conflicts).await?;
    }
    Ok(conflicts)
}

/// Reads the objects of one kind with these names. `machines` has the machine of each.
async fn read<P: Platform, K: ApiObject>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    machines: &HashMap<String, Arc<str>>,
    conflicts: &mut Conflicts,
) -> Result<(), ReadError> {
    let namespace = &*pool.facts.namespace;
    let mut visit = |metadata: &_, machine: &Arc<str>| {
        if let Some(why) = P::Storage::conflict::<K>(metadata, machine, &pool.facts.id) {
            conflicts.entry(machine.clone()).or_insert(why);
        }
    };
    if machines.len() <= SINGLE_READS {
        for (name, machine) in machines {
            if let Some(object) = context.get_live::<K>(namespace, name).await? {
                visit(object.meta(), machine);
            }
        }
        return Ok(());
    }
    let listed = context
        .list_live_metadata::<K>(namespace, |MetadataOnly { metadata }| {
            if let Some(machine) = metadata.name.as_ref().and_then(|name| machines.get(name)) {
                visit(&metadata, machine);
            }
        })
        .await;
    match listed {
        // Without this kind of object there is no conflict.
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}

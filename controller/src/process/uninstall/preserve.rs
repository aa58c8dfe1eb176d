//! The storage of machines that are being deleted. Without their finalizers, the garbage collector deletes
//! it, so what their pools preserve is preserved first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, TryStreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource as _};
use vmpool_engine::ObjectId;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::{WatchError, WatchScope, list_served};
use vmpool_platforms::{ApiObject, ClaimOf, MachineStorage, Platform, VolumeOf};

use crate::pools::apply::storage_of;
use crate::pools::pool_entry::CachedPool;
use crate::pools::pool_key::PoolKey;

/// The most machines whose storage is preserved at the same time.
const MACHINES: usize = 8;

/// Why storage is not preserved.
pub(super) enum PreserveError {
    /// Pools or machines cannot be read.
    List(WatchError),
    /// A storage object cannot be read or changed.
    Write(kube::Error),
}

impl From<WatchError> for PreserveError {
    fn from(error: WatchError) -> Self {
        Self::List(error)
    }
}

/// A machine that is being deleted, and whose pool preserves its storage.
struct TerminatingMachine {
    namespace: String,
    machine: ObjectId,
    pool: ObjectId,
    volumes: Vec<Arc<str>>,
    claims: Vec<Arc<str>>,
}

/// The machines that were being deleted when their storage was preserved, by UID; `None` if the platform has
/// no such storage.
pub(super) struct PreservedMachines(Option<BTreeSet<String>>);

impl PreservedMachines {
    /// Whether the machine can be released. One whose deletion began later has to wait for the next round.
    pub(super) fn may_release(&self, machine: &ObjectMeta) -> bool {
        let is_known = |known: &BTreeSet<String>| machine.uid.as_ref().is_some_and(|uid| known.contains(uid));
        machine.deletion_timestamp.is_none() || self.0.as_ref().is_none_or(is_known)
    }
}

/// Preserves the storage of machines that are being deleted.
pub(super) async fn preserve_terminating_storage<P: Platform>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<PreservedMachines, PreserveError> {
    if !P::Storage::EXIST {
        return Ok(PreservedMachines(None));
    }
    let (mut pools, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let (all_pools, all_machines) =
        (api_for_namespace(client, namespace), api_for_namespace(client, namespace));
    list_served(&all_pools, WatchScope::default(), |pool: P::Pool| {
        let pool = CachedPool::<P>::read(pool).facts;
        pools.insert(PoolKey::of(&pool), pool);
    })
    .await?;
    let mut leaving = Vec::new();
    list_served(&all_machines, WatchScope::default(), |object: P::Machine| {
        let machine = P::read_machine(&object);
        if !machine.terminating {
            return;
        }
        seen.insert(machine.id.uid.as_str().to_owned());
        let namespace = object.meta().namespace.as_deref().unwrap_or_default().into();
        let pool = PoolKey::of_owner(&namespace, machine.owner.as_deref());
        let pool = pool.and_then(|pool| pools.get(&pool)).filter(|pool| machine.belongs_to(&pool.id));
        // The garbage collector deletes the machines of a deleted pool.
        let Some(pool) = pool.filter(|pool| !pool.deleting) else { return };
        if machine.has_finalizer && pool.preserves_storage_of(&machine) {
            let (volumes, claims) = storage_of::<P>(pool, &machine.id.name, &object);
            let (namespace, pool) = (pool.namespace.to_string(), pool.id.clone());
            leaving.push(TerminatingMachine { namespace, machine: machine.id, pool, volumes, claims });
        }
    })
    .await?;
    stream::iter(leaving.iter().map(Ok::<_, PreserveError>))
        .try_for_each_concurrent(MACHINES, |leaving| async move {
            for volume in &leaving.volumes {
                disown_terminating_storage::<P, VolumeOf<P>>(client, leaving, volume).await?;
            }
            for claim in &leaving.claims {
                disown_terminating_storage::<P, ClaimOf<P>>(client, leaving, claim).await?;
            }
            Ok(())
        })
        .await?;
    Ok(PreservedMachines(Some(seen)))
}

/// Removes the machine from the owners of a storage object.
async fn disown_terminating_storage<P: Platform, K: ApiObject>(
    client: &Client,
    leaving: &TerminatingMachine,
    name: &str,
) -> Result<(), PreserveError> {
    let all: Api<K> = api_for_namespace(client, Some(&leaving.namespace));
    let Some(live) = all.get_opt(name).await.map_err(PreserveError::Write)? else { return Ok(()) };
    let Some(patch) = P::Storage::preserve(&live, &leaving.machine, &leaving.pool) else { return Ok(()) };
    let patch = serde_json::from_value(patch)
        .map_err(|error| PreserveError::Write(kube::Error::SerdeError(error)))?;
    match all.patch_metadata(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(PreserveError::Write(error)),
    }
}

//! The storage of machines that are being deleted. Without their finalizers, the garbage collector deletes it, so what their pools
//! preserve is preserved first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, TryStreamExt as _};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use vmpool_engine::ObjectId;
use vmpool_engine::model::Preservation;
use vmpool_platforms::{ApiObject, ClaimOf, Platform, Storage, VolumeOf};

use crate::apply::storage_of;
use crate::pool_entry::CachedPool;
use crate::watch::{Broken, Scope, list};
use crate::watches::api;

/// The most machines whose storage is preserved at the same time.
const MACHINES: usize = 8;

/// Why storage is not preserved.
pub(super) enum Failure {
    /// Pools or machines cannot be read.
    List(Broken),
    /// A storage object cannot be read or changed.
    Write(kube::Error),
}

impl From<Broken> for Failure {
    fn from(error: Broken) -> Self {
        Self::List(error)
    }
}

/// A machine that is being deleted, and whose pool preserves its storage.
struct Leaving {
    namespace: String,
    machine: ObjectId,
    pool: ObjectId,
    volumes: Vec<Arc<str>>,
    claims: Vec<Arc<str>>,
}

/// Preserves the storage of machines that are being deleted. Returns the machines that can be released: a machine whose deletion
/// begins later is not among them.
pub(super) async fn preserve<P: Platform>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<BTreeSet<String>, Failure> {
    let mut released = BTreeSet::new();
    if !P::Storage::EXIST {
        return Ok(released);
    }
    let mut pools = BTreeMap::new();
    let (all_pools, all_machines) = (api(client, namespace), api(client, namespace));
    let listed = list(&all_pools, Scope::default(), |pool: P::Pool| {
        let pool = CachedPool::<P>::read(pool).facts;
        pools.insert(pool.id.uid.clone(), pool);
    });
    optional(listed.await)?;
    let mut leaving = Vec::new();
    let listed = list(&all_machines, Scope::default(), |object: P::Machine| {
        let machine = P::read_machine(&object);
        if !machine.terminating {
            return;
        }
        released.insert(machine.id.uid.as_str().to_owned());
        let pool = machine.owner.as_ref().and_then(|owner| pools.get(owner));
        // The garbage collector deletes the machines of a deleted pool.
        let Some(pool) = pool.filter(|pool| !pool.deleting && pool.preservation != Preservation::Never)
        else {
            return;
        };
        if machine.has_finalizer && !machine.discards_storage {
            let (volumes, claims) = storage_of::<P, _>(pool, &machine.id.name, &object);
            let (namespace, pool) = (pool.namespace.to_string(), pool.id.clone());
            leaving.push(Leaving { namespace, machine: machine.id, pool, volumes, claims });
        }
    });
    optional(listed.await)?;
    stream::iter(leaving.iter().map(Ok::<_, Failure>))
        .try_for_each_concurrent(MACHINES, |leaving| async move {
            for volume in &leaving.volumes {
                disown::<P, VolumeOf<P>>(client, leaving, volume).await?;
            }
            for claim in &leaving.claims {
                disown::<P, ClaimOf<P>>(client, leaving, claim).await?;
            }
            Ok(())
        })
        .await?;
    Ok(released)
}

/// Without the definition of a kind, there are no objects.
fn optional<T>(listed: Result<T, Broken>) -> Result<(), Failure> {
    match listed {
        Err(Broken::List(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// Removes the machine from the owners of a storage object.
async fn disown<P: Platform, K: ApiObject>(
    client: &Client,
    leaving: &Leaving,
    name: &str,
) -> Result<(), Failure> {
    let all: Api<K> = api(client, Some(&leaving.namespace));
    let Some(live) = all.get_opt(name).await.map_err(Failure::Write)? else { return Ok(()) };
    let Some(patch) = P::Storage::preserve(&live, &leaving.machine, &leaving.pool) else { return Ok(()) };
    let patch =
        serde_json::from_value(patch).map_err(|error| Failure::Write(kube::Error::SerdeError(error)))?;
    match all.patch_metadata(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(Failure::Write(error)),
    }
}

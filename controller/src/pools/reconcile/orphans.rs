//! Machines with the finalizer of a pool that is gone. No pass of a pool would remove it, and their deletion
//! would not end.
//!
//! Some have the pool as their owner, for example because the create of a former leader arrived late: the
//! garbage collector deletes them. Others have no owner, for example because a backup was restored without
//! their pool.

use std::error::Error;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use serde::de::IgnoredAny;
use vmpool_api::ObjectKey;
use vmpool_engine::Machine;
use vmpool_kit::object::collection_path;
use vmpool_kit::queue::Requeue;
use vmpool_platforms::{Finalizers, Platform};

use crate::metrics::WriteKind;
use crate::pools::cache::CacheKey;
use crate::pools::context::PoolContext;
use crate::pools::live::MetadataOnly;
use crate::pools::pool_key::PoolKey;

/// Time until the next attempt after an error.
const AFTER_ERROR: Duration = Duration::from_secs(10);

/// Removes the finalizer from the machines of a deleted pool that are being deleted. Returns the time until a
/// retry, if one was not released.
pub(super) async fn release_pool_orphans<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolKey,
) -> Option<Duration> {
    let is_orphan = |machine: &Machine| {
        let owner = machine.owner.as_ref().and_then(|owner| owner.as_pool());
        owner.is_some_and(|owner| owner.uid == pool.uid) && machine.terminating && machine.has_finalizer
    };
    let is_pool = |object: &ObjectMeta| object.uid.as_deref() == Some(pool.uid.as_str());
    release_orphans(context, &CacheKey::Pool(pool.clone()), is_pool, is_orphan).await
}

/// Removes the finalizer from the machines without an owner whose former pool has this namespace and name and
/// does not exist.
pub(crate) async fn release_former_machines<P: Platform>(
    context: &PoolContext<P>,
    former: &ObjectKey,
) -> Requeue {
    let ObjectKey { namespace, name } = former;
    if let Some(pool) = context.caches.pools.get(namespace, name) {
        context.queue.wake(&PoolKey::of(&pool.facts.facts));
        return Requeue::Never;
    }
    let is_orphan = |machine: &Machine| {
        machine.owner.is_none() && machine.pool_label.as_deref() == Some(name) && machine.has_finalizer
    };
    let is_pool = |object: &ObjectMeta| object.name.as_ref() == Some(name);
    let key = CacheKey::PoolName(namespace.as_str().into(), name.as_str().into());
    release_orphans(context, &key, is_pool, is_orphan).await.map_or(Requeue::Never, Requeue::After)
}

async fn release_orphans<P: Platform>(
    context: &PoolContext<P>,
    key: &CacheKey,
    is_pool: impl Fn(&ObjectMeta) -> bool,
    is_orphan: impl Fn(&Machine) -> bool,
) -> Option<Duration> {
    let mut again = None;
    for (namespace, name) in context.caches.machines.places_where(key, &is_orphan) {
        if let Err(error) = release_machine(context, &is_pool, &is_orphan, &namespace, &name).await {
            tracing::warn!(%error, machine = &*name, "releasing a machine whose pool is gone");
            again = Some(AFTER_ERROR);
        }
    }
    again
}

async fn release_machine<P: Platform>(
    context: &PoolContext<P>,
    is_pool: impl Fn(&ObjectMeta) -> bool,
    is_orphan: impl Fn(&Machine) -> bool,
    namespace: &str,
    name: &str,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    // The watch of pools may not show a new pool yet.
    let mut exists = false;
    let visit = |object: MetadataOnly| exists |= is_pool(&object.metadata);
    context.list_live_metadata::<P::Pool>(namespace, visit).await?;
    if exists {
        return Err("the pool exists, and the watch does not show it yet".into());
    }
    let Some(live) = context.get_live::<P::Machine>(namespace, name).await? else { return Ok(()) };
    if !is_orphan(&P::read_machine(&live)) {
        return Ok(());
    }
    let Some(operations) = P::Finalizers::remove(&live) else { return Ok(()) };
    let patch = Patch::<()>::Json(serde_json::from_value(operations)?);
    let path = collection_path::<P::Machine>(namespace);
    let kind = WriteKind::PatchMachine;
    match context.leader.writer.patch::<IgnoredAny, _>(kind, path, name, None, patch).await {
        Err(error) if !error.is_gone() => Err(error.into()),
        _ => Ok(()),
    }
}

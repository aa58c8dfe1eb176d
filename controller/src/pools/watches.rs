//! The watches of a leader, and the pools that a change wakes.

use std::sync::Arc;

use vmpool_api::ObjectKey;
use vmpool_engine::model::Owner;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::object::api_for_namespace;
use vmpool_kit::watch::{WatchScope, list_and_watch};
use vmpool_platforms::{
    ApiObject, AttachmentOf, DiskOf, Disks, InstanceOf, Instances, Platform, RevisionObjects,
};
use vmpool_runtime::env::Task;

use crate::metrics::WatchResource;
use crate::pools::cache::{CacheKey, Cached, Concerned, ObjectCache};
use crate::pools::cache_sink::CacheSink;
use crate::pools::context::{PoolCaches, PoolContext};
use crate::pools::pool_entry::CachedPool;
use crate::pools::pool_key::PoolKey;
use crate::pools::revisions::stored::{RevisionFacts, RevisionMetadata};

/// Whether the first lists of all watches are complete.
pub(crate) fn is_synced<P: Platform>(context: &PoolContext<P>) -> bool {
    context.caches.pools.is_synced()
        && context.caches.machines.is_synced()
        && (!P::Disks::EXIST || context.caches.disks.is_synced())
        && (!P::Disks::HAS_ATTACHMENTS || context.caches.attachments.is_synced())
        && (!P::Instances::EXIST || context.caches.instances.is_synced())
}

/// Starts the watches.
pub(crate) fn start_pool_watches<P: Platform>(context: &Arc<PoolContext<P>>) -> Vec<Task> {
    let PoolCaches { pools, machines, disks, attachments, revisions, instances } = &context.caches;
    let mut tasks = vec![
        watch_into_cache(context, WatchResource::Pools, pools, CachedPool::<P>::read, wake_changed_pools),
        // Passes do not wait for its first list, because each pool's revisions are also read live once.
        watch_into_cache::<P, RevisionMetadata, _>(
            context,
            WatchResource::Revisions,
            revisions,
            |revision| RevisionFacts::read::<P>(&revision),
            wake_for_revisions,
        ),
        watch_into_cache::<P, P::Machine, _>(
            context,
            WatchResource::Machines,
            machines,
            |machine| P::read_machine(&machine),
            |context, concerned| {
                wake_changed_pools(context, concerned);
                wake_for_uses(context, concerned);
            },
        ),
    ];
    if P::Disks::EXIST {
        tasks.push(watch_into_cache::<P, DiskOf<P>, _>(
            context,
            WatchResource::Disks,
            disks,
            |disk| P::Disks::read(&disk),
            wake_for_disks,
        ));
    }
    if P::Disks::HAS_ATTACHMENTS {
        tasks.push(watch_into_cache::<P, AttachmentOf<P>, _>(
            context,
            WatchResource::Attachments,
            attachments,
            |attachment| P::Disks::read_attachment(&attachment),
            wake_for_uses,
        ));
    }
    if P::Instances::EXIST {
        tasks.push(watch_into_cache::<P, InstanceOf<P>, _>(
            context,
            WatchResource::Instances,
            instances,
            |instance| P::Instances::read(&instance),
            wake_for_instances,
        ));
    }
    tasks
}

fn watch_into_cache<P: Platform, K: ApiObject, T: Cached>(
    context: &Arc<PoolContext<P>>,
    resource: WatchResource,
    cache: &Arc<ObjectCache<T>>,
    read: fn(K) -> T,
    wake: fn(&PoolContext<P>, &Concerned),
) -> Task {
    let LeaderHandles { env, client, namespace, .. } = &context.leader;
    let woken = context.clone();
    let scope = match resource {
        // Many other controllers store ControllerRevisions, and their contents are large.
        WatchResource::Revisions => WatchScope { label: P::Revisions::LABEL, metadata_only: true },
        _ => WatchScope::default(),
    };
    let sink = CacheSink {
        cache: cache.clone(),
        env: env.clone(),
        metrics: context.metrics.clone(),
        resource,
        read,
        wake: move |concerned| wake(&woken, &concerned),
    };
    let watch =
        list_and_watch::<K>(api_for_namespace(client, namespace.as_deref()), env.clone(), scope, sink);
    env.spawn(watch_task_name(resource), watch)
}

/// The name of the task.
fn watch_task_name(resource: WatchResource) -> &'static str {
    match resource {
        WatchResource::Pools => "watch of pools",
        WatchResource::Machines => "watch of machines",
        WatchResource::Disks => "watch of disks",
        WatchResource::Attachments => "watch of attachments",
        WatchResource::Revisions => "watch of revisions",
        WatchResource::Instances => "watch of instances",
    }
}

/// Wakes the pools of changed pools and machines.
fn wake_changed_pools<P: Platform>(context: &PoolContext<P>, concerned: &Concerned) {
    for key in concerned {
        match key {
            CacheKey::Pool(pool) => {
                context.queue.wake(pool);
                context.autoscaled.pool_changed(pool);
            }
            CacheKey::PoolName(namespace, name) => match context.caches.pools.get(namespace, name) {
                Some(pool) => context.queue.wake(&PoolKey::of(&pool.facts.facts)),
                None => context.former_pools.wake(&ObjectKey::new(&**namespace, &**name)),
            },
            CacheKey::Disk(..) | CacheKey::Machine(..) => {}
        }
    }
}

/// Wakes the pools of changed revisions. Other controllers store revisions, too.
fn wake_for_revisions<P: Platform>(context: &PoolContext<P>, concerned: &Concerned) {
    for key in concerned {
        if let CacheKey::Pool(pool) = key {
            wake_pool(context, pool);
        }
    }
}

/// Wakes the pools of a changed disk: those in its owner reference or label, and those whose machines refer
/// to it.
fn wake_for_disks<P: Platform>(context: &PoolContext<P>, concerned: &Concerned) {
    for key in concerned {
        match key {
            CacheKey::Pool(pool) => wake_pool(context, pool),
            CacheKey::Disk(namespace, _) => {
                for machine in context.caches.machines.by_key(key) {
                    wake_owner(context, namespace, machine.owner.as_deref());
                }
            }
            CacheKey::PoolName(..) | CacheKey::Machine(..) => {}
        }
    }
}

/// Wakes the pools whose disks a changed machine or attachment uses or used.
fn wake_for_uses<P: Platform>(context: &PoolContext<P>, concerned: &Concerned) {
    for key in concerned {
        let CacheKey::Disk(namespace, name) = key else { continue };
        let Some(disk) = context.caches.disks.get(namespace, name) else { continue };
        wake_owner(context, namespace, disk.facts.owner.as_ref());
    }
}

/// Wakes the pools of the machines of changed instances.
fn wake_for_instances<P: Platform>(context: &PoolContext<P>, concerned: &Concerned) {
    for key in concerned {
        let CacheKey::Machine(namespace, name) = key else { continue };
        let Some(machine) = context.caches.machines.get(namespace, name) else { continue };
        wake_owner(context, namespace, machine.facts.owner.as_deref());
    }
}

/// Wakes the pool that owns an object of this namespace. Another kind of owner is ignored.
fn wake_owner<P: Platform>(context: &PoolContext<P>, namespace: &Arc<str>, owner: Option<&Owner>) {
    if let Some(pool) = PoolKey::of_owner(namespace, owner) {
        wake_pool(context, &pool);
    }
}

/// Wakes a pool, if it exists.
pub(crate) fn wake_pool<P: Platform>(context: &PoolContext<P>, pool: &PoolKey) {
    if context.pool(pool).is_some() {
        context.queue.wake(pool);
    }
}

/// Wakes all pools when an object that templates refer to changes, forever. Such changes are rare, and a pass
/// without changes requests nothing.
pub(crate) async fn wake_for_sources<P: Platform>(context: Arc<PoolContext<P>>) {
    let changes = context.sources.changes();
    let mut version = changes.get();
    loop {
        version = changes.next_after(version).await;
        for (namespace, uid) in context.caches.pools.identities() {
            context.queue.wake(&PoolKey { namespace, uid });
        }
    }
}

//! The observe step of a pass: all its reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vmpool_engine::ledger::{Ledger, LedgerFacts, VersionedFacts};
use vmpool_engine::model::{DiskState, Finalizer};
use vmpool_engine::plan::{DisksByName, PoolSnapshot};
use vmpool_engine::{Disk, Machine, PassMemory, Pool};
use vmpool_kit::object::object_version;
use vmpool_platforms::{ApiObject, DiskOf, Disks, Instances, Platform};

use crate::metrics::{DiskCounts, LedgerResource};
use crate::pools::cache::{CacheKey, Cached};
use crate::pools::context::PoolContext;
use crate::pools::live::ReadError;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::pool_key::PoolKey;

/// Maximum number of entries of one ledger that a pass resolves with live reads, so that the pass stays
/// short.
pub(crate) const MOST_SETTLED: usize = 32;

/// Removes ledger entries that the caches show by now, and overlays the other entries on the caches.
pub(crate) fn observe_pool_snapshot<P: Platform>(
    context: &PoolContext<P>,
    pool: &Pool,
    memory: &mut PassMemory,
) -> PoolSnapshot {
    let namespace = &*pool.namespace;
    let unconfirmed = memory.machines.unconfirmed_creates();
    memory.machines.settle(&context.caches.machines.of(namespace));
    for create in unconfirmed {
        // What the lost response would have shown.
        if let Some(seen) = context.caches.machines.get(namespace, &create.name) {
            memory.machine_losses.watch(&seen.facts.id, context.leader.env.uptime());
        }
    }
    memory.disks.settle(&context.caches.disks.of(namespace));
    let mut machines = context.caches.machines.by_key(&CacheKey::Pool(PoolKey::of(pool)));
    if pool.finalizer != Finalizer::Unused {
        let released = CacheKey::PoolName(pool.namespace.clone(), pool.id.name.clone());
        machines.extend(context.caches.machines.by_key(&released));
    }
    memory.machines.overlay(&mut machines);
    if P::Instances::EXIST {
        join_instances(context, namespace, &mut machines);
        memory.restarts.observe(machines.iter());
    }
    let named = || {
        machines.iter().flat_map(|machine| {
            let devices = machine.disks.iter().map(|device| &device.disk);
            devices.chain(machine.detached.iter().map(|detached| &detached.disk))
        })
    };
    let disks: DisksByName = named()
        .filter_map(|name| {
            let disk = memory.disks.get(name).cloned();
            let disk = disk.or_else(|| Some(context.caches.disks.get(namespace, name)?.facts))?;
            Some((name.clone(), disk))
        })
        .collect();
    let missing = named().filter(|name| P::Disks::EXIST && !disks.contains_key(*name));
    let replaced =
        |name: &Arc<str>| Some((name.clone(), context.caches.disks.replaced(&pool.namespace, name)?));
    let replaced_disks = missing.filter_map(replaced).collect();
    let pool_disks = if P::Disks::EXIST { pool_disks(context, pool, memory) } else { Vec::new() };
    let mut snapshot = PoolSnapshot {
        now: context.leader.env.now(),
        uptime: context.leader.env.uptime(),
        server_clock: context.server_clock.get(),
        machines,
        disks,
        other_users: other_users(context, pool, &pool_disks),
        pool_disks,
        replaced_disks,
        unconfirmed_creates: memory.machines.unconfirmed_creates(),
    };
    snapshot.mark_superseded_disks(pool);
    snapshot
}

/// The number of the pool's disks by their usage.
pub(crate) fn disk_counts(snapshot: &PoolSnapshot, pool: &Pool) -> DiskCounts {
    let holders = snapshot.machines.iter().flat_map(|machine| machine.held_disks());
    let used: BTreeSet<&Arc<str>> = holders.chain(snapshot.other_users.keys()).collect();
    let owned = |disk: &&Arc<Disk>| disk.belongs_to(&pool.id);
    let disks = snapshot.pool_disks.iter().filter(owned);
    DiskCounts::of(pool, disks.map(|disk| (&**disk, used.contains(&disk.id.name))))
}

/// The number of the pool's machines, and how many of them are terminating.
pub(crate) fn machine_counts(snapshot: &PoolSnapshot, pool: &Pool) -> (usize, usize) {
    let is_active = |machine: &&Arc<Machine>| machine.belongs_to(&pool.id) && machine.standby.is_none();
    let machines = snapshot.machines.iter().filter(is_active);
    machines
        .fold((0, 0), |(all, terminating), machine| (all + 1, terminating + usize::from(machine.terminating)))
}

/// Adds the instances to their machines.
fn join_instances<P: Platform>(context: &PoolContext<P>, namespace: &str, machines: &mut [Arc<Machine>]) {
    for machine in machines {
        let instance = context.caches.instances.get(namespace, &machine.id.name).map(|seen| seen.facts);
        let instance = instance.filter(|instance| instance.machine.as_ref() == Some(&machine.id.uid));
        if let Some(instance) = instance {
            Arc::make_mut(machine).instance = Some(instance);
        }
    }
}

/// The disks that the pool owns, and those with its label that were never provisioned or whose template was
/// removed. The other disks belong to machines and are found through them.
fn pool_disks<P: Platform>(context: &PoolContext<P>, pool: &Pool, memory: &PassMemory) -> Vec<Arc<Disk>> {
    let matters = |disk: &Disk| {
        disk.belongs_to(&pool.id)
            || disk.pool_uid_label.as_ref() == Some(&pool.id.uid)
                && (disk.state == DiskState::Failed
                    || pool.supersedes(disk)
                    || !pool.disks.iter().any(|template| Some(&template.name) == disk.template.as_ref()))
    };
    let mut pool_disks = context.caches.disks.by_key_where(&CacheKey::Pool(PoolKey::of(pool)), matters);
    memory.disks.overlay(&mut pool_disks);
    pool_disks.retain(|disk| matters(disk));
    pool_disks
}

/// The users of these disks outside the pool: foreign machines and attachments.
fn other_users<P: Platform>(
    context: &PoolContext<P>,
    pool: &Pool,
    pool_disks: &[Arc<Disk>],
) -> BTreeMap<Arc<str>, Vec<Arc<str>>> {
    let foreign = |machine: &Machine| !machine.belongs_to(&pool.id);
    let mut other_users = BTreeMap::new();
    for disk in pool_disks {
        let key = CacheKey::Disk(pool.namespace.clone(), disk.id.name.clone());
        let machines = context.caches.machines.by_key_where(&key, foreign);
        let attachments = context.caches.attachments.by_key(&key);
        let names = machines.iter().map(|machine| &machine.id.name);
        let names: Vec<_> =
            names.chain(attachments.iter().map(|attachment| &attachment.id.name)).cloned().collect();
        if !names.is_empty() {
            other_users.insert(disk.id.name.clone(), names);
        }
    }
    other_users
}

/// Resolves overdue ledger entries with live reads. If there are more than a pass may read, the next pass
/// resolves the rest.
pub(crate) async fn resolve_overdue_ledgers<P: Platform, R>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    memory: &mut PassMemory,
) -> Result<(), ReadError> {
    resolve_ledger_entries::<_, _, P::Machine, _>(
        context,
        pool,
        &mut memory.machines,
        P::read_machine,
        LedgerResource::Machines,
    )
    .await?;
    if P::Disks::EXIST {
        resolve_ledger_entries::<_, _, DiskOf<P>, _>(
            context,
            pool,
            &mut memory.disks,
            P::Disks::read,
            LedgerResource::Disks,
        )
        .await?;
    }
    Ok(())
}

async fn resolve_ledger_entries<P: Platform, R, K: ApiObject, T: LedgerFacts + Cached>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P, R>,
    ledger: &mut Ledger<T>,
    read: fn(&K) -> T,
    resource: LedgerResource,
) -> Result<(), ReadError> {
    let overdue = ledger.overdue(context.leader.env.uptime());
    if overdue.len() > MOST_SETTLED {
        context.queue.wake(&PoolKey::of(&pool.facts));
    }
    for name in overdue.into_iter().take(MOST_SETTLED) {
        let live = context.get_live::<K>(&pool.facts.namespace, &name).await?;
        let found = live.is_some();
        tracing::warn!(name = &*name, found, "the cache has not shown a write in time: read the object live");
        let live = live.map(|object| VersionedFacts {
            facts: Arc::new(read(&object)),
            version: object_version(&object),
        });
        ledger.resolve(&name, live, context.leader.env.uptime());
        context.metrics.settled_live(resource);
    }
    Ok(())
}

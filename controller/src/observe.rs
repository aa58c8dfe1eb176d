//! Every read of a pass.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vmpool_engine::ledger::{Fact, Ledger, Seen, UnconfirmedCreate};
use vmpool_engine::model::DiskState;
use vmpool_engine::plan::Observed;
use vmpool_engine::{Disk, Machine, Memory, Pool};

use crate::cache::{Cached, Key};
use crate::context::{Context, Names, PoolEntry, ReadError};
use crate::metrics::{DiskCounts, LedgerResource};
use crate::platform::{Platform, Stored};
use crate::watch::version;

/// Most entries of one ledger that one pass settles by live reads, so that a pass stays short.
pub(crate) const MOST_SETTLED: usize = 32;

/// What the caches and the ledger say, read once.
pub(crate) struct Snapshot {
    now: Timestamp,
    uptime: Duration,
    machines: Vec<Arc<Machine>>,
    disks: HashMap<Arc<str>, Arc<Disk>>,
    kept: Vec<Arc<Disk>>,
    others: HashMap<Arc<str>, Vec<Arc<str>>>,
    unconfirmed_creates: Vec<UnconfirmedCreate>,
    collection_grace: Duration,
}

impl Snapshot {
    /// Drops ledger entries that the caches show by now, and lays the others over the caches.
    pub(crate) fn take<P: Platform>(context: &Context<P>, pool: &Pool, memory: &mut Memory) -> Self {
        let namespace = &*pool.namespace;
        memory.machines.settle(&context.machines.of(namespace));
        memory.disks.settle(&context.disks.of(namespace));
        let mut machines = context.machines.by_key(&Key::Pool(pool.id.uid.clone()));
        memory.machines.overlay(&mut machines);
        let disks = machines
            .iter()
            .flat_map(|machine| {
                let devices = machine.disks.iter().map(|device| &device.disk);
                devices.chain(machine.detached.iter().map(|detached| &detached.disk))
            })
            .filter_map(|name| {
                let disk = memory.disks.get(name).cloned();
                let disk = disk.or_else(|| Some(context.disks.get(namespace, name)?.facts))?;
                Some((name.clone(), disk))
            })
            .collect();
        let kept = if P::HAS_DISKS { kept(context, pool, memory) } else { Vec::new() };
        Self {
            now: context.env.now(),
            uptime: context.env.uptime(),
            machines,
            disks,
            others: others(context, pool, &kept),
            kept,
            unconfirmed_creates: memory.machines.unconfirmed_creates(),
            collection_grace: context.settings.collection_grace,
        }
    }

    /// The machines and disks that a pass saw, as it saw them.
    pub(crate) fn machines(&self) -> impl Iterator<Item = &Arc<Machine>> + Clone {
        self.machines.iter()
    }

    /// All disks of it. One that the pool owns and a machine refers to comes twice.
    pub(crate) fn disks(&self) -> impl Iterator<Item = &Arc<Disk>> {
        self.kept.iter().chain(self.disks.values())
    }

    /// What has become of the disks that the pool owns.
    pub(crate) fn census(&self, pool: &Pool) -> DiskCounts {
        let used: HashSet<&Arc<str>> =
            self.machines.iter().flat_map(|machine| machine.held_disks()).chain(self.others.keys()).collect();
        let owned = |disk: &&Arc<Disk>| disk.owner.as_ref().is_some_and(|owner| owner.uid == pool.id.uid);
        DiskCounts::of(
            pool,
            self.kept.iter().filter(owned).map(|disk| (&**disk, used.contains(&disk.id.name))),
        )
    }

    /// How many members there are, and how many of them are terminating.
    pub(crate) fn members(&self, pool: &Pool) -> (usize, usize) {
        let members = self.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&pool.id.uid));
        members.fold((0, 0), |(all, terminating), machine| {
            (all + 1, terminating + usize::from(machine.terminating))
        })
    }

    /// The snapshot in the engine's hands.
    pub(crate) fn observed<'a, P: Platform>(
        self,
        pool: &'a Pool,
        memory: &'a Memory,
        names: &'a Names<'a, P>,
    ) -> Observed<'a> {
        let Self { now, uptime, machines, disks, kept, others, unconfirmed_creates, collection_grace } = self;
        Observed {
            now,
            uptime,
            pool,
            machines,
            disks,
            kept,
            others,
            collection_grace,
            stored: Vec::new(),
            unconfirmed_creates,
            memory,
            taken: names,
        }
    }

    /// The snapshot back from the engine's hands.
    pub(crate) fn recover(observed: Observed<'_>) -> Self {
        let Observed {
            now,
            uptime,
            machines,
            disks,
            kept,
            others,
            unconfirmed_creates,
            collection_grace,
            ..
        } = observed;
        Self { now, uptime, machines, disks, kept, others, unconfirmed_creates, collection_grace }
    }
}

/// The disks that the pool owns, and those with its label that failed or whose template is gone. The others belong to
/// machines and are found through these.
fn kept<P: Platform>(context: &Context<P>, pool: &Pool, memory: &Memory) -> Vec<Arc<Disk>> {
    let matters = |disk: &Disk| {
        disk.owner.as_ref().is_some_and(|owner| owner.uid == pool.id.uid)
            || disk.pool_uid_label.as_ref() == Some(&pool.id.uid)
                && (disk.state == DiskState::Failed
                    || !pool.disks.iter().any(|template| Some(&template.name) == disk.template.as_ref()))
    };
    let mut kept = context.disks.by_key_where(&Key::Pool(pool.id.uid.clone()), matters);
    memory.disks.overlay(&mut kept);
    kept.retain(|disk| matters(disk));
    kept
}

/// Who refers to these disks and is no member: machines, and what was attached by hand.
fn others<P: Platform>(
    context: &Context<P>,
    pool: &Pool,
    kept: &[Arc<Disk>],
) -> HashMap<Arc<str>, Vec<Arc<str>>> {
    let foreign = |machine: &Machine| machine.owner.as_ref() != Some(&pool.id.uid);
    let mut others = HashMap::new();
    for disk in kept {
        let key = Key::Disk(pool.namespace.clone(), disk.id.name.clone());
        let machines = context.machines.by_key_where(&key, foreign);
        let attachments = context.attachments.by_key(&key);
        let names = machines.iter().map(|machine| &machine.id.name);
        let names: Vec<_> =
            names.chain(attachments.iter().map(|attachment| &attachment.id.name)).cloned().collect();
        if !names.is_empty() {
            others.insert(disk.id.name.clone(), names);
        }
    }
    others
}

/// Settles by live reads what the caches have not shown for too long; what is more than a pass may read is left to
/// another one, soon.
pub(crate) async fn settle_overdue<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
) -> Result<(), ReadError> {
    settle::<_, P::Machine, _>(
        context,
        pool,
        &mut memory.machines,
        P::read_machine,
        LedgerResource::Machines,
    )
    .await?;
    if P::HAS_DISKS {
        settle::<_, P::Disk, _>(context, pool, &mut memory.disks, P::read_disk, LedgerResource::Disks)
            .await?;
    }
    Ok(())
}

async fn settle<P: Platform, K: Stored, T: Fact + Cached>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    ledger: &mut Ledger<T>,
    read: fn(&K) -> T,
    resource: LedgerResource,
) -> Result<(), ReadError> {
    let overdue = ledger.overdue(context.env.uptime());
    if overdue.len() > MOST_SETTLED {
        context.queue.wake(&pool.facts.id.uid);
    }
    for name in overdue.into_iter().take(MOST_SETTLED) {
        let live = context.get_live::<K>(&pool.facts.namespace, &name).await?;
        let found = live.is_some();
        tracing::warn!(name = &*name, found, "the cache has not shown a write for long: read it live");
        let live = live.map(|object| Seen { facts: Arc::new(read(&object)), version: version(&object) });
        ledger.resolve(&name, live, context.env.uptime());
        context.metrics.settled_live(resource);
    }
    Ok(())
}

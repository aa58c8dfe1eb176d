//! Every read of a pass.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use vmpool_engine::ledger::{Fact, Ledger, Seen, Unanswered};
use vmpool_engine::plan::Observed;
use vmpool_engine::{Disk, Memory, Pool, Replica, Uid};

use crate::cache::{Cached, Key};
use crate::context::{Context, Names, PoolEntry, ReadError};
use crate::metrics::LedgerResource;
use crate::platform::{Platform, Stored};
use crate::watch::version;

/// Most entries of one ledger that one pass settles by live reads, so that a pass stays short.
pub(crate) const MOST_SETTLED: usize = 32;

/// What the caches and the ledger say, read once.
pub(crate) struct Snapshot {
    now: Timestamp,
    uptime: Duration,
    machines: Vec<Arc<Replica>>,
    disks: HashMap<Arc<str>, Arc<Disk>>,
    unanswered: Vec<Unanswered>,
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
            .flat_map(|machine| &machine.disks)
            .filter_map(|device| {
                let disk = memory.disks.get(&device.disk).cloned();
                let disk = disk.or_else(|| Some(context.disks.get(namespace, &device.disk)?.facts))?;
                Some((device.disk.clone(), disk))
            })
            .collect();
        Self {
            now: context.env.now(),
            uptime: context.env.uptime(),
            machines,
            disks,
            unanswered: memory.machines.lost_answers(),
        }
    }

    /// The versions of the machines with these UIDs, of those that are still known as the pass saw them.
    ///
    /// Whoever acts on such a version acts on what was planned for: the server refuses it once the machine is another.
    pub(crate) fn versions<P: Platform>(
        &self,
        context: &Context<P>,
        pool: &Pool,
        memory: &Memory,
        wanted: &HashSet<Uid>,
    ) -> HashMap<Uid, u64> {
        if wanted.is_empty() {
            return HashMap::new();
        }
        let planned = self.machines.iter().filter(|machine| wanted.contains(&machine.id.uid));
        planned
            .filter_map(|planned| {
                let name = &planned.id.name;
                let known = memory.machines.written_as(name);
                let known = known.or_else(|| context.machines.get(&pool.namespace, name))?;
                // A change that is no fact leaves the facts as they are.
                let same = Arc::ptr_eq(&known.facts, planned) || known.facts == *planned;
                same.then(|| (planned.id.uid.clone(), known.version))
            })
            .collect()
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
        let Self { now, uptime, machines, disks, unanswered } = self;
        Observed { now, uptime, pool, machines, disks, unanswered, memory, taken: names }
    }

    /// The snapshot back from the engine's hands.
    pub(crate) fn recover(observed: Observed<'_>) -> Self {
        let Observed { now, uptime, machines, disks, unanswered, .. } = observed;
        Self { now, uptime, machines, disks, unanswered }
    }
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

//! The state that all passes of one leadership share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_api::ObjectKey;
use vmpool_engine::model::{Instance, PublishedStatus, UnusableTemplate};
use vmpool_engine::plan::NamesInUse;
use vmpool_engine::{ComputedStatus, Disk, Machine, ObjectId, PassMemory, Pool};
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::queue::PassQueue;
use vmpool_platforms::{Configuration, DiskAttachment, Platform};

use crate::autoscalers::PoolHub;
use crate::images::ImageGate;
use crate::metrics::{ControllerMetrics, PoolCounts, WriteKind};
use crate::pools::announced_problems::AnnouncedProblems;
use crate::pools::cache::{CacheKey, ObjectCache};
use crate::pools::disk_sources::DiskSourceStore;
use crate::pools::pool_entry::CachedPool;
use crate::pools::pool_key::PoolKey;
use crate::pools::revisions::pool_revisions::PoolRevisions;
use crate::pools::revisions::stored::RevisionFacts;
use crate::pools::shared_slots::SharedClassSlots;
use crate::pools::sources::Sources;
use crate::pools::status_conflict::StatusConflict;
use crate::pools::storage_problem::StorageProblem;
use crate::server_clock::SharedServerClock;
use crate::settings::{ControllerSettings, KubevirtMetrics};

/// The state of one pool between passes.
#[derive(Default)]
pub(crate) struct PoolMemory {
    pub(crate) memory: PassMemory,
    /// Number of consecutive passes in which the state differed from the plan.
    pub(crate) outdated_passes: u32,
    /// Computing time of the last pass, without waits.
    pub(crate) effort: Duration,
    /// Uptime of the last attempt to write the status.
    pub(crate) status_attempt: Option<Duration>,
    /// The last status that was written.
    pub(crate) last_status: Option<LastStatus>,
    /// Whether another client writes the status, too.
    pub(crate) status_conflict: StatusConflict,
    /// The stored revisions of the pool; `None` before the first pass.
    pub(crate) revisions: Option<PoolRevisions>,
    /// Whether the last pass saw a [copy](vmpool_engine::copied_pool). A user gives it the revisions of the
    /// former pool, which only a list shows.
    pub(crate) was_copy: bool,
    /// What events have said.
    pub(crate) announced: AnnouncedProblems,
    /// Why the current template cannot be used now.
    pub(crate) unresolved: Option<UnusableTemplate>,
    /// The version of the objects that templates refer to, at the last attempt to resolve the template.
    pub(crate) sources_version: u64,
    /// What the volumes of a machine that waits for storage report.
    pub(crate) storage_problem: Option<StorageProblem>,
}

impl PoolMemory {
    /// The times until something in the memory is due: the end of a backoff or of a status conflict, or a
    /// live read of a pending write.
    pub(crate) fn deadlines(&self, uptime: Duration) -> impl Iterator<Item = Duration> + use<> {
        let memory = &self.memory;
        let conflict = self.status_conflict.remaining(uptime).filter(|_| self.status_conflict.is_active());
        [
            memory.remaining_backoff(uptime),
            memory.machine_losses.next_kept(uptime),
            memory.disk_losses.next_kept(uptime),
            conflict,
            memory.machines.due_in(uptime),
            memory.disks.due_in(uptime),
            memory.contents.next_settled(uptime),
        ]
        .into_iter()
        .flatten()
    }
}

/// The last written status.
pub(crate) struct LastStatus {
    pub(crate) wrote: ComputedStatus,
    /// The status as the API server stored it.
    pub(crate) became: PublishedStatus,
    /// The version of the pool after the write.
    pub(crate) version: u64,
}

/// What the watches show of the objects of a platform.
pub(crate) struct PoolCaches<P: Platform> {
    pub(crate) pools: Arc<ObjectCache<CachedPool<P>>>,
    pub(crate) machines: Arc<ObjectCache<Machine>>,
    pub(crate) disks: Arc<ObjectCache<Disk>>,
    pub(crate) attachments: Arc<ObjectCache<DiskAttachment>>,
    pub(crate) revisions: Arc<ObjectCache<RevisionFacts>>,
    pub(crate) instances: Arc<ObjectCache<Instance>>,
}

impl<P: Platform> Default for PoolCaches<P> {
    fn default() -> Self {
        Self {
            pools: Arc::default(),
            machines: Arc::default(),
            disks: Arc::default(),
            attachments: Arc::default(),
            revisions: Arc::default(),
            instances: Arc::default(),
        }
    }
}

/// The state that all passes of one leadership share.
pub(crate) struct PoolContext<P: Platform> {
    /// What every controller of the leader acts with.
    pub(crate) leader: LeaderHandles<WriteKind>,
    pub(crate) caches: PoolCaches<P>,
    pub(crate) queue: PassQueue<PoolKey>,
    /// Namespaces and names of former pools that machines with the finalizer and without an owner name, and
    /// that do not exist.
    pub(crate) former_pools: PassQueue<ObjectKey>,
    pub(crate) states: Mutex<BTreeMap<PoolKey, PoolMemory>>,
    pub(crate) settings: ControllerSettings,
    /// Whether the API server removes the fields of vmpool from statuses.
    pub(crate) status_is_pruned: AtomicBool,
    /// Whether the pools have metrics under the names of KubeVirt, too.
    pub(crate) has_kubevirt_names: AtomicBool,
    configuration: Arc<Mutex<Configuration>>,
    /// The objects that templates refer to.
    pub(crate) sources: Arc<Sources>,
    /// What the sources of disks lead to.
    pub(crate) disk_sources: Arc<DiskSourceStore>,
    /// Whether the disk images that templates name are ready.
    pub(crate) images: ImageGate,
    /// The autoscalers that changes of pools wake.
    pub(crate) autoscaled: PoolHub,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) pool_counts: PoolCounts,
    /// The limit on provisioning of each storage class, which all platforms share.
    pub(crate) class_slots: Arc<SharedClassSlots>,
    /// The clock of the API server, which all pools of the process share.
    pub(crate) server_clock: SharedServerClock,
}

/// What the passes of all platforms share.
#[derive(Default)]
pub(crate) struct SharedByPlatforms {
    pub(crate) configuration: Arc<Mutex<Configuration>>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) disk_sources: Arc<DiskSourceStore>,
    pub(crate) images: ImageGate,
    /// The pools that autoscalers can scale.
    pub(crate) autoscaled: PoolHub,
    /// The limit on provisioning of each storage class.
    pub(crate) class_slots: Arc<SharedClassSlots>,
    /// The clock of the API server.
    pub(crate) server_clock: SharedServerClock,
}

impl<P: Platform> PoolContext<P> {
    /// Whether the cache shows no newer spec of the pool than this one, which a plan used.
    pub(crate) fn has_no_newer_spec(&self, planned: &Pool) -> bool {
        self.caches.pools.get(&planned.namespace, &planned.id.name).is_some_and(|cached| {
            let cached = &cached.facts.facts;
            // The cache can be behind the live read that the plan used, but not ahead of it.
            cached.id == planned.id
                && (planned.deleting || !cached.deleting)
                && cached.generation <= planned.generation
        })
    }

    /// A context with empty caches and without memory.
    pub(crate) fn new(
        leader: LeaderHandles<WriteKind>,
        shared: SharedByPlatforms,
        settings: ControllerSettings,
        metrics: Arc<ControllerMetrics>,
    ) -> Self {
        let SharedByPlatforms {
            configuration,
            sources,
            disk_sources,
            images,
            autoscaled,
            class_slots,
            server_clock,
        } = shared;
        Self {
            queue: PassQueue::new(leader.env.clone(), settings.debounce, Arc::new(metrics.queue.clone())),
            former_pools: PassQueue::new(
                leader.env.clone(),
                settings.debounce,
                Arc::new(metrics.queue.clone()),
            ),
            leader,
            caches: PoolCaches::default(),
            states: Mutex::new(BTreeMap::new()),
            settings,
            status_is_pruned: AtomicBool::default(),
            has_kubevirt_names: AtomicBool::new(settings.kubevirt_metrics == KubevirtMetrics::Always),
            configuration,
            sources,
            disk_sources,
            images,
            autoscaled,
            metrics,
            pool_counts: PoolCounts::default(),
            class_slots,
            server_clock,
        }
    }

    /// The configuration of the platform.
    pub(crate) fn configuration(&self) -> Configuration {
        self.configuration.lock().clone()
    }

    /// The pool with this namespace and UID in the cache.
    pub(crate) fn pool(&self, pool: &PoolKey) -> Option<Arc<CachedPool<P>>> {
        self.caches.pools.by_key(&CacheKey::Pool(pool.clone())).pop()
    }

    /// The newest known facts of a machine.
    pub(crate) fn known_machine(
        &self,
        pool: &Pool,
        memory: &PassMemory,
        id: &ObjectId,
    ) -> Option<Arc<Machine>> {
        let known = memory
            .machines
            .get(&id.name)
            .cloned()
            .or_else(|| self.caches.machines.get(&pool.namespace, &id.name).map(|seen| seen.facts))?;
        (known.id == *id).then_some(known)
    }
}

/// The names in use in one namespace.
pub(crate) struct CachedNames<'a, P: Platform> {
    pub(crate) context: &'a PoolContext<P>,
    pub(crate) namespace: &'a str,
}

impl<P: Platform> NamesInUse for CachedNames<'_, P> {
    fn has_machine(&self, name: &str) -> bool {
        self.context.caches.machines.get(self.namespace, name).is_some()
    }
    fn has_disk(&self, name: &str) -> bool {
        self.context.caches.disks.get(self.namespace, name).is_some()
    }
}

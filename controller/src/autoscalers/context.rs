//! The state that all passes of autoscalers share during one leadership.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use vmpool_api::ObjectKey;
use vmpool_autoscaler::history::{DesiredHistory, Moment};
use vmpool_autoscaler::limits::{AutoscalerSettings, LimitsInEffect};
use vmpool_autoscaler::status::LastScale;
use vmpool_autoscaler::waiting::WaitingClaimKey;
use vmpool_engine::Uid;
use vmpool_kit::first_lists::FirstLists;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::queue::PassQueue;

use super::hub::PoolHub;
use super::pool_facts::AutoscaledPoolFacts;
use super::store::AutoscalerStore;
use crate::leadership::LeadershipResources;
use crate::metrics::{ControllerMetrics, ShownAutoscaler, WriteKind};

/// The number of watches whose first lists passes wait for.
const WATCHES: usize = 2;

/// What an autoscaler remembers between two passes.
pub(super) struct AutoscalerMemory {
    /// The pool whose demand it remembers. Another pool begins the delay again.
    pool: Uid,
    /// The numbers that were desired.
    pub(super) history: DesiredHistory,
    /// The limits that applied last.
    limits: Option<KnownLimits>,
    /// The uptime since which each claim waits.
    waiting_since: BTreeMap<WaitingClaimKey, Duration>,
    /// The last change of the replicas, until a status has it.
    pub(super) last_scale: Option<LastScale>,
    /// The uptime until which no write is tried, and why the last one failed.
    pub(super) backoff: Option<(Duration, String)>,
}

/// Limits that apply for a while.
#[derive(Clone)]
pub(super) struct KnownLimits {
    settings: Arc<AutoscalerSettings>,
    since: Timestamp,
    /// When they can change.
    pub(super) until: Option<Timestamp>,
    pub(super) effect: LimitsInEffect,
}

impl KnownLimits {
    fn compute(settings: &Arc<AutoscalerSettings>, now: Timestamp) -> Self {
        let (until, effect) = (settings.next_change(now), settings.limits_at(now));
        Self { settings: settings.clone(), since: now, until, effect }
    }

    /// Whether they apply at this time, which may be earlier if the clock was set back.
    fn apply(&self, settings: &Arc<AutoscalerSettings>, now: Timestamp) -> bool {
        let is_during = self.since <= now && self.until.is_none_or(|until| now < until);
        is_during && Arc::ptr_eq(&self.settings, settings)
    }
}

impl AutoscalerMemory {
    /// The limits at this time. Schedules are computed again only when they can change.
    pub(super) fn limits_at(&mut self, settings: &Arc<AutoscalerSettings>, now: Timestamp) -> &KnownLimits {
        let known = self.limits.take().filter(|known| known.apply(settings, now));
        self.limits.insert(known.unwrap_or_else(|| KnownLimits::compute(settings, now)))
    }

    /// Remembers which claims wait. Returns what became of those that waited before.
    pub(super) fn note_waiting(&mut self, facts: &AutoscaledPoolFacts, uptime: Duration) -> EndedClaims {
        let mut ended = EndedClaims::default();
        self.waiting_since.retain(|claim, since| {
            let waits = facts.waiting.contains(claim);
            if facts.answered.contains(claim) {
                ended.answered.push(uptime.saturating_sub(*since));
            } else if !waits {
                ended.unanswered += 1;
            }
            waits
        });
        for claim in &facts.waiting {
            self.waiting_since.entry(claim.clone()).or_insert(uptime);
        }
        ended
    }
}

/// Claims that wait no longer.
#[derive(Default)]
pub(super) struct EndedClaims {
    /// How long those waited that have a machine now.
    pub(super) answered: Vec<Duration>,
    /// Number of claims that their clients do not repeat any more.
    pub(super) unanswered: u64,
}

/// What a leader of autoscalers uses.
pub(super) struct AutoscalerContext {
    /// What every controller of the leader acts with.
    pub(super) leader: LeaderHandles<WriteKind>,
    pub(super) store: AutoscalerStore,
    pub(super) hub: PoolHub,
    pub(super) queue: PassQueue<ObjectKey>,
    /// Number of workers.
    pub(super) workers: usize,
    /// Maximum time between two passes.
    pub(super) resync: Duration,
    pub(super) metrics: Arc<ControllerMetrics>,
    memories: Mutex<BTreeMap<ObjectKey, AutoscalerMemory>>,
    /// The uptimes of the last writes of statuses.
    status_attempts: Mutex<BTreeMap<ObjectKey, Duration>>,
    lists: FirstLists,
}

impl AutoscalerContext {
    /// A context without objects and without memory.
    pub(super) fn new(shared: &LeadershipResources) -> Self {
        let (leader, settings, metrics) = (shared.handles(), shared.settings(), shared.metrics().clone());
        let queue = PassQueue::new(leader.env.clone(), settings.debounce, Arc::new(metrics.queue.clone()));
        Self {
            leader,
            store: AutoscalerStore::default(),
            hub: shared.pool_hub().clone(),
            queue,
            workers: settings.workers,
            resync: settings.resync,
            metrics,
            memories: Mutex::default(),
            status_attempts: Mutex::default(),
            lists: FirstLists::new(WATCHES),
        }
    }

    /// The time on both clocks.
    pub(super) fn moment(&self) -> Moment {
        Moment { now: self.leader.env.now(), uptime: self.leader.env.uptime() }
    }

    /// A first list is complete.
    pub(super) fn list_ended(&self) {
        self.lists.ended();
        self.wake_all();
    }

    /// Whether all first lists are complete.
    pub(super) fn has_all_lists(&self) -> bool {
        self.lists.are_complete()
    }

    /// Wakes all autoscalers: what scales the pool of one can change for the others, too. They are few.
    pub(super) fn wake_all(&self) {
        for key in self.store.keys() {
            self.queue.wake(&key);
        }
    }

    /// Drops what is remembered of an autoscaler that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.memories.lock().remove(key);
        self.status_attempts.lock().remove(key);
        self.hub.forget_user(key);
    }

    /// Changes what an autoscaler of this pool remembers.
    pub(super) fn with_memory<T>(
        &self,
        key: &ObjectKey,
        pool: &Uid,
        change: impl FnOnce(&mut AutoscalerMemory) -> T,
    ) -> T {
        let mut memories = self.memories.lock();
        let begin = || AutoscalerMemory {
            pool: pool.clone(),
            history: DesiredHistory::begin(self.moment()),
            limits: None,
            waiting_since: BTreeMap::new(),
            last_scale: None,
            backoff: None,
        };
        let memory = memories.entry(key.clone()).or_insert_with(begin);
        if memory.pool != *pool {
            *memory = begin();
        }
        change(memory)
    }

    /// The time until the status of an autoscaler may be written again.
    pub(super) fn status_wait(&self, key: &ObjectKey, uptime: Duration, interval: Duration) -> Duration {
        let attempt = self.status_attempts.lock().get(key).copied();
        attempt.map(|attempt| (attempt + interval).saturating_sub(uptime)).unwrap_or_default()
    }

    /// The status of an autoscaler was written at this uptime, or the write failed.
    pub(super) fn note_status_attempt(&self, key: &ObjectKey, uptime: Duration) {
        self.status_attempts.lock().insert(key.clone(), uptime);
    }

    /// The autoscalers as the metrics show them.
    pub(super) fn shown(&self) -> Vec<ShownAutoscaler> {
        let all = self.store.all().into_iter();
        all.map(|(key, object)| ShownAutoscaler::read(&key, object.status.as_ref())).collect()
    }
}

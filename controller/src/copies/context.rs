//! The state that all passes over machines share during one leadership.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Resource;
use parking_lot::Mutex;
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_api::OwnerIdentity;
use vmpool_decision::{Needs, Step};
use vmpool_engine::ObjectId;
use vmpool_kit::definitions::{Definitions, DefinitionsObserver};
use vmpool_kit::events::EventSubject;
use vmpool_kit::first_lists::FirstLists;
use vmpool_kit::handles::LeaderHandles;
use vmpool_kit::object::object_id;
use vmpool_kit::pause::pause_after;
use vmpool_kit::queue::PassQueue;
use vmpool_kit::rejection;
use vmpool_platforms::instancetype::copies::{CopyPolicy, Document, Machine, Revision};
use vmpool_platforms::{FetchedObjects, KubeVirt, OtherController, Platform, ReferencedObject};
use vmpool_runtime::env::TimeoutElapsed;

use super::blocked_types::{BlockedTypes, CHECK_DELAY, FIRST_PAUSE};
use super::store::ObjectTable;
use super::types::{TypeKey, TypeTables};
use crate::access::only_permitted;
use crate::metrics::{ControllerMetrics, WriteKind};
use crate::pools::definitions::served_definitions;
use crate::settings::ControllerSettings;

/// The most times that one decision needs further objects.
const MAX_READS: usize = 32;
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// The installation of the platform's own controller.
pub(super) type KubeVirtInstallation =
    <<KubeVirt as Platform>::OtherController as OtherController>::Installation;

/// What a leader of copies uses.
pub(super) struct CopyContext {
    /// What every controller of the leader acts with.
    pub(super) leader: LeaderHandles<WriteKind>,
    pub(super) scope: CopyScope,
    /// Deadline of a request.
    pub(super) deadline: Duration,
    /// Number of workers that make copies.
    pub(super) workers: usize,
    pub(super) metrics: Arc<ControllerMetrics>,
    pub(super) queue: PassQueue<ObjectKey>,
    /// The objects of the four kinds that need a pass.
    pub(super) type_queue: PassQueue<TypeKey>,
    pub(super) types: TypeTables,
    pub(super) blocked_types: BlockedTypes,
    pub(super) machines: Arc<ObjectTable<Machine>>,
    pub(super) revisions: Arc<ObjectTable<Revision>>,
    /// The machines that cannot get their copies.
    blocked: Mutex<BTreeMap<ObjectKey, Blocked>>,
}

/// What a leader of copies watches, and what it does with it.
pub(super) struct CopyScope {
    /// What happens to machines that name an instance type or a preference; `None` if another controller
    /// makes their copies.
    pub(super) policy: Option<CopyPolicy>,
    /// The definitions of the cluster as they are now.
    pub(super) known: DefinitionsObserver,
    /// The definitions of the kinds that are watched.
    pub(super) served: Definitions,
    /// Whether another controller is set to reconcile pools.
    pub(super) others_pools: Arc<AtomicBool>,
    /// The first lists that passes wait for.
    pub(super) lists: FirstLists,
}

impl CopyScope {
    /// Whether this controller makes copies for pools. Without machines, no pool gets one.
    pub(super) fn reconciles_pools(&self) -> bool {
        let has_all = |known: &Definitions| served_definitions::<KubeVirt>(known).is_ok();
        let is_served = self.known.read(|known| known.as_ref().is_some_and(has_all));
        is_served && !self.others_pools.load(Ordering::Relaxed)
    }
}

/// A machine that cannot get its copies.
#[derive(Default)]
struct Blocked {
    attempts: u32,
    /// The ControllerRevision without which it gets none.
    awaits: Option<String>,
    /// The types that this depends on, whether they exist or not.
    types: BTreeSet<TypeKey>,
}

/// A machine in [`BlockedTypes`] and in messages.
pub(super) fn describe_machine(key: &ObjectKey) -> String {
    format!("machine {key}")
}

/// A pool, as in [`describe_machine`].
pub(super) fn describe_pool(key: &ObjectKey) -> String {
    format!("pool {key}")
}

/// Where the instance types and the preferences that a decision needs are read.
#[derive(Clone, Copy)]
pub(super) enum TypeReadSource {
    /// From the API server.
    Live,
    /// From the cache, if it shows them: one user can have many machines and pools.
    Cache,
}

/// Why what a decision needs was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyReadError {
    #[error("more than {MAX_READS} objects are needed")]
    TooManyObjects,
    #[error("reading an object")]
    Get(#[from] kube::Error),
    #[error(transparent)]
    TooLate(#[from] TimeoutElapsed),
}

impl CopyContext {
    pub(super) fn new(
        leader: LeaderHandles<WriteKind>,
        metrics: Arc<ControllerMetrics>,
        settings: ControllerSettings,
        scope: CopyScope,
    ) -> Self {
        let env = &leader.env;
        Self {
            queue: PassQueue::new(env.clone(), settings.debounce, Arc::new(metrics.queue.clone())),
            type_queue: PassQueue::new(env.clone(), settings.debounce, Arc::new(metrics.queue.clone())),
            leader,
            scope,
            deadline: settings.request_deadline,
            workers: settings.workers,
            metrics,
            types: TypeTables::default(),
            blocked_types: BlockedTypes::default(),
            machines: Arc::default(),
            revisions: Arc::default(),
            blocked: Mutex::default(),
        }
    }

    /// A first list is complete. After the last one, all machines get a pass.
    pub(super) fn list_ended(&self) {
        if self.scope.lists.ended() {
            for key in self.machines.keys() {
                self.queue.wake(&key);
            }
        }
    }

    /// Whether all first lists are complete.
    pub(super) fn has_all_lists(&self) -> bool {
        self.scope.lists.are_complete()
    }

    /// Wakes a machine.
    pub(super) fn wake(&self, key: &ObjectKey) {
        if self.has_all_lists() {
            self.queue.wake(key);
        }
    }

    /// Wakes the objects that are being deleted and that one of these machines and pools needs, because it or
    /// its copy changed.
    pub(super) fn wake_types_needed_by(&self, changed: &[String]) {
        for (key, delay) in self.blocked_types.needed_by(changed) {
            self.type_queue.wake_after(&key, delay);
        }
    }

    /// Wakes all objects that are being deleted and still needed, after a new list of what may need them.
    pub(super) fn wake_blocked_types(&self) {
        for key in self.blocked_types.keys() {
            self.type_queue.wake_after(&key, CHECK_DELAY);
        }
    }

    /// Wakes the machines that cannot get their copies because of a type, after a change of it. A change of
    /// only its metadata has no effect: a user can make any number of these.
    pub(super) fn wake_blocked_by(&self, key: &TypeKey) {
        if self.types.note_state(key) {
            self.wake_blocked_where(|_, blocked| blocked.types.contains(key));
        }
    }

    /// Wakes the machines of a namespace that wait for a ControllerRevision, because it changed.
    pub(super) fn wake_waiting_for(&self, revision: &ObjectKey) {
        self.wake_blocked_where(|key, blocked| {
            key.namespace == revision.namespace && blocked.awaits.as_ref() == Some(&revision.name)
        });
    }

    fn wake_blocked_where(&self, matters: impl Fn(&ObjectKey, &Blocked) -> bool) {
        let blocked = self.blocked.lock();
        let matching = blocked.iter().filter(|(key, blocked)| matters(key, blocked));
        let keys: Vec<ObjectKey> = matching.map(|(key, _)| key.clone()).collect();
        drop(blocked);
        for key in &keys {
            self.wake(key);
        }
    }

    /// Records that a machine needs no further attempt.
    pub(super) fn note_done(&self, key: &ObjectKey) {
        self.blocked.lock().remove(key);
    }

    /// Records that a machine cannot get its copies, the ControllerRevision without which it gets none, and
    /// the types that this depends on. Returns the pause until the next attempt.
    pub(super) fn note_blocked(
        &self,
        key: &ObjectKey,
        awaits: Option<String>,
        types: BTreeSet<TypeKey>,
    ) -> Duration {
        let mut blocked = self.blocked.lock();
        let known = blocked.entry(key.clone()).or_default();
        (known.awaits, known.types) = (awaits, types);
        let pause = pause_after(known.attempts, FIRST_PAUSE, LONGEST_PAUSE);
        known.attempts = known.attempts.saturating_add(1);
        pause
    }

    /// The machines that need a copy to stay if `except` stops being its owner: those that name it, except
    /// machines of a pool that owns it, because the pool keeps it for them.
    pub(super) fn users(
        &self,
        ObjectKey { namespace, name: except }: &ObjectKey,
        copy: &Revision,
    ) -> Vec<ObjectId> {
        let metadata = copy.meta();
        let revision = metadata.name.as_deref().unwrap_or_default();
        let owners: BTreeSet<OwnerIdentity<'_>> =
            metadata.owner_references.iter().flatten().map(OwnerIdentity::of).collect();
        let users = self.machines.of(namespace, |machine| {
            let mut of_machine = machine.meta().owner_references.iter().flatten().map(OwnerIdentity::of);
            machine.uses(revision) && !of_machine.any(|owner| owners.contains(&owner))
        });
        users.iter().map(|machine| object_id(&**machine)).filter(|id| *id.name != **except).collect()
    }

    /// Evaluates a decision about a machine or a pool of a namespace, and reads the objects that it needs.
    pub(super) async fn decide<T>(
        &self,
        namespace: &str,
        types: TypeReadSource,
        decision: impl Fn(&FetchedObjects) -> Step<T, ReferencedObject>,
    ) -> Result<T, CopyReadError> {
        let mut found = FetchedObjects::default();
        for _ in 0..MAX_READS {
            let Needs(needs) = match decision(&found) {
                Ok(result) => return Ok(result),
                Err(needs) => needs,
            };
            for reference in needs {
                let object = self.read(namespace, types, &reference).await?;
                found.insert(reference, object);
            }
        }
        Err(CopyReadError::TooManyObjects)
    }

    /// The object at this place: a type that the cache shows, a known copy, or what the API server returns.
    async fn read(
        &self,
        namespace: &str,
        types: TypeReadSource,
        reference: &ReferencedObject,
    ) -> Result<Option<Value>, CopyReadError> {
        let cached = match types {
            TypeReadSource::Live => None,
            TypeReadSource::Cache => self.types.find(namespace, reference),
        };
        if cached.is_some() {
            return Ok(cached);
        }
        if reference.collection == vmpool_kit::object::collection_path::<Revision>(namespace)
            && let Some(known) = self.revisions.get(&ObjectKey::new(namespace, &*reference.name))
        {
            return Ok(Some(known.document()));
        }
        self.read_live(reference).await
    }

    /// What the API server returns for this place, if the machine may use it.
    pub(super) async fn read_live(
        &self,
        reference: &ReferencedObject,
    ) -> Result<Option<Value>, CopyReadError> {
        let read = async {
            let object =
                rejection::get_object(&self.leader.client, reference.collection.clone(), &reference.name)
                    .await?;
            only_permitted(&self.leader.client, reference, object).await
        };
        Ok(self.leader.env.timeout(self.deadline, read).await??)
    }

    /// A machine as the subject of events.
    pub(super) fn subject(machine: &Machine) -> EventSubject {
        let metadata = machine.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        EventSubject {
            api_version: Machine::api_version(&()).into_owned(),
            kind: Machine::kind(&()).into_owned(),
            namespace: text(&metadata.namespace).as_str().into(),
            id: ObjectId::new(&text(&metadata.name), &text(&metadata.uid)),
        }
    }
}

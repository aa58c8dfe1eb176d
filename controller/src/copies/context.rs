//! The state that all passes over machines share during one leadership.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use vmpool_engine::ObjectId;
use vmpool_platforms::Reference;
use vmpool_platforms::kubevirt::copies::{Document, Machine, Policy, Revision};
use vmpool_runtime::Env;
use vmpool_runtime::env::Elapsed;

use super::store::{Key, Table};
use super::types::{TypeKey, Types};
use crate::events::{Events, Subject};
use crate::metrics::Metrics;
use crate::passes::FirstLists;
use crate::queue::Queue;
use crate::rejection;
use crate::write::Writer;

/// The pause after the first failure. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// The longest pause between two checks whether an object that is being deleted is still needed.
const LONGEST_CHECK: Duration = Duration::from_secs(30);
/// The delay of such a check after a change of a machine or a pool, so that many changes cause one check.
const CHECK_DELAY: Duration = Duration::from_secs(1);

/// What a leader of copies uses.
pub(super) struct Context {
    pub(super) env: Env,
    pub(super) client: Client,
    pub(super) writer: Writer,
    pub(super) events: Events,
    /// Deadline of a request.
    pub(super) deadline: Duration,
    pub(super) metrics: Arc<Metrics>,
    /// What happens to machines that name an instance type or a preference; `None` if another controller makes their copies.
    pub(super) policy: Option<Policy>,
    /// The only namespace that is watched; `None` for all.
    pub(super) namespace: Option<String>,
    pub(super) queue: Queue<Key>,
    /// The objects of the four kinds that need a pass.
    pub(super) type_queue: Queue<TypeKey>,
    pub(super) types: Types,
    /// The objects that are still needed, with the number of checks and the last message.
    pub(super) blocked_types: Mutex<HashMap<TypeKey, (u32, String)>>,
    pub(super) machines: Arc<Table<Machine>>,
    pub(super) revisions: Arc<Table<Revision>>,
    /// The machines that cannot get their copies, with the number of failures.
    blocked: Mutex<HashMap<Key, u32>>,
    lists: FirstLists,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadFailed {
    #[error("reading an object")]
    Get(#[from] kube::Error),
    #[error(transparent)]
    TooLate(#[from] Elapsed),
}

impl Context {
    pub(super) fn new(
        (env, client, writer, events, metrics): (Env, Client, Writer, Events, Arc<Metrics>),
        deadline: Duration,
        (namespace, policy): (Option<&str>, Option<Policy>),
        (queue, type_queue): (Queue<Key>, Queue<TypeKey>),
        lists: usize,
    ) -> Self {
        Self {
            env,
            client,
            writer,
            events,
            deadline,
            metrics,
            policy,
            namespace: namespace.map(str::to_owned),
            queue,
            type_queue,
            types: Types::default(),
            blocked_types: Mutex::default(),
            machines: Arc::default(),
            revisions: Arc::default(),
            blocked: Mutex::default(),
            lists: FirstLists::new(lists),
        }
    }

    /// A first list is complete. After the last one, all machines get a pass.
    pub(super) fn list_ended(&self) {
        if self.lists.ended() {
            for key in self.machines.keys() {
                self.queue.wake(&key);
            }
        }
    }

    /// Whether all first lists are complete.
    pub(super) fn is_synced(&self) -> bool {
        self.lists.are_complete()
    }

    /// Wakes a machine.
    pub(super) fn wake(&self, key: &Key) {
        if self.is_synced() {
            self.queue.wake(key);
        }
    }

    /// Wakes the objects that are being deleted and still needed, because a machine, a pool or a copy changed.
    pub(super) fn wake_blocked_types(&self) {
        let blocked: Vec<TypeKey> = self.blocked_types.lock().keys().cloned().collect();
        for key in &blocked {
            self.type_queue.wake_after(key, CHECK_DELAY);
        }
    }

    /// Records why an object is still needed. Returns the pause until the next check, and whether the message is new.
    pub(super) fn note_type(&self, key: &TypeKey, message: &str) -> (Duration, bool) {
        let mut blocked = self.blocked_types.lock();
        let (checks, known) = blocked.entry(key.clone()).or_default();
        let pause = next_pause(checks, LONGEST_CHECK);
        let is_new = known != message;
        message.clone_into(known);
        (pause, is_new)
    }

    /// Wakes the machines that cannot get their copies, because an object appeared or changed.
    pub(super) fn wake_blocked(&self) {
        let blocked: Vec<Key> = self.blocked.lock().keys().cloned().collect();
        for key in &blocked {
            self.wake(key);
        }
    }

    /// Records whether a machine can get its copies. Returns the pause until the next attempt.
    pub(super) fn note(&self, key: &Key, is_blocked: bool) -> Option<Duration> {
        let mut blocked = self.blocked.lock();
        if !is_blocked {
            blocked.remove(key);
            return None;
        }
        Some(next_pause(blocked.entry(key.clone()).or_default(), LONGEST_PAUSE))
    }

    /// The object at this place: a known copy, or what the API server returns.
    pub(super) async fn read(
        &self,
        namespace: &str,
        reference: &Reference,
    ) -> Result<Option<Value>, ReadFailed> {
        if reference.collection == crate::object::collection::<Revision>(namespace)
            && let Some(known) = self.revisions.get(&(namespace.to_owned(), reference.name.clone()))
        {
            return Ok(Some(known.document()));
        }
        self.read_live(reference).await
    }

    /// What the API server returns for this place.
    pub(super) async fn read_live(&self, reference: &Reference) -> Result<Option<Value>, ReadFailed> {
        let read = rejection::get(&self.client, reference.collection.clone(), &reference.name);
        Ok(self.env.timeout(self.deadline, read).await??)
    }

    /// A machine as the subject of events.
    pub(super) fn subject(machine: &Machine) -> Subject {
        use kube::Resource;
        let metadata = machine.meta();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Subject {
            api_version: Machine::api_version(&()).into_owned(),
            kind: Machine::kind(&()).into_owned(),
            namespace: text(&metadata.namespace).as_str().into(),
            id: ObjectId::new(&text(&metadata.name), &text(&metadata.uid)),
        }
    }
}

/// The pause after this number of attempts, which it increments.
fn next_pause(attempts: &mut u32, longest: Duration) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(*attempts)).min(longest);
    *attempts = attempts.saturating_add(1);
    pause
}

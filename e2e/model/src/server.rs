//! The server: who decides what becomes of a request, and what tests do behind its back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;

use crate::answer::Refusal;
use crate::call::{Call, Verb};
use crate::delete::{self, Deleted};
use crate::resource::Resource;
use crate::store::{Change, Key, Store};
use crate::watch::{Pages, Watch};
use crate::write::{self, Wanted};
use crate::{garbage, scale};

pub use crate::watch::{Break, Pace};

/// Often enough for a patch to be tried again when the object changed under it, as the real server does.
const ATTEMPTS: usize = 5;

/// Decides what becomes of each request, in the order in which they arrive.
pub trait Referee: Send {
    /// What becomes of `call`.
    fn judge(&mut self, call: &Call) -> Conduct;
}

/// What becomes of one request.
#[derive(Debug, Default)]
pub struct Conduct {
    /// How long it is under way.
    pub before: Duration,
    /// What the server makes of it.
    pub fate: Fate,
    /// How long the answer is under way.
    pub after: Duration,
}

/// What the server makes of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fate {
    /// It is served.
    #[default]
    Serve,
    /// It is refused, without an effect.
    Refuse(Refusal),
    /// It is served, and this is what its sender hears instead of the answer.
    ServeAndAnswer(Refusal),
    /// It is served, and the connection breaks before the answer arrives.
    AnswerLost,
    /// The connection breaks before it arrives.
    Unreachable,
    /// It is served, and the answer never comes.
    ServeAndHang,
    /// It never arrives, and nobody is told.
    Hang,
}

/// Says whether an object may be stored.
pub trait Admission: Send + Sync {
    /// Whether it may. Reads of its own go through a client, as those of a webhook do.
    fn admit(&self, review: Review) -> BoxFuture<'static, Result<(), Refusal>>;
}

/// What admission is asked about.
#[derive(Clone, Debug)]
pub struct Review {
    /// The request.
    pub call: Call,
    /// The object before it; null for a create.
    pub old: Value,
    /// The object that would be stored, or the one that would be deleted as null.
    pub new: Value,
}

/// An API server in memory. Clones are the same server.
#[derive(Clone)]
pub struct Server {
    pub(crate) env: Env,
    pub(crate) resources: Arc<BTreeMap<String, Resource>>,
    pub(crate) state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) pages: Pages,
    pub(crate) watches: Vec<Watch>,
    pub(crate) opened: u64,
    pub(crate) paces: BTreeMap<(String, String), Pace>,
    pub(crate) referee: Option<Box<dyn Referee>>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    /// Requests that have not ended.
    pub(crate) under_way: Vec<Task>,
    pub(crate) log: Vec<Served>,
}

/// A request that the server has dealt with, whether or not anybody heard the answer.
#[derive(Clone, Debug)]
pub struct Served {
    /// When.
    pub at: Timestamp,
    /// The request.
    pub call: Call,
    /// The HTTP code of the answer.
    pub code: u16,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server with these resources and no object.
    pub fn new(env: &Env, resources: impl IntoIterator<Item = Resource>) -> Self {
        let resources = resources.into_iter().map(|resource| (resource.full_name(), resource)).collect();
        Self { env: env.clone(), resources: Arc::new(resources), state: Arc::default() }
    }

    /// Asks `referee` about every request from now on.
    pub fn set_referee(&self, referee: impl Referee + 'static) {
        self.state.lock().referee = Some(Box::new(referee));
    }

    /// Serves every request at once from now on.
    pub fn dismiss_referee(&self) {
        self.state.lock().referee = None;
    }

    /// Asks `admission` about everything that is to be stored, scaled or deleted from now on.
    pub fn set_admission(&self, admission: impl Admission + 'static) {
        self.state.lock().admission = Some(Arc::new(admission));
    }

    /// Sets how far the watches of `who` on `resource` (with its group) may follow.
    pub fn set_pace(&self, who: &str, resource: &str, pace: Pace) {
        let state = &mut *self.state.lock();
        state.paces.insert((who.to_owned(), resource.to_owned()), pace);
        state.publish();
    }

    /// Lets all watches follow again.
    pub fn release(&self) {
        let state = &mut *self.state.lock();
        state.paces.clear();
        state.publish();
    }

    /// Ends the watches of `who` on `resource`; of all if that is empty.
    pub fn break_watches(&self, who: &str, resource: &str, how: Break) {
        let state = &mut *self.state.lock();
        let concerned =
            |watch: &Watch| watch.who == who && (resource.is_empty() || watch.resource == resource);
        let (ended, kept) = std::mem::take(&mut state.watches).into_iter().partition(concerned);
        state.watches = kept;
        let ended: Vec<Watch> = ended;
        for watch in ended {
            watch.end(how);
        }
    }

    /// Tells the watches of `who` on `resource` of several changes of an object as one.
    pub fn coalesce(&self, who: &str, resource: &str) {
        let State { store, watches, .. } = &mut *self.state.lock();
        let concerned = watches.iter_mut().filter(|watch| watch.who == who && watch.resource == resource);
        concerned.for_each(|watch| watch.coalesce(store.history()));
    }

    /// Sends every watch that asked for bookmarks one.
    pub fn bookmark(&self) {
        let State { store, watches, .. } = &mut *self.state.lock();
        for watch in watches {
            watch.bookmark(store.history());
        }
    }

    /// Forgets the history: watches that want to go on from earlier have to list, and lists in progress to begin again.
    pub fn compact(&self) {
        let state = &mut *self.state.lock();
        state.store.compact();
        state.pages.expire();
    }

    /// Does one thing that the garbage collector would do now, the `choice`-th of those that there are; says to which
    /// object, or `None` if there is nothing to do.
    pub fn collect_garbage(&self, choice: u64) -> Option<Key> {
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let key = garbage::collect(&mut state.store, &self.resources, now, choice);
        state.publish();
        key
    }

    /// Drops every request and watch that has not ended. Those that hang would keep the server for ever.
    pub fn shut_down(&self) {
        let under_way = {
            let state = &mut *self.state.lock();
            state.watches.clear();
            (std::mem::take(&mut state.under_way), state.referee.take(), state.admission.take())
        };
        drop(under_way);
    }

    /// Every change so far, in order.
    pub fn history(&self) -> Vec<Change> {
        self.state.lock().store.history().to_vec()
    }

    /// The changes after the first `seen` ones.
    pub fn changes_since(&self, seen: usize) -> Vec<Change> {
        self.state.lock().store.history().get(seen..).map(<[Change]>::to_vec).unwrap_or_default()
    }

    /// The requests that came from clients and were dealt with, after the first `seen` ones.
    pub fn served_since(&self, seen: usize) -> Vec<Served> {
        self.state.lock().log.get(seen..).map(<[Served]>::to_vec).unwrap_or_default()
    }

    /// All objects of a resource (with its group), in the order of their names.
    pub fn all(&self, resource: &str) -> Vec<Arc<Value>> {
        self.state.lock().store.of(resource, "").map(|(_, object)| object.clone()).collect()
    }

    /// One object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = Key { resource: resource.into(), namespace: namespace.into(), name: name.into() };
        self.state.lock().store.get(&key).cloned()
    }

    /// Changes an object behind everybody's back, as its owner or platform would: nothing is checked, but what a write
    /// counts is counted. Says whether there is such an object.
    pub fn edit(&self, resource: &str, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) -> bool {
        let Some(known) = self.resources.get(resource) else { return false };
        let state = &mut *self.state.lock();
        let key = write::key(known, namespace, name);
        let Some(old) = state.store.get(&key).cloned() else { return false };
        let mut new = (*old).clone();
        change(&mut new);
        if known.generations && new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        write::commit(&mut state.store, Wanted { key, old: Some(old), new });
        state.publish();
        true
    }

    /// Serves a request that nobody delays or refuses.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn handle(&self, call: &Call) -> Result<(u16, Value), Refusal> {
        let resource = self.resource(call)?;
        match call.verb {
            Verb::List => {
                let State { store, pages, .. } = &mut *self.state.lock();
                pages.list(store, resource, call).map(|list| (200, list))
            }
            Verb::Get => {
                let key = write::key(resource, &call.namespace, &call.name);
                let object = self.state.lock().store.get(&key).cloned();
                let object = object.ok_or_else(|| Refusal::not_found(&key.to_string()))?;
                match call.subresource.as_str() {
                    "scale" => scale::of(resource, &object).map(|scale| (200, scale)),
                    _ => Ok((200, (*object).clone())),
                }
            }
            Verb::Create | Verb::Update | Verb::Patch(_) => self.write(resource, call).await,
            Verb::Delete => self.delete(resource, call).await,
            Verb::Watch => Err(Refusal::bad_request("a watch is no single answer")),
        }
    }

    async fn write(&self, resource: &Resource, call: &Call) -> Result<(u16, Value), Refusal> {
        let random = self.env.random();
        let scaling = call.subresource == "scale";
        for _ in 0..ATTEMPTS {
            let now = self.env.now();
            let (wanted, review) = {
                let store = &mut self.state.lock().store;
                if scaling {
                    let key = write::key(resource, &call.namespace, &call.name);
                    let object =
                        store.get(&key).cloned().ok_or_else(|| Refusal::not_found(&key.to_string()))?;
                    let (update, old, new) = scale::update(resource, &object, call)?;
                    (write::change(store, resource, &update)?, Review { call: call.clone(), old, new })
                } else {
                    let wanted = match call.verb {
                        Verb::Create => write::create(store, resource, call, now, random)?,
                        _ => write::change(store, resource, call)?,
                    };
                    let old = wanted.old.as_deref().cloned().unwrap_or_default();
                    let review = Review { call: call.clone(), old, new: wanted.new.clone() };
                    (wanted, review)
                }
            };
            self.admit(review).await?;
            let state = &mut *self.state.lock();
            // It may have changed while admission thought.
            let unchanged = match (&wanted.old, state.store.get(&wanted.key)) {
                (Some(old), Some(now)) => Arc::ptr_eq(old, now),
                (None, None) => true,
                _ => false,
            };
            if !unchanged {
                continue;
            }
            let created = wanted.old.is_none();
            let stored =
                if call.is_dry() { Arc::new(wanted.new) } else { write::commit(&mut state.store, wanted) };
            state.publish();
            let answer = if scaling { scale::of(resource, &stored)? } else { (*stored).clone() };
            return Ok((if created { 201 } else { 200 }, answer));
        }
        Err(Refusal::conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        ))
    }

    async fn delete(&self, resource: &Resource, call: &Call) -> Result<(u16, Value), Refusal> {
        let (_, old) = delete::find(&self.state.lock().store, resource, call)?;
        self.admit(Review { call: call.clone(), old: (*old).clone(), new: Value::Null }).await?;
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let (key, object) = delete::find(&state.store, resource, call)?;
        if call.is_dry() {
            return Ok((200, (*object).clone()));
        }
        let deleted = delete::delete(&mut state.store, resource, &key, &call.body["propagationPolicy"], now);
        state.publish();
        match deleted {
            Some(Deleted::Going(object)) => Ok((200, (*object).clone())),
            Some(Deleted::Gone(object)) => {
                let details = json!({ "name": &*key.name, "group": resource.group, "kind": resource.plural,
                    "uid": object["metadata"]["uid"] });
                let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": details });
                Ok((200, status))
            }
            None => Err(Refusal::not_found(&key.to_string())),
        }
    }

    async fn admit(&self, review: Review) -> Result<(), Refusal> {
        let admission = self.state.lock().admission.clone();
        match admission {
            Some(admission) if review.call.subresource != "status" => admission.admit(review).await,
            _ => Ok(()),
        }
    }

    pub(crate) fn resource(&self, call: &Call) -> Result<&Resource, Refusal> {
        let name = if call.group.is_empty() {
            call.resource.clone()
        } else {
            format!("{}.{}", call.resource, call.group)
        };
        let known = self.resources.get(&name).filter(|known| known.version == call.version);
        let known =
            known.ok_or_else(|| Refusal::not_found("the server could not find the requested resource"))?;
        let served = match call.subresource.as_str() {
            "" => true,
            "status" => known.status,
            "scale" => known.scale.is_some() && call.verb != Verb::Delete,
            _ => false,
        };
        if served {
            Ok(known)
        } else {
            Err(Refusal::not_found("the server could not find the requested resource"))
        }
    }

    pub(crate) fn judge(&self, call: &Call) -> Conduct {
        self.state.lock().referee.as_mut().map_or_else(Conduct::default, |referee| referee.judge(call))
    }

    /// The time, as objects have it.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

impl State {
    /// Tells the watches what changed.
    pub(crate) fn publish(&mut self) {
        let Self { store, watches, paces, .. } = self;
        watches.retain_mut(|watch| {
            let pace = paces.get(&(watch.who.clone(), watch.resource.clone())).copied().unwrap_or_default();
            watch.follow(store.history(), pace)
        });
    }
}

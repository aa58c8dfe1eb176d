//! Test controls: change the server's behavior, and read its state and history.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::call::Call;
use crate::fault::{Admission, FaultInjector, HandledRequest};
use crate::garbage_collector;
use crate::server::{ApiServerModel, ApiServerModelState};
use crate::store::{ApiObjectKey, ObjectChange};
use crate::watch::{Watch, WatchDelay, WatchEnd};

impl ApiServerModel {
    /// Calls `fault_injector` for every request from now on.
    pub fn set_fault_injector(&self, fault_injector: impl FaultInjector + 'static) {
        self.state.lock().fault_injector = Some(Arc::new(Mutex::new(fault_injector)));
    }

    /// Serves every request without a fault injector from now on.
    pub fn remove_fault_injector(&self) {
        self.state.lock().fault_injector = None;
    }

    /// Calls `admission` before every create, update, scale and delete from now on.
    pub fn set_admission(&self, admission: impl Admission + 'static) {
        self.state.lock().admission = Some(Arc::new(admission));
    }

    /// Changes every object that is created from now on before admission; `None` ends that.
    pub fn set_mutation(&self, mutation: Option<impl Fn(&Call, &mut Value) + Send + Sync + 'static>) {
        self.state.lock().mutation = mutation.map(|mutation| Arc::new(mutation) as _);
    }

    /// Sets the delay of the watches of `sender` on `resource` (with its group).
    pub fn delay_watches(&self, sender: &str, resource: &str, delay: WatchDelay) {
        let state = &mut *self.state.lock();
        state.delays.insert((sender.to_owned(), resource.to_owned()), delay);
        state.publish();
    }

    /// Removes the delays of all watches.
    pub fn release(&self) {
        let state = &mut *self.state.lock();
        state.delays.clear();
        state.publish();
    }

    /// The number of open watches of `sender` on `resource`.
    #[must_use]
    pub fn watches(&self, sender: &str, resource: &str) -> usize {
        let concerned =
            |watch: &&Watch| watch.sender() == sender && watch.resource() == resource && !watch.is_closed();
        self.state.lock().watches.iter().filter(concerned).count()
    }

    /// Ends the watches of `sender` on `resource`, or all its watches if `resource` is empty.
    pub fn end_watches(&self, sender: &str, resource: &str, how: WatchEnd) {
        let state = &mut *self.state.lock();
        let concerned =
            |watch: &Watch| watch.sender() == sender && (resource.is_empty() || watch.resource() == resource);
        let (ended, kept) = std::mem::take(&mut state.watches).into_iter().partition(concerned);
        state.watches = kept;
        let ended: Vec<Watch> = ended;
        for watch in ended {
            watch.end(how);
        }
    }

    /// Delivers several pending changes of an object as one event to the watches of `sender` on `resource`.
    pub fn coalesce(&self, sender: &str, resource: &str) {
        let ApiServerModelState { store, watches, .. } = &mut *self.state.lock();
        let concerned =
            watches.iter_mut().filter(|watch| watch.sender() == sender && watch.resource() == resource);
        concerned.for_each(|watch| watch.coalesce(store.history()));
    }

    /// Repeats the last event to the watches of `sender` on `resource`.
    pub fn repeat(&self, sender: &str, resource: &str) {
        let ApiServerModelState { store, watches, .. } = &*self.state.lock();
        let concerned =
            watches.iter().filter(|watch| watch.sender() == sender && watch.resource() == resource);
        concerned.for_each(|watch| watch.repeat(store.history()));
    }

    /// Limits pages of lists to `most` objects, regardless of the requested limit.
    pub fn limit_pages(&self, most: usize) {
        self.state.lock().pages.most = Some(most);
    }

    /// Lists with `resourceVersion=0` are `behind` changes behind from now on.
    pub fn set_list_staleness(&self, behind: usize) {
        self.state.lock().pages.behind = behind;
    }

    /// Sends a bookmark to every watch that requested bookmarks.
    pub fn bookmark(&self) {
        let ApiServerModelState { store, watches, .. } = &mut *self.state.lock();
        for watch in watches {
            watch.bookmark(store.history());
        }
    }

    /// Drops the history: watches cannot resume from earlier versions, and lists in progress must start
    /// again.
    pub fn compact(&self) {
        let state = &mut *self.state.lock();
        state.store.compact();
        state.pages.expire();
    }

    /// Performs one of the currently possible actions of the garbage collector, selected by `choice`. Returns
    /// the object, or `None` if there is nothing to collect.
    pub fn collect_garbage(&self, choice: u64) -> Option<ApiObjectKey> {
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let key =
            garbage_collector::run_garbage_collection_step(&mut state.store, &self.resources, now, choice);
        state.publish();
        key
    }

    /// Drops all open requests and watches. Otherwise hanging requests would keep the server in memory.
    pub fn shut_down(&self) {
        let in_flight = {
            let state = &mut *self.state.lock();
            state.watches.clear();
            (std::mem::take(&mut state.in_flight), state.fault_injector.take(), state.admission.take())
        };
        drop(in_flight);
    }

    /// The maximum number of concurrent requests so far. A watch counts until it is open.
    pub fn max_in_flight(&self) -> usize {
        self.state.lock().max_in_flight
    }

    /// Every change so far, in order.
    pub fn history(&self) -> Vec<ObjectChange> {
        self.state.lock().store.history().to_vec()
    }

    /// All changes after the first `seen` ones.
    pub fn changes_since(&self, seen: usize) -> Vec<ObjectChange> {
        self.state.lock().store.history().get(seen..).map(<[ObjectChange]>::to_vec).unwrap_or_default()
    }

    /// The handled requests of clients, after the first `seen` ones.
    pub fn handled_since(&self, seen: usize) -> Vec<HandledRequest> {
        self.state.lock().log.get(seen..).map(<[HandledRequest]>::to_vec).unwrap_or_default()
    }

    /// All objects of a resource (with its group), ordered by name.
    pub fn all(&self, resource: &str) -> Vec<Arc<Value>> {
        self.state.lock().store.of(resource, "").map(|(_, object)| object.clone()).collect()
    }

    /// One object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = ApiObjectKey { resource: resource.into(), namespace: namespace.into(), name: name.into() };
        self.state.lock().store.get(&key).cloned()
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

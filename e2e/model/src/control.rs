//! Test controls: change the server's behavior, and read its state and history.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use crate::conduct::{Admission, Referee, Served};
use crate::garbage;
use crate::server::{Server, State};
use crate::store::{Change, Key};
use crate::watch::{Break, Pace, Watch};

impl Server {
    /// Calls `referee` for every request from now on.
    pub fn set_referee(&self, referee: impl Referee + 'static) {
        self.state.lock().referee = Some(Arc::new(Mutex::new(referee)));
    }

    /// Serves every request without a referee from now on.
    pub fn dismiss_referee(&self) {
        self.state.lock().referee = None;
    }

    /// Calls `admission` before every create, update, scale and delete from now on.
    pub fn set_admission(&self, admission: impl Admission + 'static) {
        self.state.lock().admission = Some(Arc::new(admission));
    }

    /// Sets the delay of the watches of `who` on `resource` (with its group).
    pub fn set_pace(&self, who: &str, resource: &str, pace: Pace) {
        let state = &mut *self.state.lock();
        state.paces.insert((who.to_owned(), resource.to_owned()), pace);
        state.publish();
    }

    /// Removes the delays of all watches.
    pub fn release(&self) {
        let state = &mut *self.state.lock();
        state.paces.clear();
        state.publish();
    }

    /// Ends the watches of `who` on `resource`, or all its watches if `resource` is empty.
    pub fn break_watches(&self, who: &str, resource: &str, how: Break) {
        let state = &mut *self.state.lock();
        let concerned =
            |watch: &Watch| watch.who() == who && (resource.is_empty() || watch.resource() == resource);
        let (ended, kept) = std::mem::take(&mut state.watches).into_iter().partition(concerned);
        state.watches = kept;
        let ended: Vec<Watch> = ended;
        for watch in ended {
            watch.end(how);
        }
    }

    /// Delivers several pending changes of an object as one event to the watches of `who` on `resource`.
    pub fn coalesce(&self, who: &str, resource: &str) {
        let State { store, watches, .. } = &mut *self.state.lock();
        let concerned = watches.iter_mut().filter(|watch| watch.who() == who && watch.resource() == resource);
        concerned.for_each(|watch| watch.coalesce(store.history()));
    }

    /// Repeats the last event to the watches of `who` on `resource`.
    pub fn repeat(&self, who: &str, resource: &str) {
        let State { store, watches, .. } = &*self.state.lock();
        let concerned = watches.iter().filter(|watch| watch.who() == who && watch.resource() == resource);
        concerned.for_each(|watch| watch.repeat(store.history()));
    }

    /// Limits pages of lists to `most` objects, regardless of the requested limit.
    pub fn limit_pages(&self, most: usize) {
        self.state.lock().pages.most = Some(most);
    }

    /// Lists with `resourceVersion=0` are `behind` changes behind from now on.
    pub fn age_lists(&self, behind: usize) {
        self.state.lock().pages.behind = behind;
    }

    /// Sends a bookmark to every watch that requested bookmarks.
    pub fn bookmark(&self) {
        let State { store, watches, .. } = &mut *self.state.lock();
        for watch in watches {
            watch.bookmark(store.history());
        }
    }

    /// Drops the history: watches cannot resume from earlier versions, and lists in progress must start again.
    pub fn compact(&self) {
        let state = &mut *self.state.lock();
        state.store.compact();
        state.pages.expire();
    }

    /// Performs one of the currently possible actions of the garbage collector, selected by `choice`. Returns the
    /// object, or `None` if there is nothing to collect.
    pub fn collect_garbage(&self, choice: u64) -> Option<Key> {
        let now = self.env.now();
        let state = &mut *self.state.lock();
        let key = garbage::collect(&mut state.store, &self.resources, now, choice);
        state.publish();
        key
    }

    /// Drops all open requests and watches. Otherwise hanging requests would keep the server in memory.
    pub fn shut_down(&self) {
        let under_way = {
            let state = &mut *self.state.lock();
            state.watches.clear();
            (std::mem::take(&mut state.under_way), state.referee.take(), state.admission.take())
        };
        drop(under_way);
    }

    /// The maximum number of concurrent requests so far. A watch counts until it is open.
    pub fn most_under_way(&self) -> usize {
        self.state.lock().most_under_way
    }

    /// Every change so far, in order.
    pub fn history(&self) -> Vec<Change> {
        self.state.lock().store.history().to_vec()
    }

    /// All changes after the first `seen` ones.
    pub fn changes_since(&self, seen: usize) -> Vec<Change> {
        self.state.lock().store.history().get(seen..).map(<[Change]>::to_vec).unwrap_or_default()
    }

    /// The handled requests of clients, after the first `seen` ones.
    pub fn served_since(&self, seen: usize) -> Vec<Served> {
        self.state.lock().log.get(seen..).map(<[Served]>::to_vec).unwrap_or_default()
    }

    /// All objects of a resource (with its group), ordered by name.
    pub fn all(&self, resource: &str) -> Vec<Arc<Value>> {
        self.state.lock().store.of(resource, "").map(|(_, object)| object.clone()).collect()
    }

    /// One object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = Key { resource: resource.into(), namespace: namespace.into(), name: name.into() };
        self.state.lock().store.get(&key).cloned()
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

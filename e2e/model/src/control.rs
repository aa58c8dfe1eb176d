//! What tests do to a server behind the backs of its clients, and what they see of it.

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
    /// Asks `referee` about every request from now on.
    pub fn set_referee(&self, referee: impl Referee + 'static) {
        self.state.lock().referee = Some(Arc::new(Mutex::new(referee)));
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
            |watch: &Watch| watch.who() == who && (resource.is_empty() || watch.resource() == resource);
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
        let concerned = watches.iter_mut().filter(|watch| watch.who() == who && watch.resource() == resource);
        concerned.for_each(|watch| watch.coalesce(store.history()));
    }

    /// Tells the watches of `who` on `resource` once more what they heard last.
    pub fn repeat(&self, who: &str, resource: &str) {
        let State { store, watches, .. } = &*self.state.lock();
        let concerned = watches.iter().filter(|watch| watch.who() == who && watch.resource() == resource);
        concerned.for_each(|watch| watch.repeat(store.history()));
    }

    /// Lists come in pages of at most so many objects from now on, whatever is asked for.
    pub fn limit_pages(&self, most: usize) {
        self.state.lock().pages.most = Some(most);
    }

    /// Lists that may be of any time are `behind` changes old from now on.
    pub fn age_lists(&self, behind: usize) {
        self.state.lock().pages.behind = behind;
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

    /// The most requests that were under way at a time. A watch is one until it is open.
    pub fn most_under_way(&self) -> usize {
        self.state.lock().most_under_way
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

    /// The time, as objects have it.
    pub fn now(&self) -> Timestamp {
        self.env.now()
    }
}

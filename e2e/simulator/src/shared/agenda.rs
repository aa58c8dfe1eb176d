//! The objects to process, now and later.

use jiff::Timestamp;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
    hash::Hash,
};

/// A queue of objects without duplicates, and at most one timer per object.
#[derive(Debug)]
pub(crate) struct Agenda<Id> {
    dirty: VecDeque<Id>,
    queued: HashSet<Id>,
    timers: BinaryHeap<Reverse<(Timestamp, Id)>>,
    /// The valid timer per object; others in the heap are stale.
    earliest: HashMap<Id, Timestamp>,
}

impl<Id: Ord> Default for Agenda<Id> {
    fn default() -> Self {
        Self {
            dirty: VecDeque::new(),
            queued: HashSet::new(),
            timers: BinaryHeap::new(),
            earliest: HashMap::new(),
        }
    }
}

impl<Id: Clone + Ord + Hash> Agenda<Id> {
    /// Enqueues the object for this step.
    pub(crate) fn mark(&mut self, id: Id) {
        if self.queued.insert(id.clone()) {
            self.dirty.push_back(id);
        }
    }

    /// Sets the object's timer to this time, if it is not set to an earlier one.
    pub(crate) fn wake(&mut self, id: Id, at: Timestamp) {
        if self.earliest.get(&id).is_some_and(|earlier| *earlier <= at) {
            return;
        }
        self.earliest.insert(id.clone(), at);
        self.timers.push(Reverse((at, id)));
    }

    /// The next object to process.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<Id> {
        while self.timers.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Reverse((at, id)) = self.timers.pop()?;
            if self.earliest.get(&id) == Some(&at) {
                self.earliest.remove(&id);
                self.mark(id);
            }
        }
        let id = self.dirty.pop_front()?;
        self.queued.remove(&id);
        Some(id)
    }

    /// When [`Self::next`] returns an object again.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        if self.dirty.is_empty() {
            self.timers.peek().map(|Reverse((at, _))| *at)
        } else {
            Some(Timestamp::MIN)
        }
    }
}

//! The history of the objects in one namespace.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::object::{JsonObject, TestedKind};

/// One write to one object, as observed by a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedChange {
    /// The store's revision of the write. All kinds share one counter, so it orders changes across kinds.
    pub revision: u64,
    /// When the harness observed it.
    pub at: Timestamp,
    /// The object's kind.
    pub kind: TestedKind,
    /// The object after the write; for a removal, its last state.
    pub object: JsonObject,
    /// Whether the write removed the object from the store.
    pub removed: bool,
}

/// The history of a namespace, and its current state.
#[derive(Debug, Clone, Default)]
pub struct RecordedHistory {
    /// In the order of observation.
    changes: Vec<RecordedChange>,
    state: RecordedState,
}

impl RecordedHistory {
    /// Adds a change. Changes of one kind must be added in the order of the store; different kinds may
    /// interleave.
    pub fn push(&mut self, change: RecordedChange) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    /// All changes in the order of observation. New changes are appended, so a reader can remember the
    /// length.
    pub fn changes(&self) -> &[RecordedChange] {
        &self.changes
    }

    /// The current state, as far as the watches have shown it.
    pub fn state(&self) -> &RecordedState {
        &self.state
    }

    /// Drops all changes except the last one of each existing object.
    ///
    /// For long runs, after the history was checked and no request is open.
    pub fn forget(&mut self) {
        let mut kept = BTreeSet::new();
        let state = &self.state;
        let mut last = |change: &RecordedChange| {
            !change.removed
                && state.get(change.kind, change.object.uid()).is_some()
                && kept.insert(change.object.uid().to_owned())
        };
        let mut changes: Vec<RecordedChange> =
            self.changes.drain(..).rev().filter(|change| last(change)).collect();
        changes.reverse();
        self.changes = changes;
    }

    /// Whether an object with this UID was removed from the store.
    pub fn was_removed(&self, uid: &str) -> bool {
        self.changes.iter().rev().any(|change| change.removed && change.object.uid() == uid)
    }

    /// Visits each change in the order of the store, with the state before it.
    pub fn replay(&self, mut visit: impl FnMut(&RecordedState, &RecordedChange)) {
        let mut ordered: Vec<&RecordedChange> = self.changes.iter().collect();
        ordered.sort_by_key(|change| change.revision);
        let mut state = RecordedState::default();
        for change in ordered {
            visit(&state, change);
            state.apply(change);
        }
    }
}

/// The stored objects at one moment.
#[derive(Debug, Clone, Default)]
pub struct RecordedState {
    /// Objects by kind and UID.
    objects: BTreeMap<TestedKind, BTreeMap<String, JsonObject>>,
}

impl RecordedState {
    /// Applies a change.
    pub fn apply(&mut self, change: &RecordedChange) {
        let objects = self.objects.entry(change.kind).or_default();
        if change.removed {
            objects.remove(change.object.uid());
        } else {
            objects.insert(change.object.uid().to_owned(), change.object.clone());
        }
    }

    /// The objects of a kind, ordered by UID.
    pub fn all(&self, kind: TestedKind) -> impl Iterator<Item = &JsonObject> {
        self.objects.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// The object with this UID.
    pub fn get(&self, kind: TestedKind, uid: &str) -> Option<&JsonObject> {
        self.objects.get(&kind)?.get(uid)
    }

    /// The object with this name.
    pub fn named(&self, kind: TestedKind, name: &str) -> Option<&JsonObject> {
        self.all(kind).find(|object| object.name() == name)
    }

    /// The objects of a kind whose controlling owner is `owner`.
    pub fn owned_by<'a>(&'a self, kind: TestedKind, owner: &'a str) -> impl Iterator<Item = &'a JsonObject> {
        self.all(kind).filter(move |object| object.owner_uid() == owner)
    }

    /// The active machines of a pool, including terminating ones.
    pub fn active_machines<'a>(&'a self, pool_uid: &'a str) -> impl Iterator<Item = &'a JsonObject> {
        self.owned_by(TestedKind::Machine, pool_uid).filter(|machine| !machine.is_standby())
    }

    /// The machines of a pool, including terminating ones, ordered by name.
    pub fn machines_of_pool<'a>(&'a self, pool_uid: &'a str) -> Vec<&'a JsonObject> {
        let mut machines: Vec<_> = self.owned_by(TestedKind::Machine, pool_uid).collect();
        machines.sort_by_key(|machine| machine.name());
        machines
    }
}

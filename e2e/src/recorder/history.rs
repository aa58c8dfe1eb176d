//! What happened to the objects of one namespace, in the order of the store.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::object::{Kind, Object};

/// One write to one object, as a watch showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The store's revision of the write. All kinds share one count, so it orders changes across kinds.
    pub revision: u64,
    /// When the harness heard of it.
    pub at: Timestamp,
    /// Kind of the object.
    pub kind: Kind,
    /// The object after the write; for a removal, its last state.
    pub object: Object,
    /// Whether the write took the object out of the store.
    pub removed: bool,
}

/// The history of a namespace, and its state at the end of it.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In the order in which they were heard of.
    changes: Vec<Change>,
    state: State,
}

impl History {
    /// Adds a change. Changes of one kind come in the order of the store; across kinds they may come late.
    pub fn push(&mut self, change: Change) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    /// All changes in the order in which they were heard of. A watcher that remembers their number finds the new
    /// ones behind it.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What is stored now, as far as the watches have shown it.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Forgets what is over: of what is stored the last change stays, and all else goes.
    ///
    /// For runs that are too long to keep all of it, at a moment at which it was checked and nothing is under way.
    pub fn forget(&mut self) {
        let mut kept = BTreeSet::new();
        let state = &self.state;
        let mut last = |change: &Change| {
            !change.removed
                && state.get(change.kind, change.object.uid()).is_some()
                && kept.insert(change.object.uid().to_owned())
        };
        let mut changes: Vec<Change> = self.changes.drain(..).rev().filter(|change| last(change)).collect();
        changes.reverse();
        self.changes = changes;
    }

    /// Whether an object of this UID was taken out of the store.
    pub fn was_removed(&self, uid: &str) -> bool {
        self.changes.iter().rev().any(|change| change.removed && change.object.uid() == uid)
    }

    /// Each change in the order of the store, together with the state just before it.
    pub fn replay(&self, mut visit: impl FnMut(&State, &Change)) {
        let mut ordered: Vec<&Change> = self.changes.iter().collect();
        ordered.sort_by_key(|change| change.revision);
        let mut state = State::default();
        for change in ordered {
            visit(&state, change);
            state.apply(change);
        }
    }
}

/// What is stored at one moment.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// By kind and UID.
    objects: BTreeMap<Kind, BTreeMap<String, Object>>,
}

impl State {
    /// Takes in a change.
    pub fn apply(&mut self, change: &Change) {
        let objects = self.objects.entry(change.kind).or_default();
        if change.removed {
            objects.remove(change.object.uid());
        } else {
            objects.insert(change.object.uid().to_owned(), change.object.clone());
        }
    }

    /// The objects of a kind, in the order of their UIDs.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.get(&kind).into_iter().flat_map(BTreeMap::values)
    }

    /// The object of this UID.
    pub fn get(&self, kind: Kind, uid: &str) -> Option<&Object> {
        self.objects.get(&kind)?.get(uid)
    }

    /// The object of this name.
    pub fn named(&self, kind: Kind, name: &str) -> Option<&Object> {
        self.all(kind).find(|object| object.name() == name)
    }

    /// The objects of a kind whose controller owner is `owner`.
    pub fn owned_by<'a>(&'a self, kind: Kind, owner: &'a str) -> impl Iterator<Item = &'a Object> {
        self.all(kind).filter(move |object| object.owner_uid() == owner)
    }

    /// The members of a pool, terminating ones included, in the order of their names.
    pub fn members<'a>(&'a self, pool_uid: &'a str) -> Vec<&'a Object> {
        let mut members: Vec<_> = self.owned_by(Kind::Machine, pool_uid).collect();
        members.sort_by_key(|member| member.name());
        members
    }
}

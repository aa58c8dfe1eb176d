//! What we wrote and the cache does not show yet.
//!
//! Caches lag behind our own writes. The ledger lays the missing writes over a snapshot of the cache, so that a pass
//! neither repeats a write nor has to wait for the cache.
//!
//! ```text
//!  create --201--> Written ---cache shows that UID at that version, or newer--> (left)
//!     \             |   \----watch said deleted / absent after a later relist-> (left)
//!      \            delete accepted
//!       \           v
//!        \        Deleted ---cache shows a deletionTimestamp, or it is gone---> (left)
//!         \
//!          no answer--> Unknown --the same create answered: Written; name seen in the cache--> (left)
//! ```
//!
//! Plain absence from the cache proves nothing: the object may not have been seen *yet*. An entry that grows old is
//! settled by a live read, never by repeating the write blindly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Disk, ObjectId, Replica, Uid};

/// Age at which an entry is settled by a live read: far beyond any healthy watch delay.
pub const SAFETY_AGE: Duration = Duration::from_secs(30);

/// How long a request that got no answer may still be committed: the API server's own request timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Facts of an object that the ledger can hold.
pub trait Fact: Clone {
    /// Name and UID.
    fn id(&self) -> &ObjectId;
    /// Whether it has a deletionTimestamp.
    fn is_terminating(&self) -> bool;
    /// The same facts after an accepted deletion.
    #[must_use]
    fn terminated(&self) -> Self;
}

impl Fact for Replica {
    fn id(&self) -> &ObjectId {
        &self.id
    }
    fn is_terminating(&self) -> bool {
        self.terminating
    }
    fn terminated(&self) -> Self {
        Self { terminating: true, ..self.clone() }
    }
}

impl Fact for Disk {
    fn id(&self) -> &ObjectId {
        &self.id
    }
    fn is_terminating(&self) -> bool {
        self.terminating
    }
    fn terminated(&self) -> Self {
        Self { terminating: true, ..self.clone() }
    }
}

/// An object at one version.
#[derive(Clone, Debug)]
pub struct Seen<T> {
    /// What it is.
    pub facts: Arc<T>,
    /// `metadata.resourceVersion`, which Kubernetes allows to compare as an integer within one resource.
    pub version: u64,
}

/// What a cache can tell about one namespace and resource.
pub trait Cache<T> {
    /// The object of this name.
    fn get(&self, name: &str) -> Option<Seen<T>>;
    /// Whether a watch event said that the object with this UID was deleted, as far as the cache remembers.
    fn saw_deleted(&self, uid: &Uid) -> bool;
    /// Whether the cache holds the result of a list that *began* after this moment.
    fn relisted_since(&self, uptime: Duration) -> bool;
}

#[derive(Clone, Debug)]
enum Entry<T> {
    Unknown { number: u64 },
    Written(Seen<T>),
    Deleted(Arc<T>),
}

/// The writes of one pool on one resource that the cache has not shown yet, by name.
#[derive(Clone, Debug)]
pub struct Ledger<T> {
    entries: BTreeMap<Arc<str>, (Entry<T>, Duration)>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

/// A create whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// The name that was asked for.
    pub name: Arc<str>,
    /// The number behind the name.
    pub number: u64,
    /// Uptime when the last attempt was given up.
    pub since: Duration,
}

impl<T: Fact> Ledger<T> {
    /// Records a create or a patch that the server answered with this object.
    pub fn written(&mut self, seen: Seen<T>, uptime: Duration) {
        self.entries.insert(seen.facts.id().name.clone(), (Entry::Written(seen), uptime));
    }

    /// Records a create that got no answer. It may have been committed, or may still be.
    pub fn unanswered(&mut self, name: &Arc<str>, number: u64, uptime: Duration) {
        self.entries.insert(name.clone(), (Entry::Unknown { number }, uptime));
    }

    /// Records that the server refused to create `name`: there is nothing to wait for.
    pub fn refused(&mut self, name: &str) {
        if let Some((Entry::Unknown { .. }, _)) = self.entries.get(name) {
            self.entries.remove(name);
        }
    }

    /// Records an accepted deletion.
    pub fn deleted(&mut self, facts: &T, uptime: Duration) {
        self.entries.insert(facts.id().name.clone(), (Entry::Deleted(Arc::new(facts.terminated())), uptime));
    }

    /// Forgets the object with this id: a live answer said that it is gone.
    pub fn gone(&mut self, id: &ObjectId) {
        if self.entries.get(&id.name).is_some_and(|(entry, _)| entry.uid() == Some(&id.uid)) {
            self.entries.remove(&id.name);
        }
    }

    /// Drops what the cache shows by now.
    pub fn settle(&mut self, cache: &dyn Cache<T>) {
        self.entries.retain(|name, (entry, at)| {
            let seen = cache.get(name);
            match (entry, seen) {
                (Entry::Unknown { .. }, seen) => seen.is_none(),
                (Entry::Written(written), Some(seen)) => {
                    seen.facts.id().uid == written.facts.id().uid && seen.version < written.version
                }
                (Entry::Deleted(facts), Some(seen)) => {
                    seen.facts.id().uid == facts.id().uid && !seen.facts.is_terminating()
                }
                (Entry::Written(Seen { facts, .. }) | Entry::Deleted(facts), None) => {
                    !cache.saw_deleted(&facts.id().uid) && !cache.relisted_since(*at)
                }
            }
        });
    }

    /// Lays the entries over a snapshot that [`Ledger::settle`] was called for.
    pub fn overlay(&self, snapshot: &mut Vec<Arc<T>>) {
        if self.entries.is_empty() {
            return;
        }
        let mut shown = std::collections::HashSet::new();
        for facts in snapshot.iter_mut() {
            if let Some((Entry::Written(Seen { facts: newer, .. }) | Entry::Deleted(newer), _)) =
                self.entries.get(&facts.id().name)
            {
                shown.insert(newer.id().name.clone());
                *facts = newer.clone();
            }
        }
        snapshot.extend(self.entries.iter().filter(|(name, _)| !shown.contains(*name)).filter_map(
            |(_, (entry, _))| match entry {
                Entry::Unknown { .. } => None,
                Entry::Written(Seen { facts, .. }) | Entry::Deleted(facts) => Some(facts.clone()),
            },
        ));
    }

    /// The newest facts of `name` that an entry holds.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        match self.entries.get(name)? {
            (Entry::Unknown { .. }, _) => None,
            (Entry::Written(Seen { facts, .. }) | Entry::Deleted(facts), _) => Some(facts),
        }
    }

    /// The creates whose answer was lost, in the order of their names.
    pub fn lost_answers(&self) -> Vec<Unanswered> {
        self.entries
            .iter()
            .filter_map(|(name, (entry, since))| match entry {
                Entry::Unknown { number } => {
                    Some(Unanswered { name: name.clone(), number: *number, since: *since })
                }
                _ => None,
            })
            .collect()
    }

    /// Names whose entry must be settled by a live read: answered writes past [`SAFETY_AGE`], and lost answers past
    /// [`REQUEST_TIMEOUT`] that nobody repeated.
    pub fn overdue(&self, uptime: Duration) -> Vec<Arc<str>> {
        self.entries
            .iter()
            .filter(|(_, (entry, at))| {
                let limit = match entry {
                    Entry::Unknown { .. } => REQUEST_TIMEOUT,
                    _ => SAFETY_AGE,
                };
                uptime.saturating_sub(*at) >= limit
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Settles an overdue entry by what a live read found under its name.
    pub fn resolve(&mut self, name: &str, live: Option<Seen<T>>, uptime: Duration) {
        let Some((entry, at)) = self.entries.get_mut(name) else { return };
        match (&entry, live) {
            // The same object, and the cache still lags: keep its newest state, and look again later.
            (Entry::Written(_) | Entry::Unknown { .. }, Some(seen))
                if entry.uid().is_none_or(|uid| *uid == seen.facts.id().uid) =>
            {
                *entry = Entry::Written(seen);
                *at = uptime;
            }
            (Entry::Deleted(facts), Some(seen)) if facts.id().uid == seen.facts.id().uid => {
                // A deletion that was accepted and did not leave a trace did not happen.
                *entry = if seen.facts.is_terminating() {
                    Entry::Deleted(seen.facts)
                } else {
                    Entry::Written(seen)
                };
                *at = uptime;
            }
            _ => {
                self.entries.remove(name);
            }
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the cache shows all that was written.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The uptime of the oldest entry.
    pub fn oldest(&self) -> Option<Duration> {
        self.entries.values().map(|(_, at)| *at).min()
    }
}

impl<T: Fact> Entry<T> {
    fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Unknown { .. } => None,
            Self::Written(Seen { facts, .. }) | Self::Deleted(facts) => Some(&facts.id().uid),
        }
    }
}

#[cfg(test)]
mod tests;

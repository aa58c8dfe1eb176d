//! What we wrote and the cache does not show yet.
//!
//! Caches lag behind our own writes. The ledger lays the missing writes over a snapshot of the cache, so that a pass
//! neither repeats a write nor has to wait for the cache.
//!
//! ```text
//!  create --201--> Written ---cache shows that name at that version, or newer-> (left)
//!     \             |   \----watch said deleted / absent after a later relist-> (left)
//!      \            delete accepted
//!       \           v
//!        \        Deleted ---cache shows a deletionTimestamp------------------> (left)
//!         \         |   \----watch said deleted / absent after a later relist-> (left)
//!          \        live 404
//!           \       v
//!            \     Gone -----watch said deleted / absent after a later relist-> (left)
//!             \
//!              no answer--> Unknown --the same create answered: Written; name seen in the cache--> (left)
//! ```
//!
//! Plain absence from the cache proves nothing: the object may not have been seen *yet*. For the same reason an
//! object that a live read did not find stays as Gone while the cache still shows it: counted, it would be a surplus
//! that some other machine would have to leave for. An entry that grows old is settled by a live read, never by
//! repeating the write blindly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{Disk, Machine, ObjectId, Uid};

/// Age at which an entry is settled by a live read: far beyond any healthy watch delay.
pub const SAFETY_AGE: Duration = Duration::from_secs(30);

/// How long a request that got no answer may still be committed: the API server's own request timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

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

impl Fact for Machine {
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
    Unknown {
        number: u64,
    },
    Written(Seen<T>),
    /// At the version of the write that the deletion followed; 0 where the cache had shown the object already.
    Deleted(Seen<T>),
    /// The cache may still show it; `shown` says whether it did last time.
    Gone {
        uid: Uid,
        shown: bool,
    },
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
pub struct UnconfirmedCreate {
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
    pub fn create_unconfirmed(&mut self, name: &Arc<str>, number: u64, uptime: Duration) {
        self.entries.insert(name.clone(), (Entry::Unknown { number }, uptime));
    }

    /// Records that an object of somebody else has the name: an earlier create of it cannot have succeeded.
    ///
    /// Not for a create that was refused for another reason, such as a quota: the earlier one may still be committed
    /// once that reason is gone.
    pub fn name_taken(&mut self, name: &str) {
        if let Some((Entry::Unknown { .. }, _)) = self.entries.get(name) {
            self.entries.remove(name);
        }
    }

    /// Records an accepted deletion, or one that got no answer: while it may have been accepted, nobody else leaves
    /// in its place.
    pub fn deleted(&mut self, facts: &T, uptime: Duration) {
        let version = match self.entries.get(&facts.id().name) {
            Some((Entry::Written(seen) | Entry::Deleted(seen), _))
                if seen.facts.id().uid == facts.id().uid =>
            {
                seen.version
            }
            _ => 0,
        };
        let deleted = Entry::Deleted(Seen { facts: Arc::new(facts.terminated()), version });
        self.entries.insert(facts.id().name.clone(), (deleted, uptime));
    }

    /// Records that a live answer did not find an object that has an entry. The entry of another UID stays; without
    /// one nothing is recorded, so a deletion that met a 404 is recorded by [`Ledger::deleted`].
    pub fn gone(&mut self, id: &ObjectId) {
        if let Some((entry, _)) = self.entries.get_mut(&id.name)
            && entry.uid() == Some(&id.uid)
        {
            *entry = Entry::Gone { uid: id.uid.clone(), shown: true };
        }
    }

    /// Drops what the cache shows by now.
    pub fn settle(&mut self, cache: &dyn Cache<T>) {
        self.entries.retain(|name, (entry, at)| {
            let seen = cache.get(name);
            match (entry, seen) {
                (Entry::Unknown { .. }, seen) => seen.is_none(),
                // Another UID at an older version had the name before: the cache is still on its way.
                (Entry::Written(written), Some(seen)) => seen.version < written.version,
                (Entry::Deleted(deleted), Some(seen)) => {
                    if seen.facts.id().uid == deleted.facts.id().uid {
                        !seen.facts.is_terminating()
                    } else {
                        seen.version < deleted.version
                    }
                }
                (Entry::Gone { uid, shown }, Some(seen)) => {
                    *shown = seen.facts.id().uid == *uid;
                    *shown
                }
                (Entry::Written(Seen { facts, .. }) | Entry::Deleted(Seen { facts, .. }), None) => {
                    !cache.saw_deleted(&facts.id().uid) && !cache.relisted_since(*at)
                }
                (Entry::Gone { uid, shown }, None) => {
                    *shown = false;
                    !cache.saw_deleted(uid) && !cache.relisted_since(*at)
                }
            }
        });
    }

    /// Lays the entries over a snapshot that [`Ledger::settle`] was called for.
    pub fn overlay(&self, snapshot: &mut Vec<Arc<T>>) {
        if self.entries.is_empty() {
            return;
        }
        let mut shown = BTreeSet::new();
        snapshot.retain_mut(|facts| match self.entries.get(&facts.id().name) {
            Some((
                Entry::Written(Seen { facts: newer, .. }) | Entry::Deleted(Seen { facts: newer, .. }),
                _,
            )) => {
                shown.insert(newer.id().name.clone());
                *facts = newer.clone();
                true
            }
            Some((Entry::Gone { uid, .. }, _)) => facts.id().uid != *uid,
            Some((Entry::Unknown { .. }, _)) | None => true,
        });
        let missing = self.entries.iter().filter(|(name, _)| !shown.contains(*name));
        snapshot.extend(missing.filter_map(|(_, (entry, _))| entry.facts().cloned()));
    }

    /// The newest facts of `name` that an entry holds.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.entries.get(name)?.0.facts()
    }

    /// The same with the version, where the server answered with it.
    pub fn written_as(&self, name: &str) -> Option<Seen<T>> {
        match &self.entries.get(name)?.0 {
            Entry::Written(Seen { facts, version }) => Some(Seen { facts: facts.clone(), version: *version }),
            Entry::Unknown { .. } | Entry::Deleted(_) | Entry::Gone { .. } => None,
        }
    }

    /// The creates whose answer was lost, in the order of their names.
    pub fn unconfirmed_creates(&self) -> Vec<UnconfirmedCreate> {
        self.entries
            .iter()
            .filter_map(|(name, (entry, since))| match entry {
                Entry::Unknown { number } => {
                    Some(UnconfirmedCreate { name: name.clone(), number: *number, since: *since })
                }
                _ => None,
            })
            .collect()
    }

    /// Time until the first entry is overdue: when to look again although nothing may happen until then.
    pub fn due_in(&self, uptime: Duration) -> Option<Duration> {
        self.entries.values().map(|(entry, at)| (*at + entry.limit()).saturating_sub(uptime)).min()
    }

    /// Names whose entry must be settled by a live read: answered writes past [`SAFETY_AGE`], and lost answers past
    /// [`REQUEST_TIMEOUT`] that nobody repeated.
    pub fn overdue(&self, uptime: Duration) -> Vec<Arc<str>> {
        self.entries
            .iter()
            .filter(|(_, (entry, at))| uptime.saturating_sub(*at) >= entry.limit())
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
            (Entry::Deleted(deleted), Some(seen)) if deleted.facts.id().uid == seen.facts.id().uid => {
                // A deletion that was accepted and did not leave a trace did not happen.
                *entry =
                    if seen.facts.is_terminating() { Entry::Deleted(seen) } else { Entry::Written(seen) };
                *at = uptime;
            }
            // Under the name is nothing, or something else. While the cache shows the old object, hide it.
            (Entry::Written(Seen { facts, .. }) | Entry::Deleted(Seen { facts, .. }), _) => {
                *entry = Entry::Gone { uid: facts.id().uid.clone(), shown: true };
                *at = uptime;
            }
            (Entry::Gone { shown: true, .. }, _) => *at = uptime,
            (Entry::Gone { shown: false, .. } | Entry::Unknown { .. }, _) => {
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
    /// Age at which a live read must settle it.
    fn limit(&self) -> Duration {
        match self {
            Self::Unknown { .. } => REQUEST_TIMEOUT,
            _ => SAFETY_AGE,
        }
    }

    fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Unknown { .. } => None,
            Self::Written(Seen { facts, .. }) | Self::Deleted(Seen { facts, .. }) => Some(&facts.id().uid),
            Self::Gone { uid, .. } => Some(uid),
        }
    }
}

impl<T> Entry<T> {
    /// The newest facts of an object that is known to exist.
    fn facts(&self) -> Option<&Arc<T>> {
        match self {
            Self::Unknown { .. } | Self::Gone { .. } => None,
            Self::Written(Seen { facts, .. }) | Self::Deleted(Seen { facts, .. }) => Some(facts),
        }
    }
}

#[cfg(test)]
mod tests;

//! Pending writes: writes of the controller that its cache does not show yet.
//!
//! The cache shows the controller's own writes with a delay. The ledger overlays the pending writes on a
//! snapshot of the cache. A pass therefore neither repeats a write nor waits for the cache.
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
//!
//!  activation without an answer --> Activating --the same activation answered: Written; the cache shows an
//!                                              active machine, or its deletion--> (left)
//! ```
//!
//! Absence from the cache does not prove that an object is gone: the cache may not show it *yet*. If a live
//! read does not find an object that the cache still shows, the ledger keeps it as Gone. Otherwise the
//! controller would count it and delete another machine as surplus. The controller resolves an old entry with
//! a live read and never by repeating the write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{ObjectId, Uid};
use crate::model::{Disk, Machine};

/// Age at which the controller resolves an entry with a live read. It is much longer than the delay of a
/// working watch.
pub const SAFETY_AGE: Duration = Duration::from_secs(30);

/// How long the API server may still commit an unconfirmed request: its own request timeout.
pub const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Facts of an object that the ledger can hold.
pub trait LedgerFacts: Clone {
    /// Name and UID.
    fn id(&self) -> &ObjectId;
    /// Whether it has a deletionTimestamp.
    fn is_terminating(&self) -> bool;
    /// The same facts after an accepted deletion.
    #[must_use]
    fn terminated(&self) -> Self;
    /// Whether it is a standby machine.
    fn is_standby(&self) -> bool {
        false
    }
    /// These facts with what only earlier facts of the object show; `None` if they show it themselves.
    fn with_history_of(&self, _earlier: &Self) -> Option<Self> {
        None
    }
}

/// `seen` with what only earlier facts of the object show. Every store of facts keeps this when newer facts
/// arrive.
pub fn keep_history<T: LedgerFacts>(seen: VersionedFacts<T>, earlier: &T) -> VersionedFacts<T> {
    match seen.facts.with_history_of(earlier) {
        Some(facts) => VersionedFacts { facts: Arc::new(facts), ..seen },
        None => seen,
    }
}

impl LedgerFacts for Machine {
    fn id(&self) -> &ObjectId {
        &self.id
    }
    fn is_terminating(&self) -> bool {
        self.terminating
    }
    fn terminated(&self) -> Self {
        Self { terminating: true, ..self.clone() }
    }
    fn is_standby(&self) -> bool {
        self.standby.is_some()
    }
    /// That it has been ready. A machine that runs shows that, until the facts after it.
    fn with_history_of(&self, earlier: &Self) -> Option<Self> {
        let was_ready = earlier.id.uid == self.id.uid && (earlier.been_ready || earlier.runs());
        (was_ready && !self.been_ready && !self.runs()).then(|| Self { been_ready: true, ..self.clone() })
    }
}

impl LedgerFacts for Disk {
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
pub struct VersionedFacts<T> {
    /// What it is.
    pub facts: Arc<T>,
    /// `metadata.resourceVersion`, which Kubernetes allows to compare as an integer within one resource.
    pub version: u64,
}

/// What the ledger needs from a cache of one namespace and resource.
pub trait LedgerCache<T> {
    /// The object of this name.
    fn get(&self, name: &str) -> Option<VersionedFacts<T>>;
    /// Whether a watch event reported the deletion of the object with this UID, as far as the cache
    /// remembers.
    fn saw_deleted(&self, uid: &Uid) -> bool;
    /// Whether the cache contains the result of a list that *began* after this uptime.
    fn relisted_since(&self, uptime: Duration) -> bool;
}

#[derive(Clone, Debug)]
enum Entry<T> {
    Unknown {
        number: u64,
        standby: bool,
    },
    /// An unconfirmed activation of this standby machine.
    Activating {
        uid: Uid,
        /// What was written before, until the cache shows it.
        written: Option<VersionedFacts<T>>,
    },
    Written(VersionedFacts<T>),
    /// At the version of the write before the deletion; 0 if the cache had already shown the object.
    Deleted(VersionedFacts<T>),
    /// The cache may still show it. `shown` is whether it did at the last call of [`Ledger::settle`].
    Gone {
        uid: Uid,
        shown: bool,
    },
}

/// The pending writes of one pool on one resource, by object name.
#[derive(Clone, Debug)]
pub struct Ledger<T> {
    entries: BTreeMap<Arc<str>, (Entry<T>, Duration)>,
}

impl<T> Default for Ledger<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new() }
    }
}

/// A create whose response was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedCreate {
    /// The requested name.
    pub name: Arc<str>,
    /// The number behind the name.
    pub number: u64,
    /// Uptime when the last attempt ended without a response.
    pub since: Duration,
    /// Whether it creates a standby machine.
    pub standby: bool,
}

impl<T: LedgerFacts> Ledger<T> {
    /// Records a create or a patch that the API server confirmed with this object.
    pub fn written(&mut self, seen: VersionedFacts<T>, uptime: Duration) {
        let seen = match self.get(&seen.facts.id().name) {
            Some(earlier) => keep_history(seen, &earlier.clone()),
            None => seen,
        };
        self.entries.insert(seen.facts.id().name.clone(), (Entry::Written(seen), uptime));
    }

    /// Records an unconfirmed create. The API server may have committed it, or may still commit it.
    pub fn create_unconfirmed(&mut self, name: &Arc<str>, number: u64, uptime: Duration) {
        self.entries.insert(name.clone(), (Entry::Unknown { number, standby: false }, uptime));
    }

    /// The same for a standby machine.
    pub fn standby_unconfirmed(&mut self, name: &Arc<str>, number: u64, uptime: Duration) {
        self.entries.insert(name.clone(), (Entry::Unknown { number, standby: true }, uptime));
    }

    /// Records an unconfirmed activation of a standby machine. The API server may have committed it, or may
    /// still commit it.
    pub fn activation_unconfirmed(&mut self, machine: &ObjectId, uptime: Duration) {
        let uid = &machine.uid;
        let written = match self.entries.remove(&machine.name) {
            Some((Entry::Written(seen), _)) if seen.facts.id().uid == *uid => Some(seen),
            Some((Entry::Activating { uid: other, written }, _)) if other == *uid => written,
            _ => None,
        };
        let entry = Entry::Activating { uid: uid.clone(), written };
        self.entries.insert(machine.name.clone(), (entry, uptime));
    }

    /// Whether an activation of this machine is unconfirmed.
    pub fn is_activation_unconfirmed(&self, machine: &ObjectId) -> bool {
        matches!(
            self.entries.get(&machine.name),
            Some((Entry::Activating { uid, .. }, _)) if *uid == machine.uid
        )
    }

    /// Records that an object which does not belong to the pool has the name. An earlier create of this name
    /// therefore has not succeeded.
    ///
    /// Do not call this for a create that was rejected for another reason, such as a quota. The API server
    /// may still commit the earlier create when that reason no longer applies.
    ///
    /// Returns whether there was such a create. The object may then be the one that it created, without its
    /// owner.
    pub fn name_taken(&mut self, name: &str) -> bool {
        let was_unconfirmed = matches!(self.entries.get(name), Some((Entry::Unknown { .. }, _)));
        if was_unconfirmed {
            self.entries.remove(name);
        }
        was_unconfirmed
    }

    /// Records a confirmed or unconfirmed deletion. While the machine may be terminating, the controller
    /// deletes no other machine in its place.
    pub fn deleted(&mut self, facts: &T, uptime: Duration) {
        let version = match self.entries.get(&facts.id().name) {
            Some((Entry::Written(seen) | Entry::Deleted(seen), _))
                if seen.facts.id().uid == facts.id().uid =>
            {
                seen.version
            }
            _ => 0,
        };
        let deleted = Entry::Deleted(VersionedFacts { facts: Arc::new(facts.terminated()), version });
        self.entries.insert(facts.id().name.clone(), (deleted, uptime));
    }

    /// Records that a live read did not find an object that has an entry. An entry of another UID stays.
    /// Without an entry, nothing is recorded; record a deletion that got a 404 with [`Ledger::deleted`].
    pub fn gone(&mut self, id: &ObjectId) {
        if let Some((entry, _)) = self.entries.get_mut(&id.name)
            && entry.uid() == Some(&id.uid)
        {
            *entry = Entry::Gone { uid: id.uid.clone(), shown: true };
        }
    }

    /// Removes the entries that the cache shows by now.
    pub fn settle(&mut self, cache: &dyn LedgerCache<T>) {
        self.entries.retain(|name, (entry, at)| {
            let seen = cache.get(name);
            match (entry, seen) {
                (Entry::Unknown { .. }, seen) => seen.is_none(),
                (Entry::Activating { uid, written }, Some(seen)) => {
                    written.take_if(|written| written.version <= seen.version);
                    // An object with another UID at an older version is as behind as for a write.
                    written.is_some() || seen.facts.id().uid == *uid && seen.facts.is_standby()
                }
                (Entry::Activating { uid, .. }, None) => {
                    !cache.saw_deleted(uid) && !cache.relisted_since(*at)
                }
                // An object with another UID had the name at an older version: the cache is still behind.
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
                (
                    Entry::Written(VersionedFacts { facts, .. })
                    | Entry::Deleted(VersionedFacts { facts, .. }),
                    None,
                ) => !cache.saw_deleted(&facts.id().uid) && !cache.relisted_since(*at),
                (Entry::Gone { uid, shown }, None) => {
                    *shown = false;
                    !cache.saw_deleted(uid) && !cache.relisted_since(*at)
                }
            }
        });
    }

    /// Overlays the entries on a snapshot. Call [`Ledger::settle`] with the same cache before.
    pub fn overlay(&self, snapshot: &mut Vec<Arc<T>>) {
        if self.entries.is_empty() {
            return;
        }
        let mut shown = BTreeSet::new();
        snapshot.retain_mut(|facts| match self.entries.get(&facts.id().name) {
            Some((
                Entry::Written(VersionedFacts { facts: newer, .. })
                | Entry::Deleted(VersionedFacts { facts: newer, .. })
                | Entry::Activating { written: Some(VersionedFacts { facts: newer, .. }), .. },
                _,
            )) => {
                shown.insert(newer.id().name.clone());
                *facts = newer.with_history_of(facts).map_or_else(|| newer.clone(), Arc::new);
                true
            }
            Some((Entry::Gone { uid, .. }, _)) => facts.id().uid != *uid,
            Some((Entry::Unknown { .. } | Entry::Activating { written: None, .. }, _)) | None => true,
        });
        let missing = self.entries.iter().filter(|(name, _)| !shown.contains(*name));
        snapshot.extend(missing.filter_map(|(_, (entry, _))| entry.facts().cloned()));
    }

    /// The newest facts of `name` in the ledger.
    pub fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.entries.get(name)?.0.facts()
    }

    /// The same with its version, if the API server confirmed the write.
    pub fn written_as(&self, name: &str) -> Option<VersionedFacts<T>> {
        match &self.entries.get(name)?.0 {
            Entry::Written(VersionedFacts { facts, version }) => {
                Some(VersionedFacts { facts: facts.clone(), version: *version })
            }
            Entry::Unknown { .. } | Entry::Activating { .. } | Entry::Deleted(_) | Entry::Gone { .. } => None,
        }
    }

    /// The unconfirmed creates, ordered by name.
    pub fn unconfirmed_creates(&self) -> Vec<UnconfirmedCreate> {
        self.entries
            .iter()
            .filter_map(|(name, (entry, since))| match entry {
                Entry::Unknown { number, standby } => Some(UnconfirmedCreate {
                    name: name.clone(),
                    number: *number,
                    since: *since,
                    standby: *standby,
                }),
                _ => None,
            })
            .collect()
    }

    /// Time until the first entry is overdue. The next pass must start then, even without an event.
    pub fn due_in(&self, uptime: Duration) -> Option<Duration> {
        self.entries.values().map(|(entry, at)| (*at + entry.limit()).saturating_sub(uptime)).min()
    }

    /// Names whose entries need a live read: confirmed writes older than [`SAFETY_AGE`], and unconfirmed
    /// creates older than [`REQUEST_TIMEOUT`] that no pass repeated.
    pub fn overdue(&self, uptime: Duration) -> Vec<Arc<str>> {
        self.entries
            .iter()
            .filter(|(_, (entry, at))| uptime.saturating_sub(*at) >= entry.limit())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Resolves an overdue entry with the result of a live read of its name.
    pub fn resolve(&mut self, name: &str, live: Option<VersionedFacts<T>>, uptime: Duration) {
        let Some((entry, at)) = self.entries.get_mut(name) else { return };
        match (&entry, live) {
            // The same object, and the cache is still behind: keep its newest state, and check again later.
            (Entry::Written(_) | Entry::Unknown { .. } | Entry::Activating { .. }, Some(seen))
                if entry.uid().is_none_or(|uid| *uid == seen.facts.id().uid) =>
            {
                *entry = Entry::Written(seen);
                *at = uptime;
            }
            (Entry::Deleted(deleted), Some(seen)) if deleted.facts.id().uid == seen.facts.id().uid => {
                // The object has no deletionTimestamp, so the deletion was not carried out.
                *entry =
                    if seen.facts.is_terminating() { Entry::Deleted(seen) } else { Entry::Written(seen) };
                *at = uptime;
            }
            // There is no object of this name, or another one. Hide the old object while the cache shows it.
            (
                Entry::Written(VersionedFacts { facts, .. }) | Entry::Deleted(VersionedFacts { facts, .. }),
                _,
            ) => {
                *entry = Entry::Gone { uid: facts.id().uid.clone(), shown: true };
                *at = uptime;
            }
            (Entry::Activating { uid, .. }, _) => {
                *entry = Entry::Gone { uid: uid.clone(), shown: true };
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

    /// Whether the cache shows all writes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The uptime of the oldest entry.
    pub fn oldest(&self) -> Option<Duration> {
        self.entries.values().map(|(_, at)| *at).min()
    }
}

impl<T: LedgerFacts> Entry<T> {
    /// Age at which a live read must resolve it.
    fn limit(&self) -> Duration {
        match self {
            Self::Unknown { .. } | Self::Activating { .. } => REQUEST_TIMEOUT,
            _ => SAFETY_AGE,
        }
    }

    fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Unknown { .. } => None,
            Self::Written(VersionedFacts { facts, .. }) | Self::Deleted(VersionedFacts { facts, .. }) => {
                Some(&facts.id().uid)
            }
            Self::Gone { uid, .. } | Self::Activating { uid, .. } => Some(uid),
        }
    }
}

impl<T> Entry<T> {
    /// The newest facts, if the object is known to exist.
    fn facts(&self) -> Option<&Arc<T>> {
        match self {
            Self::Unknown { .. } | Self::Activating { written: None, .. } | Self::Gone { .. } => None,
            Self::Written(VersionedFacts { facts, .. })
            | Self::Deleted(VersionedFacts { facts, .. })
            | Self::Activating { written: Some(VersionedFacts { facts, .. }), .. } => Some(facts),
        }
    }
}

#[cfg(test)]
mod tests;

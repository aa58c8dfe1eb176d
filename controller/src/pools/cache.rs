//! The caches: the objects that the watches have shown, reduced to the facts of the engine and indexed for
//! the lookups of a pass.
//!
//! The watches have no label selector, because machines belong to a pool by the UID of their owner and the
//! names of all objects matter. An update that changes no fact wakes no pool. There is no other event filter.

mod index;
mod keys;
mod progress;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use vmpool_engine::Uid;
use vmpool_engine::ledger::{self, VersionedFacts};

use index::CacheIndex;
pub(crate) use keys::{CacheKey, Cached};
use progress::CacheProgress;

/// How long the cache remembers a deletion that a watch showed. It is longer than the deadline of any write.
const REMEMBER_DELETIONS: Duration = Duration::from_mins(3);

/// How long the cache remembers an object that the platform deleted in order to create another one with its
/// name. No controller waits longer for that one.
const REMEMBER_REPLACED: Duration = Duration::from_mins(15);

/// An object of a known namespace.
pub(crate) struct Located<T> {
    pub(crate) namespace: Arc<str>,
    pub(crate) seen: VersionedFacts<T>,
}

/// The keys of an object before and after a change; empty if no fact changed.
pub(crate) type Concerned = Vec<CacheKey>;

/// All objects of one resource.
pub(crate) struct ObjectCache<T> {
    inner: RwLock<Inner<T>>,
}

/// By namespace and name.
type Objects<T> = BTreeMap<Arc<str>, BTreeMap<Arc<str>, VersionedFacts<T>>>;

struct Inner<T> {
    objects: Objects<T>,
    index: CacheIndex,
    deleted: BTreeMap<Uid, Duration>,
    deletions: VecDeque<(Duration, Uid)>,
    /// By namespace and name: the objects that are gone and that the platform creates again, and the uptime
    /// at which they were gone.
    replaced: BTreeMap<(Arc<str>, Arc<str>), Duration>,
    /// Uptime when the list began that the content is based on.
    listed: Option<Duration>,
    /// A list in progress.
    listing: Option<(Duration, Objects<T>)>,
    progress: CacheProgress,
}

impl<T> Default for ObjectCache<T> {
    fn default() -> Self {
        Self {
            inner: RwLock::new(Inner {
                objects: BTreeMap::new(),
                index: CacheIndex::default(),
                deleted: BTreeMap::new(),
                deletions: VecDeque::new(),
                replaced: BTreeMap::new(),
                listed: None,
                listing: None,
                progress: CacheProgress::default(),
            }),
        }
    }
}

impl<T: Cached> ObjectCache<T> {
    /// Starts a list. Its objects become visible when it is complete.
    pub(crate) fn begin_list(&self, uptime: Duration) {
        self.inner.write().listing = Some((uptime, BTreeMap::new()));
    }

    /// Adds an object to the list in progress.
    pub(crate) fn listed(&self, object: Located<T>) {
        if let Some((_, objects)) = &mut self.inner.write().listing {
            objects
                .entry(object.namespace)
                .or_default()
                .insert(object.seen.facts.name().clone(), object.seen);
        }
    }

    /// Completes the list, which replaces the content.
    pub(crate) fn end_list(&self) -> Concerned {
        let mut inner = self.inner.write();
        let Some((began, fresh)) = inner.listing.take() else { return Vec::new() };
        inner.listed = Some(began);
        inner.progress.listed();
        let gone: Vec<_> = inner
            .objects
            .iter()
            .flat_map(|(namespace, objects)| {
                objects.keys().map(move |name| (namespace.clone(), name.clone()))
            })
            .filter(|(namespace, name)| {
                !fresh.get(namespace).is_some_and(|objects| objects.contains_key(name))
            })
            .collect();
        let mut concerned = Vec::new();
        for (namespace, name) in gone {
            concerned.extend(inner.remove(&namespace, &name, began));
        }
        for (namespace, objects) in fresh {
            for seen in objects.into_values() {
                concerned.extend(inner.insert(Located { namespace: namespace.clone(), seen }));
            }
        }
        concerned
    }

    /// Records that an object was created or changed.
    pub(crate) fn applied(&self, object: Located<T>) -> Concerned {
        let mut inner = self.inner.write();
        inner.progress.show(object.seen.version);
        inner.insert(object)
    }

    /// Records that an object was deleted.
    pub(crate) fn deleted(&self, object: &Located<T>, uptime: Duration) -> Concerned {
        let mut inner = self.inner.write();
        inner.progress.show(object.seen.version);
        let uid = object.seen.facts.uid().clone();
        inner.deleted.insert(uid.clone(), uptime);
        inner.deletions.push_back((uptime, uid));
        while inner.deletions.front().is_some_and(|(at, _)| uptime.saturating_sub(*at) > REMEMBER_DELETIONS) {
            if let Some((_, uid)) = inner.deletions.pop_front() {
                inner.deleted.remove(&uid);
            }
        }
        inner.remove(&object.namespace, object.seen.facts.name(), uptime)
    }

    /// The uptime at which an object was gone that the platform deleted in order to create another one with
    /// its name. `None` if the other one is there.
    pub(crate) fn replaced(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<Duration> {
        self.inner.read().replaced.get(&(namespace.clone(), name.clone())).copied()
    }

    /// Records a write of the controller that was sent at this uptime and confirmed with this version.
    pub(crate) fn wrote(&self, version: u64, sent: Duration) {
        self.inner.write().progress.wrote(version, sent);
    }

    /// The uptime up to which the cache is known to contain all changes, because the watch has shown a write
    /// of the controller. A list alone proves nothing.
    pub(crate) fn proven(&self) -> Option<Duration> {
        self.inner.read().progress.proven()
    }

    /// Whether the first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.inner.read().listed.is_some()
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.inner.read().objects.values().map(BTreeMap::len).sum()
    }

    /// All objects with this key.
    pub(crate) fn by_key(&self, key: &CacheKey) -> Vec<Arc<T>> {
        self.by_key_where(key, |_| true)
    }

    /// All objects with this key that `matters` accepts.
    pub(crate) fn by_key_where(&self, key: &CacheKey, matters: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let inner = self.inner.read();
        let objects = inner.index.places(key).filter_map(|(namespace, name)| {
            Some(&inner.objects.get(namespace)?.get(name)?.facts).filter(|facts| matters(facts))
        });
        objects.cloned().collect()
    }

    /// The namespaces and names of the objects with this key that `matters` accepts.
    pub(crate) fn places_where(
        &self,
        key: &CacheKey,
        matters: impl Fn(&T) -> bool,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let inner = self.inner.read();
        let places = inner.index.places(key).filter(|(namespace, name)| {
            let seen = inner.objects.get(namespace).and_then(|objects| objects.get(name));
            seen.is_some_and(|seen| matters(&seen.facts))
        });
        places.map(|(namespace, name)| (namespace.clone(), name.clone())).collect()
    }

    /// The object of this name.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<VersionedFacts<T>> {
        let inner = self.inner.read();
        let seen = inner.objects.get(namespace)?.get(name)?;
        Some(VersionedFacts { facts: seen.facts.clone(), version: seen.version })
    }

    /// The namespaces and UIDs of all objects.
    pub(crate) fn identities(&self) -> Vec<(Arc<str>, Uid)> {
        let inner = self.inner.read();
        let of_namespace = |(namespace, objects): (&Arc<str>, &BTreeMap<_, VersionedFacts<T>>)| {
            let identity = |seen: &VersionedFacts<T>| (namespace.clone(), seen.facts.uid().clone());
            objects.values().map(identity).collect::<Vec<_>>()
        };
        inner.objects.iter().flat_map(of_namespace).collect()
    }

    /// Visits all objects of a namespace.
    pub(crate) fn for_each(&self, namespace: &str, mut visit: impl FnMut(&T)) {
        let inner = self.inner.read();
        inner
            .objects
            .get(namespace)
            .into_iter()
            .flat_map(BTreeMap::values)
            .for_each(|seen| visit(&seen.facts));
    }

    /// One namespace of the cache, for the ledger.
    pub(crate) fn of<'a>(&'a self, namespace: &'a str) -> NamespaceView<'a, T> {
        NamespaceView { cache: self, namespace }
    }
}

impl<T: Cached> Inner<T> {
    fn insert(&mut self, object: Located<T>) -> Concerned {
        let Located { namespace, seen } = object;
        let name = seen.facts.name().clone();
        let objects = self.objects.entry(namespace.clone()).or_default();
        let seen = match objects.get(&name) {
            Some(old) => T::keep_history(seen, &old.facts),
            None => seen,
        };
        if let Some(old) = objects.get_mut(&name)
            && old.facts == seen.facts
        {
            old.version = seen.version;
            return Vec::new();
        }
        if !self.replaced.is_empty() {
            self.replaced.remove(&(namespace.clone(), name.clone()));
        }
        let keys = seen.facts.keys(&namespace);
        let old = objects.insert(name.clone(), seen);
        let mut concerned = old.map(|old| old.facts.keys(&namespace)).unwrap_or_default();
        for key in concerned.iter().filter(|key| !keys.contains(key)) {
            self.index.remove(key, &namespace, &name);
        }
        for key in keys.iter().filter(|key| T::is_looked_up_by(key)) {
            self.index.insert(key, &namespace, &name);
        }
        concerned.extend(keys);
        concerned
    }

    fn remove(&mut self, namespace: &Arc<str>, name: &Arc<str>, uptime: Duration) -> Concerned {
        let Some(old) = self.objects.get_mut(namespace).and_then(|objects| objects.remove(name)) else {
            return Vec::new();
        };
        if self.objects.get(namespace).is_some_and(BTreeMap::is_empty) {
            self.objects.remove(namespace);
        }
        if old.facts.is_replaced() {
            self.replaced.retain(|_, gone| uptime.saturating_sub(*gone) < REMEMBER_REPLACED);
            self.replaced.insert((namespace.clone(), name.clone()), uptime);
        }
        let keys = old.facts.keys(namespace);
        for key in &keys {
            self.index.remove(key, namespace, name);
        }
        keys
    }
}

/// One namespace of a cache.
pub(crate) struct NamespaceView<'a, T> {
    cache: &'a ObjectCache<T>,
    namespace: &'a str,
}

impl<T: Cached> ledger::LedgerCache<T> for NamespaceView<'_, T> {
    fn get(&self, name: &str) -> Option<VersionedFacts<T>> {
        self.cache.get(self.namespace, name)
    }
    fn saw_deleted(&self, uid: &Uid) -> bool {
        self.cache.inner.read().deleted.contains_key(uid)
    }
    fn relisted_since(&self, uptime: Duration) -> bool {
        self.cache.inner.read().listed.is_some_and(|began| began > uptime)
    }
}

#[cfg(test)]
mod tests;

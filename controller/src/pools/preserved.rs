//! The storage that machines left behind, which the metrics count.
//!
//! Passes do not need it. Only the metadata of objects with the label of preserved storage is watched.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use vmpool_kit::object::object_key;
use vmpool_kit::sink::{Objects, Sink, WatchChange};
use vmpool_platforms::{ApiObject, intern_text};

/// The preserved objects of a platform, with the names of their pools.
#[derive(Debug, Default)]
pub(crate) struct PreservedStorage {
    pub(crate) volumes: Mutex<Objects<Arc<str>>>,
    pub(crate) claims: Mutex<Objects<Arc<str>>>,
}

/// The objects of one kind.
pub(crate) type PreservedKind = fn(&PreservedStorage) -> &Mutex<Objects<Arc<str>>>;

impl PreservedStorage {
    /// The number of preserved objects by namespace and name of their pool.
    pub(crate) fn counts(&self) -> BTreeMap<(Arc<str>, Arc<str>), usize> {
        let mut counts = BTreeMap::new();
        for objects in [&self.volumes, &self.claims] {
            for (key, pool) in &*objects.lock() {
                *counts.entry((intern_text(&key.namespace), pool.clone())).or_default() += 1;
            }
        }
        counts
    }
}

/// Keeps the objects of one kind up to date for a watch. Storage that a machine uses again keeps the label.
pub(crate) struct PreservedStorageSink<F> {
    preserved: Arc<PreservedStorage>,
    objects: PreservedKind,
    pool: F,
    listing: Objects<Arc<str>>,
}

impl<F> PreservedStorageSink<F> {
    /// `pool` returns the name of the pool for which an object is preserved.
    pub(crate) fn new(preserved: Arc<PreservedStorage>, objects: PreservedKind, pool: F) -> Self {
        Self { preserved, objects, pool, listing: BTreeMap::new() }
    }
}

impl<K: ApiObject, F: Fn(&K) -> Option<Arc<str>>> Sink<K> for PreservedStorageSink<F> {
    fn list_begins(&mut self) {
        self.listing.clear();
    }
    fn listed(&mut self, object: K) {
        self.listing.extend((self.pool)(&object).map(|pool| (object_key(&object), pool)));
    }
    fn list_ends(&mut self) {
        *(self.objects)(&self.preserved).lock() = std::mem::take(&mut self.listing);
    }
    fn changed(&mut self, change: WatchChange<K>) {
        let (key, pool) = match &change {
            WatchChange::Applied(object) => (object_key(object), (self.pool)(object)),
            WatchChange::Deleted(object) => (object_key(object), None),
        };
        let mut objects = (self.objects)(&self.preserved).lock();
        match pool {
            Some(pool) => drop(objects.insert(key, pool)),
            None => drop(objects.remove(&key)),
        }
    }
}

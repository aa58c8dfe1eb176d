//! The newest known objects, by namespace and name.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use vmpool_api::{ObjectKey, OwnerIdentity};
use vmpool_kit::object::{object_id, object_key, object_version};
use vmpool_kit::sink::{Sink, WatchChange, Watched};
use vmpool_platforms::instancetype::copies::Document;
use vmpool_platforms::{ApiObject, is_owner};

/// The objects of one kind.
pub(super) struct ObjectTable<K>(Mutex<BTreeMap<ObjectKey, Arc<K>>>);

impl<K> Default for ObjectTable<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Document> ObjectTable<K> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.0.lock().get(key).cloned()
    }

    /// The objects of its namespace that this object owns, alone or with others.
    pub(super) fn owned_by<O: ApiObject>(&self, owner: &O) -> Vec<Arc<K>> {
        self.of(&object_key(owner).namespace, |object| is_owned_by(object.meta(), owner))
    }

    /// The objects of a namespace that match.
    pub(super) fn of(&self, namespace: &str, matches: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let table = self.0.lock();
        let of_namespace =
            table.range(ObjectKey::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        of_namespace.map(|(_, object)| object).filter(|object| matches(object)).cloned().collect()
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.0.lock().keys().cloned().collect()
    }

    /// Stores an object, unless a newer one is stored.
    fn put(&self, key: ObjectKey, object: K) {
        let mut table = self.0.lock();
        if table.get(&key).is_none_or(|known| object_version(&**known) < object_version(&object)) {
            table.insert(key, Arc::new(object));
        }
    }
}

/// Keeps a table up to date. `changed` is called after each change.
pub(super) struct TableSink<K, F> {
    table: Arc<ObjectTable<K>>,
    listing: BTreeMap<ObjectKey, Arc<K>>,
    changed: F,
    synced: Option<Box<dyn FnOnce() + Send>>,
}

impl<K, F> TableSink<K, F> {
    /// `synced` is called after the first complete list.
    pub(super) fn new(
        table: Arc<ObjectTable<K>>,
        changed: F,
        synced: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { table, listing: BTreeMap::new(), changed, synced: Some(Box::new(synced)) }
    }
}

impl<K: Watched + Document, F: FnMut(&ObjectKey, &K)> Sink<K> for TableSink<K, F> {
    fn list_begins(&mut self) {
        self.listing.clear();
    }

    fn listed(&mut self, object: K) {
        self.listing.insert(object_key(&object), Arc::new(object));
    }

    fn list_ends(&mut self) {
        let new = std::mem::take(&mut self.listing);
        let old = std::mem::replace(&mut *self.table.0.lock(), new.clone());
        for (key, object) in &old {
            if !new.contains_key(key) {
                (self.changed)(key, object);
            }
        }
        for (key, object) in &new {
            if old.get(key).is_none_or(|known| object_version(&**known) != object_version(&**object)) {
                (self.changed)(key, object);
            }
        }
        if let Some(synced) = self.synced.take() {
            synced();
        }
    }

    fn changed(&mut self, change: WatchChange<K>) {
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        let (key, object) = (object_key(object), object.clone());
        match change {
            WatchChange::Applied(object) => self.table.put(key.clone(), object),
            WatchChange::Deleted(_) => drop(self.table.0.lock().remove(&key)),
        }
        (self.changed)(&key, &object);
    }
}

/// Whether one object is among the owners of another one of its namespace.
pub(super) fn is_owned_by<O: ApiObject>(metadata: &ObjectMeta, owner: &O) -> bool {
    let id = object_id(owner);
    let mut owners = metadata.owner_references.iter().flatten().map(OwnerIdentity::of);
    owners.any(|found| is_owner::<O>(found, &id))
}

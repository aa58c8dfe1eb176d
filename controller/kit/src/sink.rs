//! What a watch keeps up to date.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube::Resource;
use serde::de::DeserializeOwned;
use vmpool_api::ObjectKey;

use crate::object::object_key;

/// An object of any scope that can be watched.
pub trait Watched: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {}

impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static> Watched for K {}

/// What a watch keeps up to date.
pub trait Sink<K> {
    /// A list begins. It replaces all objects when it is complete.
    fn list_begins(&mut self);
    /// The list contains this object.
    fn listed(&mut self, object: K);
    /// The list is complete.
    fn list_ends(&mut self);
    /// An object changed.
    fn changed(&mut self, change: WatchChange<K>);
    /// A list or a watch failed.
    fn broke_off(&mut self) {}
}

/// A change in an event of a watch.
pub enum WatchChange<K> {
    /// The object was created or changed.
    Applied(K),
    /// The object was deleted.
    Deleted(K),
}

/// What `read` takes from the objects of a watch. `show` gets all of it after the first list and after each
/// change.
pub struct MapSink<T, R, F> {
    objects: Objects<T>,
    listing: Objects<T>,
    read: R,
    show: F,
}

/// Facts of objects by namespace and name.
pub type Objects<T> = BTreeMap<ObjectKey, T>;

impl<T, R, F: FnMut(&Objects<T>)> MapSink<T, R, F> {
    /// Objects for which `read` returns `None` are ignored.
    pub fn new(read: R, show: F) -> Self {
        Self { objects: BTreeMap::new(), listing: BTreeMap::new(), read, show }
    }
}

impl<K: Watched, T, R: FnMut(K) -> Option<T>, F: FnMut(&Objects<T>)> Sink<K> for MapSink<T, R, F> {
    fn list_begins(&mut self) {
        self.listing.clear();
    }
    fn listed(&mut self, object: K) {
        let key = object_key(&object);
        self.listing.extend((self.read)(object).map(|facts| (key, facts)));
    }
    fn list_ends(&mut self) {
        self.objects = std::mem::take(&mut self.listing);
        (self.show)(&self.objects);
    }
    fn changed(&mut self, change: WatchChange<K>) {
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        let key = object_key(object);
        let facts = match change {
            WatchChange::Applied(object) => (self.read)(object),
            WatchChange::Deleted(_) => None,
        };
        match facts {
            Some(facts) => drop(self.objects.insert(key, facts)),
            None => drop(self.objects.remove(&key)),
        }
        (self.show)(&self.objects);
    }
}

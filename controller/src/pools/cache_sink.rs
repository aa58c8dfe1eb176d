//! The sink that fills a cache of pools.

use std::sync::Arc;

use vmpool_engine::ledger::VersionedFacts;
use vmpool_kit::object::object_version;
use vmpool_kit::sink::{Sink, WatchChange};
use vmpool_platforms::{ApiObject, intern_text};
use vmpool_runtime::Env;

use crate::metrics::{ControllerMetrics, WatchResource};
use crate::pools::cache::{Cached, Concerned, Located, ObjectCache};

/// A cache that a watch fills.
pub(crate) struct CacheSink<K, T: Cached, W> {
    pub(crate) cache: Arc<ObjectCache<T>>,
    pub(crate) env: Env,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) resource: WatchResource,
    /// Converts an object into facts.
    pub(crate) read: fn(K) -> T,
    /// Gets the keys of changed facts.
    pub(crate) wake: W,
}

impl<K: ApiObject, T: Cached, W: Fn(Concerned)> Sink<K> for CacheSink<K, T, W> {
    fn list_begins(&mut self) {
        self.metrics.list_begins(self.resource);
        self.cache.begin_list(self.env.uptime());
    }
    fn listed(&mut self, object: K) {
        self.cache.listed(locate_object(object, self.read));
    }
    fn list_ends(&mut self) {
        (self.wake)(self.cache.end_list());
    }
    fn changed(&mut self, change: WatchChange<K>) {
        (self.wake)(match change {
            WatchChange::Applied(object) => self.cache.applied(locate_object(object, self.read)),
            WatchChange::Deleted(object) => {
                self.cache.deleted(&locate_object(object, self.read), self.env.uptime())
            }
        });
    }
    fn broke_off(&mut self) {
        self.metrics.watch_broke_off(self.resource);
    }
}

/// The facts and the namespace of an object.
pub(crate) fn locate_object<K: ApiObject, T>(object: K, read: fn(K) -> T) -> Located<T> {
    let namespace = intern_text(object.meta().namespace.as_deref().unwrap_or_default());
    let version = object_version(&object);
    Located { namespace, seen: VersionedFacts { facts: Arc::new(read(object)), version } }
}

#[cfg(test)]
mod tests;

//! Facts of Kubernetes objects.

use std::sync::Arc;

use vmpool_engine::ledger::VersionedFacts;
use vmpool_kit::object::object_version;
use vmpool_platforms::ApiObject;

/// The facts and the version of an object.
pub(crate) fn seen_facts<K: ApiObject, T>(object: &K, read: fn(&K) -> T) -> VersionedFacts<T> {
    VersionedFacts { facts: Arc::new(read(object)), version: object_version(object) }
}

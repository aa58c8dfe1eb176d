//! Versions, facts and API paths of Kubernetes objects.

use std::sync::Arc;

use vmpool_engine::ledger::VersionedFacts;
use vmpool_platforms::ApiObject;

/// `metadata.resourceVersion` as an integer, which Kubernetes allows.
pub(crate) fn object_version<K: ApiObject>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The API path of the collection of `K` in `namespace`.
pub(crate) fn collection_path<K: ApiObject>(namespace: &str) -> String {
    K::url_path(&(), Some(namespace))
}

/// The facts and the version of an object.
pub(crate) fn seen_facts<K: ApiObject, T>(object: &K, read: fn(&K) -> T) -> VersionedFacts<T> {
    VersionedFacts { facts: Arc::new(read(object)), version: object_version(object) }
}

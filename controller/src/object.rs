//! Versions, facts and API paths of Kubernetes objects.

use std::sync::Arc;

use vmpool_engine::ledger::Seen;
use vmpool_platforms::ApiObject;

/// `metadata.resourceVersion` as an integer, which Kubernetes allows.
pub(crate) fn version<K: ApiObject>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The API path of the collection of `K` in `namespace`.
pub(crate) fn collection<K: ApiObject>(namespace: &str) -> String {
    K::url_path(&(), Some(namespace))
}

/// The facts and the version of an object.
pub(crate) fn seen<K: ApiObject, T>(object: &K, read: fn(&K) -> T) -> Seen<T> {
    Seen { facts: Arc::new(read(object)), version: version(object) }
}

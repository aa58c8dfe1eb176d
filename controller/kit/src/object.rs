//! Versions, keys and API paths of Kubernetes objects.

use kube::{Api, Client, Resource};
use vmpool_api::{ObjectId, ObjectKey};

/// `metadata.resourceVersion` as an integer, which Kubernetes allows.
pub fn object_version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Namespace and name of an object.
pub fn object_key<K: Resource>(object: &K) -> ObjectKey {
    ObjectKey::of(object.meta())
}

/// Name and UID of an object.
pub fn object_id<K: Resource>(object: &K) -> ObjectId {
    let metadata = object.meta();
    ObjectId::new(metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default())
}

/// The API path of the collection of `K` in `namespace`.
pub fn collection_path<K: Resource<DynamicType = ()>>(namespace: &str) -> String {
    K::url_path(&(), Some(namespace))
}

/// The objects of `namespace`, or of all namespaces.
pub fn api_for_namespace<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

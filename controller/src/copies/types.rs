//! The known objects of the four kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource;
use parking_lot::Mutex;
use serde_json::Value;
use vmpool_api::ObjectKey;
use vmpool_kit::object::collection_path;
use vmpool_platforms::ReferencedObject;
use vmpool_platforms::instancetype::copies::{
    ClusterInstancetype, ClusterPreference, Document, Instancetype, Preference,
};
use vmpool_platforms::instancetype::type_protection::InstanceTypeKind;

use super::store::ObjectTable;

/// The objects of the four kinds.
#[derive(Default)]
pub(super) struct TypeTables {
    pub(super) instancetypes: Arc<ObjectTable<Instancetype>>,
    pub(super) cluster_instancetypes: Arc<ObjectTable<ClusterInstancetype>>,
    pub(super) preferences: Arc<ObjectTable<Preference>>,
    pub(super) cluster_preferences: Arc<ObjectTable<ClusterPreference>>,
    /// The state of each object at its last change.
    states: Mutex<BTreeMap<TypeKey, TypeState>>,
}

/// UID and generation of an object, which change with its spec.
type TypeState = (String, i64);

/// Kind, namespace and name of an object. The namespace is empty for kinds of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TypeKey {
    pub(super) kind: InstanceTypeKind,
    pub(super) object: ObjectKey,
}

impl TypeTables {
    /// The object as JSON.
    pub(super) fn document(&self, TypeKey { kind, object: key }: &TypeKey) -> Option<Value> {
        match kind {
            InstanceTypeKind::Instancetype => self.instancetypes.get(key).map(|object| object.document()),
            InstanceTypeKind::ClusterInstancetype => {
                self.cluster_instancetypes.get(key).map(|object| object.document())
            }
            InstanceTypeKind::Preference => self.preferences.get(key).map(|object| object.document()),
            InstanceTypeKind::ClusterPreference => {
                self.cluster_preferences.get(key).map(|object| object.document())
            }
        }
    }
}

impl TypeTables {
    /// UID and generation of an object; `None` if it does not exist.
    fn state(&self, TypeKey { kind, object: key }: &TypeKey) -> Option<TypeState> {
        fn state_in_table<K: Document>(table: &ObjectTable<K>, key: &ObjectKey) -> Option<TypeState> {
            let object = table.get(key)?;
            let metadata = object.meta();
            Some((metadata.uid.clone().unwrap_or_default(), metadata.generation.unwrap_or_default()))
        }
        match kind {
            InstanceTypeKind::Instancetype => state_in_table(&self.instancetypes, key),
            InstanceTypeKind::ClusterInstancetype => state_in_table(&self.cluster_instancetypes, key),
            InstanceTypeKind::Preference => state_in_table(&self.preferences, key),
            InstanceTypeKind::ClusterPreference => state_in_table(&self.cluster_preferences, key),
        }
    }

    /// Records UID and generation of an object. Returns whether they changed.
    pub(super) fn note_state(&self, key: &TypeKey) -> bool {
        let now = self.state(key);
        let before = match now.clone() {
            Some(now) => self.states.lock().insert(key.clone(), now),
            None => self.states.lock().remove(key),
        };
        before != now
    }

    /// The object at this place, which an object of the namespace refers to.
    pub(super) fn find(&self, namespace: &str, reference: &ReferencedObject) -> Option<Value> {
        self.document(&key_of(namespace, reference)?)
    }
}

/// The object at this place, which an object of the namespace refers to; `None` if it is of another kind.
pub(super) fn key_of(namespace: &str, reference: &ReferencedObject) -> Option<TypeKey> {
    let kind = InstanceTypeKind::of_object(reference.kind)?;
    let namespace = if kind.is_cluster() { "" } else { namespace };
    Some(TypeKey { kind, object: ObjectKey::new(namespace, &*reference.name) })
}

/// The path of the objects of a kind.
pub(super) fn type_collection_path(
    TypeKey { kind, object: ObjectKey { namespace, .. } }: &TypeKey,
) -> String {
    match kind {
        InstanceTypeKind::Instancetype => collection_path::<Instancetype>(namespace),
        InstanceTypeKind::ClusterInstancetype => ClusterInstancetype::url_path(&(), None),
        InstanceTypeKind::Preference => collection_path::<Preference>(namespace),
        InstanceTypeKind::ClusterPreference => ClusterPreference::url_path(&(), None),
    }
}

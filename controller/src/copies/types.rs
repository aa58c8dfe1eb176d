//! The known objects of the four kinds.

use std::sync::Arc;

use kube::Resource;
use serde_json::Value;
use vmpool_platforms::Reference;
use vmpool_platforms::kubevirt::copies::{
    ClusterInstancetype, ClusterPreference, Document, Instancetype, Preference,
};
use vmpool_platforms::kubevirt::protection::Kind;

use super::store::{Key, Table};
use crate::object::collection;

/// The objects of the four kinds.
#[derive(Default)]
pub(super) struct Types {
    pub(super) instancetypes: Arc<Table<Instancetype>>,
    pub(super) cluster_instancetypes: Arc<Table<ClusterInstancetype>>,
    pub(super) preferences: Arc<Table<Preference>>,
    pub(super) cluster_preferences: Arc<Table<ClusterPreference>>,
}

/// UID and generation of an object, which change with its spec.
pub(super) type TypeState = (String, i64);

/// Kind, namespace and name of an object. The namespace is empty for kinds of the cluster.
pub(super) type TypeKey = (Kind, Key);

impl Types {
    /// The object as JSON.
    pub(super) fn document(&self, (kind, key): &TypeKey) -> Option<Value> {
        match kind {
            Kind::Instancetype => self.instancetypes.get(key).map(|object| object.document()),
            Kind::ClusterInstancetype => self.cluster_instancetypes.get(key).map(|object| object.document()),
            Kind::Preference => self.preferences.get(key).map(|object| object.document()),
            Kind::ClusterPreference => self.cluster_preferences.get(key).map(|object| object.document()),
        }
    }
}

impl Types {
    /// UID and generation of an object; `None` if it does not exist.
    pub(super) fn state(&self, (kind, key): &TypeKey) -> Option<TypeState> {
        fn of<K: Document>(table: &Table<K>, key: &Key) -> Option<TypeState> {
            let object = table.get(key)?;
            let metadata = object.meta();
            Some((metadata.uid.clone().unwrap_or_default(), metadata.generation.unwrap_or_default()))
        }
        match kind {
            Kind::Instancetype => of(&self.instancetypes, key),
            Kind::ClusterInstancetype => of(&self.cluster_instancetypes, key),
            Kind::Preference => of(&self.preferences, key),
            Kind::ClusterPreference => of(&self.cluster_preferences, key),
        }
    }

    /// The object at this place, which an object of the namespace refers to.
    pub(super) fn find(&self, namespace: &str, reference: &Reference) -> Option<Value> {
        self.document(&key_of(namespace, reference)?)
    }
}

/// The object at this place, which an object of the namespace refers to; `None` if it is of another kind.
pub(super) fn key_of(namespace: &str, reference: &Reference) -> Option<TypeKey> {
    let kind = Kind::of_object(reference.kind)?;
    let namespace = if kind.is_cluster() { "" } else { namespace };
    Some((kind, (namespace.to_owned(), reference.name.clone())))
}

/// The path of the objects of a kind.
pub(super) fn path((kind, (namespace, _)): &TypeKey) -> String {
    match kind {
        Kind::Instancetype => collection::<Instancetype>(namespace),
        Kind::ClusterInstancetype => ClusterInstancetype::url_path(&(), None),
        Kind::Preference => collection::<Preference>(namespace),
        Kind::ClusterPreference => ClusterPreference::url_path(&(), None),
    }
}

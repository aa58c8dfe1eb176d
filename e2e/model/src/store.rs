//! Stored objects and the history of their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiObjectKey {
    /// The resource with its group.
    pub resource: Arc<str>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for ApiObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.resource, self.name)
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was modified.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl ChangeKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The changed object.
    pub key: ApiObjectKey,
    /// The object after the change; after a deletion, its last state.
    pub object: Arc<Value>,
    /// The object before the change.
    pub before: Option<Arc<Value>>,
    /// The resource version of the change.
    pub version: u64,
}

/// The beginning of each UID. A number of twelve digits follows.
const UID_PREFIX: &str = "00000000-0000-4000-8000-";

#[derive(Debug, Default)]
pub(crate) struct ApiObjectStore {
    objects: BTreeMap<ApiObjectKey, Arc<Value>>,
    version: u64,
    history: Vec<ObjectChange>,
    /// Watches cannot start at or before this version.
    compacted: u64,
    uids: u64,
    /// Objects that are stored without the default of their status, so that any write changes them.
    unstored_status: BTreeSet<ApiObjectKey>,
}

impl ApiObjectStore {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn history(&self) -> &[ObjectChange] {
        &self.history
    }

    pub(crate) fn get(&self, key: &ApiObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&ApiObjectKey, &Arc<Value>)> {
        self.objects.iter()
    }

    /// The objects of a resource in one namespace, or in all if `namespace` is empty.
    pub(crate) fn of<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ApiObjectKey, &'a Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| {
            &*key.resource == resource && (namespace.is_empty() || &*key.namespace == namespace)
        })
    }

    /// The objects of a resource `behind` changes ago, ordered by name, and the resource version of that
    /// state.
    pub(crate) fn as_of(&self, resource: &str, namespace: &str, behind: usize) -> (u64, Vec<Arc<Value>>) {
        if behind == 0 {
            return (self.version, self.of(resource, namespace).map(|(_, object)| object.clone()).collect());
        }
        let seen = self.history.len().saturating_sub(behind);
        let mut then = BTreeMap::new();
        for change in &self.history[..seen] {
            if &*change.key.resource == resource
                && (namespace.is_empty() || &*change.key.namespace == namespace)
            {
                match change.kind {
                    ChangeKind::Deleted => then.remove(&change.key),
                    ChangeKind::Added | ChangeKind::Modified => {
                        then.insert(&change.key, change.object.clone())
                    }
                };
            }
        }
        // Version 0 would mean that no version is set.
        (seen.max(1) as u64, then.into_values().collect())
    }

    /// A new unique UID.
    pub(crate) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("{UID_PREFIX}{:012x}", self.uids)
    }

    /// Never assigns this UID, if it is one of this store.
    pub(crate) fn reserve_uid(&mut self, uid: &str) {
        let number = uid.strip_prefix(UID_PREFIX).and_then(|number| u64::from_str_radix(number, 16).ok());
        self.uids = self.uids.max(number.unwrap_or_default());
    }

    /// Stores an object with the next resource version.
    pub(crate) fn put(&mut self, key: ApiObjectKey, mut object: Value) -> Arc<Value> {
        self.version += 1;
        self.unstored_status.remove(&key);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        let kind = if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.history.push(ObjectChange { kind, key, object: object.clone(), before, version: self.version });
        object
    }

    /// Notes that an object is stored without its status until the next write.
    pub(crate) fn note_unstored_status(&mut self, key: ApiObjectKey) {
        self.unstored_status.insert(key);
    }

    /// Whether an object is stored without its status, which is the default of its schema.
    pub(crate) fn lacks_stored_status(&self, key: &ApiObjectKey) -> bool {
        self.unstored_status.contains(key)
    }

    /// Removes an object. Watches receive `last`, or the stored object if `last` is `None`.
    pub(crate) fn remove(&mut self, key: &ApiObjectKey, last: Option<Value>) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.unstored_status.remove(key);
        self.version += 1;
        let mut object = last.unwrap_or_else(|| (*before).clone());
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let (kind, version) = (ChangeKind::Deleted, self.version);
        self.history.push(ObjectChange {
            kind,
            key: key.clone(),
            object: object.clone(),
            before: Some(before),
            version,
        });
        Some(object)
    }

    /// Drops the history: watches that start earlier must list again.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
    }
}

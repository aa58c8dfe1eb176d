//! Objects, and the history of their changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The resource with its group.
    pub resource: Arc<str>,
    /// The namespace; empty outside of them.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.resource, self.name)
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is another.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// To which object.
    pub key: Key,
    /// The object after it; when it is gone, the last that there was of it.
    pub object: Arc<Value>,
    /// The object before it.
    pub before: Option<Arc<Value>>,
    /// The resource version that the change has.
    pub version: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
    history: Vec<Change>,
    /// Watches cannot begin at or before this version any more.
    compacted: u64,
    uids: u64,
}

impl Store {
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn history(&self) -> &[Change] {
        &self.history
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// The objects of a resource, of one namespace or of all.
    pub(crate) fn of<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.objects.iter().filter(move |(key, _)| {
            &*key.resource == resource && (namespace.is_empty() || &*key.namespace == namespace)
        })
    }

    /// The objects of a resource as they were `behind` changes ago, in the order of their names, and the version then.
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
        // Version 0 would be no version at all.
        (seen.max(1) as u64, then.into_values().collect())
    }

    /// A UID that no object had.
    pub(crate) fn new_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// Stores an object under the next version.
    pub(crate) fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), object.clone());
        let kind = if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.history.push(Change { kind, key, object: object.clone(), before, version: self.version });
        object
    }

    /// Takes an object away. What watches are told of it is `last`, or else what there was.
    pub(crate) fn remove(&mut self, key: &Key, last: Option<Value>) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.version += 1;
        let mut object = last.unwrap_or_else(|| (*before).clone());
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let (kind, version) = (ChangeKind::Deleted, self.version);
        self.history.push(Change {
            kind,
            key: key.clone(),
            object: object.clone(),
            before: Some(before),
            version,
        });
        Some(object)
    }

    /// Forgets what happened so far: watches that begin earlier have to list anew.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
    }
}

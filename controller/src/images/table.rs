//! Objects by namespace and name, each in the newest known version.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_diskimage::model::ObjectKey;

pub(super) use vmpool_diskimage::read::object_key;

/// The version of an object. Kubernetes allows to compare the versions of one resource as integers.
pub(super) fn metadata_version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Where an object comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectOrigin {
    /// A watch or a list shows it.
    Watched,
    /// A write returned it.
    Written,
}

/// Number of deleted objects whose version a table remembers. Only the response to a write can show such an
/// object again, and it arrives within the deadline of a request.
const REMEMBERED: usize = 1000;

/// The newest known objects of one kind.
#[derive(Debug)]
pub(super) struct VersionedTable<T> {
    entries: BTreeMap<ObjectKey, (u64, T)>,
    /// Objects that were written since the current list began, so that the list may lack them.
    written: BTreeSet<ObjectKey>,
    /// The versions at which objects were deleted, and the same by version. The response to an earlier write
    /// can arrive after the watch has shown the deletion.
    deleted: BTreeMap<ObjectKey, u64>,
    deletions: BTreeSet<(u64, ObjectKey)>,
}

impl<T> Default for VersionedTable<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            written: BTreeSet::new(),
            deleted: BTreeMap::new(),
            deletions: BTreeSet::new(),
        }
    }
}

impl<T> VersionedTable<T> {
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.entries.get(key).map(|(_, object)| object)
    }

    pub(super) fn get_entry(&self, key: &ObjectKey) -> Option<(&ObjectKey, &T)> {
        self.entries.get_key_value(key).map(|(key, (_, object))| (key, object))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &T)> {
        self.entries.iter().map(|(key, (_, object))| (key, object))
    }

    /// The objects of one namespace.
    pub(super) fn of_namespace<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a T)> {
        let from = ObjectKey::new(namespace, "");
        self.entries
            .range(from..)
            .take_while(move |(key, _)| key.namespace == namespace)
            .map(|(key, (_, object))| (key, object))
    }

    /// Stores an object. Returns the former one, or `Err` if the stored one is at least as new, or was
    /// deleted since.
    pub(super) fn put(
        &mut self,
        origin: ObjectOrigin,
        key: ObjectKey,
        version: u64,
        object: T,
    ) -> Result<Option<T>, T> {
        if origin == ObjectOrigin::Written {
            self.written.insert(key.clone());
        }
        self.set(key, version, object)
    }

    /// Stores an object that a watch or a list shows.
    pub(super) fn set(&mut self, key: ObjectKey, version: u64, object: T) -> Result<Option<T>, T> {
        let is_known = self.entries.get(&key).is_some_and(|(known, _)| *known >= version);
        if is_known || self.deleted.get(&key).is_some_and(|deleted| *deleted >= version) {
            return Err(object);
        }
        Ok(self.entries.insert(key, (version, object)).map(|(_, former)| former))
    }

    /// Removes an object that was deleted at this version. An object that was created later stays.
    pub(super) fn deleted(&mut self, key: &ObjectKey, version: u64) -> Option<T> {
        let newer = self.entries.get(key).is_some_and(|(known, _)| *known > version);
        if newer {
            return None;
        }
        self.remember_deletion(key, version);
        self.entries.remove(key).map(|(_, object)| object)
    }

    fn remember_deletion(&mut self, key: &ObjectKey, version: u64) {
        if self.deleted.get(key).is_some_and(|known| *known >= version) {
            return;
        }
        if let Some(former) = self.deleted.insert(key.clone(), version) {
            self.deletions.remove(&(former, key.clone()));
        }
        self.deletions.insert((version, key.clone()));
        if self.deletions.len() > REMEMBERED
            && let Some((_, oldest)) = self.deletions.pop_first()
        {
            self.deleted.remove(&oldest);
        }
    }

    /// Removes an object that a complete list lacks.
    pub(super) fn missing(&mut self, key: &ObjectKey) -> Option<T> {
        self.entries.remove(key).map(|(_, object)| object)
    }

    /// Removes an object that was deleted at this version, or that a complete list lacks.
    pub(super) fn remove(&mut self, key: &ObjectKey, version: Option<u64>) -> Option<T> {
        match version {
            Some(version) => self.deleted(key, version),
            None => self.missing(key),
        }
    }

    /// A list begins.
    pub(super) fn list_begins(&mut self) {
        self.written.clear();
    }

    /// The objects that a complete list must contain, or they are gone.
    pub(super) fn expected(&self) -> Vec<ObjectKey> {
        self.entries.keys().filter(|key| !self.written.contains(key)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debian() -> ObjectKey {
        ObjectKey::new("images", "debian")
    }

    #[test]
    fn an_older_version_is_ignored() {
        let mut table = VersionedTable::default();
        assert_eq!(table.put(ObjectOrigin::Written, debian(), 7, "new"), Ok(None));
        assert_eq!(table.set(debian(), 5, "old"), Err("old"));
        assert_eq!(table.set(debian(), 7, "same"), Err("same"));
        assert_eq!(table.get(&debian()), Some(&"new"));
        assert_eq!(table.set(debian(), 8, "newer"), Ok(Some("new")));
    }

    #[test]
    fn the_deletion_of_a_predecessor_does_not_remove_its_successor() {
        let mut table = VersionedTable::default();
        table.put(ObjectOrigin::Written, debian(), 9, "successor").unwrap();
        assert_eq!(table.deleted(&debian(), 8), None);
        assert_eq!(table.get(&debian()), Some(&"successor"));
        assert_eq!(table.deleted(&debian(), 10), Some("successor"));
    }

    #[test]
    fn the_response_to_a_write_does_not_bring_a_deleted_object_back() {
        let mut table = VersionedTable::default();
        table.set(debian(), 7, "listed").unwrap();
        assert_eq!(table.deleted(&debian(), 9), Some("listed"));
        // The write removed the last finalizer, or came before the deletion.
        assert_eq!(table.put(ObjectOrigin::Written, debian(), 9, "zombie"), Err("zombie"));
        assert_eq!(table.put(ObjectOrigin::Written, debian(), 8, "zombie"), Err("zombie"));
        assert_eq!(table.put(ObjectOrigin::Written, debian(), 10, "successor"), Ok(None));
    }

    #[test]
    fn a_table_remembers_a_limited_number_of_deletions() {
        let mut table = VersionedTable::<&str>::default();
        for version in 0..2 * REMEMBERED {
            table.deleted(&ObjectKey::new("images", version.to_string()), version as u64);
        }
        assert_eq!((table.deleted.len(), table.deletions.len()), (REMEMBERED, REMEMBERED));
        table.deleted(&ObjectKey::new("images", "1999"), 5000);
        assert_eq!((table.deleted.len(), table.deletions.len()), (REMEMBERED, REMEMBERED));
    }

    #[test]
    fn a_list_that_began_before_a_write_does_not_remove_the_object() {
        let mut table = VersionedTable::default();
        table.set(debian(), 1, "listed").unwrap();
        table.list_begins();
        table.put(ObjectOrigin::Written, ObjectKey::new("images", "fedora"), 2, "written").unwrap();
        assert_eq!(table.expected(), [debian()]);
        table.list_begins();
        assert_eq!(table.expected().len(), 2);
    }

    #[test]
    fn a_namespace_contains_its_own_objects_only() {
        let mut table = VersionedTable::default();
        for (namespace, name) in [("a", "x"), ("b", "x"), ("b", "y"), ("bb", "x")] {
            table.set(ObjectKey::new(namespace, name), 1, name).unwrap();
        }
        let names: Vec<&str> = table.of_namespace("b").map(|(_, name)| *name).collect();
        assert_eq!(names, ["x", "y"]);
    }
}

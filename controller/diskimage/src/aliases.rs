//! DataSources that lead to an image under another name.
//!
//! CDI and KubeVirt clone what a DataSource points to: a snapshot, a claim, or what another DataSource of its
//! namespace points to. CDI follows one such step, and no second one. So a template that names an alias names
//! the image behind it.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::{NamedSource, NamedSourceKind, ObjectKey};

#[cfg(test)]
mod tests;

/// What DataSources point to, but for those that point to objects of their own name only: these are the
/// DataSources of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aliases {
    targets: BTreeMap<ObjectKey, BTreeSet<NamedSource>>,
    by_target: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl Aliases {
    /// Sets what a DataSource points to; nothing if it is gone.
    pub fn set(&mut self, source: &ObjectKey, targets: BTreeSet<NamedSource>) {
        for target in self.targets.remove(source).into_iter().flatten() {
            remove_from_set(&mut self.by_target, &target.key, source);
        }
        let targets: BTreeSet<NamedSource> =
            targets.into_iter().filter(|target| target.key != *source).collect();
        for target in &targets {
            self.by_target.entry(target.key.clone()).or_default().insert(source.clone());
        }
        if !targets.is_empty() {
            self.targets.insert(source.clone(), targets);
        }
    }

    /// The objects that a DataSource leads to, the DataSources between included.
    pub fn resolve(&self, source: &ObjectKey) -> BTreeSet<&NamedSource> {
        let direct = || self.targets.get(source).into_iter().flatten();
        let next = direct().filter(|target| target.kind == NamedSourceKind::DataSource);
        let next = next.filter_map(|target| self.targets.get(&target.key)).flatten();
        direct().chain(next.filter(|target| target.kind != NamedSourceKind::DataSource)).collect()
    }

    /// Whether a DataSource leads to an object of this name.
    pub(crate) fn leads_to(&self, source: &ObjectKey, key: &ObjectKey) -> bool {
        // Almost all DataSources that templates name are no aliases.
        self.targets.contains_key(source) && self.resolve(source).into_iter().any(|target| target.key == *key)
    }

    /// The DataSources that lead to an object of this name.
    pub fn leading_to(&self, key: &ObjectKey) -> BTreeSet<&ObjectKey> {
        let direct = || self.by_target.get(key).into_iter().flatten();
        let next = direct().filter_map(|alias| self.by_target.get(alias)).flatten();
        direct().chain(next).filter(|alias| self.leads_to(alias, key)).collect()
    }
}

/// Removes a value from the set of a key, and with the last value the key.
pub(crate) fn remove_from_set<K: Ord, V: Ord + Borrow<Q>, Q: Ord + ?Sized>(
    map: &mut BTreeMap<K, BTreeSet<V>>,
    key: &K,
    value: &Q,
) {
    let Some(set) = map.get_mut(key) else { return };
    set.remove(value);
    if set.is_empty() {
        map.remove(key);
    }
}

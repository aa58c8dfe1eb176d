//! The watched objects, as the API server stores them.

use std::collections::BTreeMap;

use serde_json::Value;
use vmpool_platforms::PlatformName;

use crate::cluster::name_of;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WatchedKind {
    Pools(PlatformName),
    Machines(PlatformName),
    /// Instances, on platforms that have objects for them.
    Instances(PlatformName),
    /// Events about pools of all platforms.
    Events,
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchedKey {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl WatchedKey {
    pub(super) fn of(object: &Value) -> Self {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        Self { namespace: namespace.to_owned(), name: name_of(object).to_owned() }
    }
}

/// The objects of one kind.
#[derive(Clone, Debug, Default)]
struct KindObjects {
    objects: BTreeMap<WatchedKey, Value>,
    problem: Option<String>,
}

/// All watched objects.
#[derive(Clone, Debug, Default)]
pub(super) struct WatchedObjects {
    kinds: BTreeMap<WatchedKind, KindObjects>,
}

impl WatchedObjects {
    /// The objects of a kind, by namespace and name.
    pub(super) fn of(&self, kind: WatchedKind) -> impl Iterator<Item = &Value> {
        self.kinds.get(&kind).into_iter().flat_map(|known| known.objects.values())
    }

    /// One object.
    pub(super) fn get(&self, kind: WatchedKind, key: &WatchedKey) -> Option<&Value> {
        self.kinds.get(&kind)?.objects.get(key)
    }

    /// Why the objects of a kind are missing or old.
    pub(super) fn problems(&self) -> impl Iterator<Item = &str> {
        self.kinds.values().filter_map(|known| known.problem.as_deref())
    }

    /// Replaces the objects of a kind.
    pub(super) fn replace(&mut self, kind: WatchedKind, objects: Vec<Value>) {
        let objects = objects.into_iter().map(|object| (WatchedKey::of(&object), object)).collect();
        self.kinds.entry(kind).or_default().objects = objects;
    }

    /// Adds or replaces an object.
    pub(super) fn insert(&mut self, kind: WatchedKind, object: Value) {
        self.kinds.entry(kind).or_default().objects.insert(WatchedKey::of(&object), object);
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, kind: WatchedKind, object: &Value) {
        self.kinds.entry(kind).or_default().objects.remove(&WatchedKey::of(object));
    }

    /// Sets or clears why the objects of a kind are missing or old.
    pub(super) fn set_problem(&mut self, kind: WatchedKind, problem: Option<String>) {
        self.kinds.entry(kind).or_default().problem = problem;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(namespace: &str, name: &str, replicas: u32) -> Value {
        json!({ "metadata": { "namespace": namespace, "name": name }, "spec": { "replicas": replicas } })
    }

    #[test]
    fn a_change_replaces_the_object_of_the_same_kind_namespace_and_name() {
        let mut objects = WatchedObjects::default();
        objects
            .replace(WatchedKind::Pools(PlatformName::Dvp), vec![pool("a", "web", 1), pool("b", "web", 1)]);
        objects.insert(WatchedKind::Pools(PlatformName::Dvp), pool("a", "web", 2));
        objects.remove(WatchedKind::Pools(PlatformName::Dvp), &pool("b", "web", 1));
        objects.remove(WatchedKind::Pools(PlatformName::Kubevirt), &pool("a", "web", 1));
        let kept: Vec<&Value> = objects.of(WatchedKind::Pools(PlatformName::Dvp)).collect();
        assert_eq!(kept, [&pool("a", "web", 2)]);
    }

    #[test]
    fn a_problem_keeps_the_objects() {
        let mut objects = WatchedObjects::default();
        objects.insert(WatchedKind::Pools(PlatformName::Dvp), pool("a", "web", 1));
        objects.set_problem(WatchedKind::Pools(PlatformName::Dvp), Some("lost".to_owned()));
        assert_eq!(objects.problems().collect::<Vec<_>>(), ["lost"]);
        assert_eq!(objects.of(WatchedKind::Pools(PlatformName::Dvp)).count(), 1);
        objects.set_problem(WatchedKind::Pools(PlatformName::Dvp), None);
        assert_eq!(objects.problems().count(), 0);
    }
}

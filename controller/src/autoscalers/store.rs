//! The autoscalers, and what else scales pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use parking_lot::Mutex;
use vmpool_api::ObjectKey;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::conflict::{AutoscalerIdentity, Conflict, HpaTarget, find_conflict};
use vmpool_autoscaler::limits::{AutoscaledPool, AutoscalerSettings};
use vmpool_autoscaler::read::{read_autoscaler, read_pool_reference};
use vmpool_kit::object::{object_id, object_version};
use vmpool_kit::sink::Objects;

/// An autoscaler and what it requests.
#[derive(Clone)]
pub(super) struct KnownAutoscaler {
    pub(super) object: Arc<PoolAutoscaler>,
    /// Read once for each version of the spec: its schedules take some time.
    pub(super) settings: Arc<AutoscalerSettings>,
}

impl KnownAutoscaler {
    /// Reads an autoscaler. `before` may have the same spec.
    fn read(object: &Arc<PoolAutoscaler>, before: Option<&Self>) -> Self {
        let same = before.filter(|before| has_same_spec(&before.object, object));
        let settings = same.map_or_else(|| Arc::new(read_autoscaler(object)), |same| same.settings.clone());
        Self { object: object.clone(), settings }
    }
}

/// Whether the API server says that two versions of an autoscaler have one spec.
fn has_same_spec(one: &PoolAutoscaler, other: &PoolAutoscaler) -> bool {
    let (one, other) = (&one.metadata, &other.metadata);
    one.uid == other.uid && one.generation.is_some() && one.generation == other.generation
}

/// The objects that the watches have shown.
#[derive(Default)]
pub(super) struct AutoscalerStore {
    autoscalers: Mutex<BTreeMap<ObjectKey, KnownAutoscaler>>,
    /// `None` before the first list.
    hpas: Mutex<Option<BTreeMap<ObjectKey, HpaTarget>>>,
}

impl AutoscalerStore {
    /// An autoscaler; `None` if it does not exist.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<KnownAutoscaler> {
        self.autoscalers.lock().get(key).cloned()
    }

    /// Namespaces and names of all autoscalers.
    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        self.autoscalers.lock().keys().cloned().collect()
    }

    /// All autoscalers.
    pub(super) fn all(&self) -> Vec<(ObjectKey, Arc<PoolAutoscaler>)> {
        let autoscalers = self.autoscalers.lock();
        autoscalers.iter().map(|(key, known)| (key.clone(), known.object.clone())).collect()
    }

    /// Takes over the objects of the watch. A write may have returned a newer one.
    pub(super) fn set_autoscalers(&self, shown: &Objects<Arc<PoolAutoscaler>>) -> ChangedAutoscalers {
        let mut stored = self.autoscalers.lock();
        let gone: Vec<ObjectKey> = stored.keys().filter(|key| !shown.contains_key(key)).cloned().collect();
        stored.retain(|key, _| shown.contains_key(key));
        let mut changed = ChangedAutoscalers { concerns_others: !gone.is_empty(), keys: gone };
        for (key, object) in shown {
            let before = stored.get(key).map(|known| conflict_facts(&known.object));
            if put_newer(&mut stored, key, object) {
                changed.concerns_others |= before != Some(conflict_facts(object));
                changed.keys.push(key.clone());
            }
        }
        changed
    }

    /// What a write returned.
    pub(super) fn wrote(&self, key: &ObjectKey, object: PoolAutoscaler) {
        let mut stored = self.autoscalers.lock();
        if stored.contains_key(key) {
            put_newer(&mut stored, key, &Arc::new(object));
        }
    }

    /// Takes over the HorizontalPodAutoscalers of the watch. Returns whether they scale other objects than
    /// before, or whether these are the first ones: their statuses change all the time.
    pub(super) fn set_hpas(&self, shown: &Objects<HpaTarget>) -> bool {
        let mut stored = self.hpas.lock();
        if stored.as_ref() == Some(shown) {
            return false;
        }
        *stored = Some(shown.clone());
        true
    }

    /// Another object of the namespace that scales the pool of an autoscaler.
    pub(super) fn find_conflict(&self, key: &ObjectKey, own: &PoolAutoscaler) -> Option<Conflict> {
        let autoscalers = self.autoscalers.lock();
        let others: Vec<AutoscalerIdentity> = of_namespace(&autoscalers, &key.namespace)
            .map(|known| &known.object)
            .filter(|object| object.metadata.deletion_timestamp.is_none())
            .map(|object| read_identity(object))
            .collect();
        let hpas = self.hpas.lock();
        let hpas = hpas.iter().flat_map(|hpas| of_namespace(hpas, &key.namespace));
        find_conflict(&read_identity(own), &others, hpas)
    }
}

/// The autoscalers that a watch has shown anew.
pub(super) struct ChangedAutoscalers {
    pub(super) keys: Vec<ObjectKey>,
    /// Whether another autoscaler can begin or cease to be in conflict.
    pub(super) concerns_others: bool,
}

/// What conflicts depend on: UID, generation of the spec, and whether the object is being deleted.
fn conflict_facts(object: &PoolAutoscaler) -> (Option<String>, Option<i64>, bool) {
    let metadata = &object.metadata;
    (metadata.uid.clone(), metadata.generation, metadata.deletion_timestamp.is_some())
}

/// Stores an object if it is newer. Returns whether it is.
fn put_newer(
    stored: &mut BTreeMap<ObjectKey, KnownAutoscaler>,
    key: &ObjectKey,
    object: &Arc<PoolAutoscaler>,
) -> bool {
    let before = stored.get(key);
    let is_newer = |known: &KnownAutoscaler| {
        let known = &*known.object;
        known.metadata.uid != object.metadata.uid || object_version(known) < object_version(&**object)
    };
    let stores = before.is_none_or(is_newer);
    if stores {
        let known = KnownAutoscaler::read(object, before);
        stored.insert(key.clone(), known);
    }
    stores
}

/// The objects of a namespace.
fn of_namespace<'t, T>(table: &'t BTreeMap<ObjectKey, T>, namespace: &str) -> impl Iterator<Item = &'t T> {
    let namespace = namespace.to_owned();
    table
        .range(ObjectKey::new(namespace.as_str(), "")..)
        .take_while(move |(key, _)| key.namespace == namespace)
        .map(|(_, object)| object)
}

fn read_identity(object: &PoolAutoscaler) -> AutoscalerIdentity {
    AutoscalerIdentity {
        id: object_id(object),
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
        pool: read_pool_reference(&object.spec.pool_ref),
    }
}

/// What a HorizontalPodAutoscaler scales.
pub(super) fn read_hpa(hpa: &HorizontalPodAutoscaler) -> Option<HpaTarget> {
    let target = &hpa.spec.scale_target_ref;
    let version = target.api_version.as_deref().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let target = AutoscaledPool { group, kind: target.kind.clone(), name: target.name.clone() };
    Some(HpaTarget { name: hpa.metadata.name.clone()?, target })
}

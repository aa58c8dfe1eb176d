//! The watches that the models of all platforms need: knobs of namespaces, and storage classes.

use super::{
    clock::SimulatorClock,
    follow::{EventSource, Sender, follow_objects, key_of, watcher_config},
};
use crate::{
    knobs::{CONFIG_MAP, Knobs},
    objects::{ClassView, NamespacedKey, warn_about_knob},
};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::ConfigMap, storage::v1::StorageClass};
use kube::{Api, Client, ResourceExt};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

/// Events of a model for the knobs of a namespace and for storage classes.
pub(super) type SharedEventConstructors<E> =
    (fn(Arc<str>, Option<Box<Knobs>>) -> E, fn(String, Option<ClassView>) -> E);

/// Starts the watches that the models of all platforms need.
pub(super) fn start_shared_watches<E: Send + 'static>(
    client: &Client,
    namespace: Option<&str>,
    clock: SimulatorClock,
    sender: &Sender<E>,
    tasks: &mut JoinSet<&'static str>,
    (knobs_event, class_event): SharedEventConstructors<E>,
) {
    let knobs = match namespace {
        Some(namespace) => Api::<ConfigMap>::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let only_knobs = watcher_config().fields(&format!("metadata.name={CONFIG_MAP}"));
    let source = KnobSource { known: HashSet::new(), event: knobs_event };
    tasks.spawn(follow_objects(knobs, only_knobs, clock, sender.clone(), source));
    let classes = Api::<StorageClass>::all(client.clone());
    let source = ClassSource { known: HashSet::new(), event: class_event };
    tasks.spawn(follow_objects(classes, watcher_config(), clock, sender.clone(), source));
}

/// The default knobs of each namespace.
struct KnobSource<E> {
    known: HashSet<NamespacedKey>,
    event: fn(Arc<str>, Option<Box<Knobs>>) -> E,
}

impl<E: Send> EventSource<ConfigMap> for KnobSource<E> {
    type Event = E;

    fn name(&self) -> &'static str {
        "the watch of knobs"
    }

    fn seen(&mut self, object: ConfigMap) -> Option<E> {
        let key = key_of(&object);
        let (knobs, errors) = Knobs::from_config(&object.data.unwrap_or_default());
        for error in errors {
            warn_about_knob(Some(&key.namespace), None, &error);
        }
        self.known.insert(key.clone());
        Some((self.event)(key.namespace, Some(Box::new(knobs))))
    }

    fn gone(&mut self, object: &ConfigMap) -> E {
        let key = key_of(object);
        self.known.remove(&key);
        (self.event)(key.namespace, None)
    }

    fn relisted(&mut self, keys: HashSet<NamespacedKey>, _began: Timestamp) -> Vec<E> {
        let gone: Vec<NamespacedKey> = self.known.difference(&keys).cloned().collect();
        self.known = keys;
        gone.into_iter().map(|key| (self.event)(Arc::clone(&key.namespace), None)).collect()
    }
}

struct ClassSource<E> {
    known: HashSet<NamespacedKey>,
    event: fn(String, Option<ClassView>) -> E,
}

impl<E: Send> EventSource<StorageClass> for ClassSource<E> {
    type Event = E;

    fn name(&self) -> &'static str {
        "the watch of storage classes"
    }

    fn seen(&mut self, object: StorageClass) -> Option<E> {
        self.known.insert(key_of(&object));
        Some((self.event)(object.name_any(), Some(ClassView::read(&object))))
    }

    fn gone(&mut self, object: &StorageClass) -> E {
        self.known.remove(&key_of(object));
        (self.event)(object.name_any(), None)
    }

    fn relisted(&mut self, keys: HashSet<NamespacedKey>, _began: Timestamp) -> Vec<E> {
        let gone: Vec<NamespacedKey> = self.known.difference(&keys).cloned().collect();
        self.known = keys;
        gone.into_iter().map(|key| (self.event)(key.name.to_string(), None)).collect()
    }
}

//! The objects of one kind: their last observed state, their pending writes, and the state that they do not
//! show.

use super::objects::{
    ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, KubeVirtMachineView,
    KubeVirtObjectMetadata, LauncherView, RevisionView, SnapshotView,
};
use crate::{objects::NamespacedKey, shared::outbox::Outbox};
use jiff::Timestamp;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The last observed state of an object of any kind.
pub(super) trait ObjectView {
    fn meta(&self) -> &KubeVirtObjectMetadata;
}

macro_rules! views {
    ($($view:ty),*) => { $(impl ObjectView for $view {
        fn meta(&self) -> &KubeVirtObjectMetadata {
            &self.meta
        }
    })* };
}
views!(
    KubeVirtMachineView,
    InstanceView,
    DataVolumeView,
    ClaimView,
    LauncherView,
    DataSourceView,
    SnapshotView,
    ContentView,
    RevisionView
);

/// The source of an object's state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ObservationSource {
    /// A watch: the object may be new.
    Watch,
    /// The response to a write: the watch may have reported the object's deletion already.
    Response,
}

/// One object, or the place of one whose creation is under way.
#[derive(Debug)]
pub(super) struct ObjectSlot<V, M> {
    pub(super) view: Option<Arc<V>>,
    pub(super) outbox: Outbox,
    pub(super) memory: M,
    /// UID of an object that is gone, while a response may still show it.
    gone: Option<Arc<str>>,
}

/// All objects of one kind.
#[derive(Debug)]
pub(super) struct ObjectSlots<V, M>(HashMap<NamespacedKey, ObjectSlot<V, M>>);

impl<V, M> Default for ObjectSlots<V, M> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// What an object's new form means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ObservedChange {
    /// It is older than the form that is known.
    Stale,
    /// The object was not known.
    New,
    /// A different object had this name.
    Replaced,
    /// The object changed.
    Changed,
}

impl<V: ObjectView, M: Default> ObjectSlots<V, M> {
    /// The last observed state of the object.
    pub(super) fn view(&self, key: &NamespacedKey) -> Option<&Arc<V>> {
        self.0.get(key)?.view.as_ref()
    }

    /// Everything known of one object.
    pub(super) fn slot(&mut self, key: &NamespacedKey) -> Option<&mut ObjectSlot<V, M>> {
        self.0.get_mut(key)
    }

    /// State that the object does not show.
    pub(super) fn memory(&self, key: &NamespacedKey) -> Option<&M> {
        Some(&self.0.get(key)?.memory)
    }

    /// The place of an object, made if there is none.
    pub(super) fn place(&mut self, key: &NamespacedKey) -> &mut ObjectSlot<V, M> {
        // The model's clock decides nothing about an object that was not seen yet.
        self.0.entry(key.clone()).or_insert_with(|| ObjectSlot::new(None, Timestamp::MAX))
    }

    /// Removes the place of an object that does not exist.
    pub(super) fn remove_empty_slot(&mut self, key: &NamespacedKey) {
        if self.0.get(key).is_some_and(|slot| slot.view.is_none()) {
            self.0.remove(key);
        }
    }

    /// Every object that exists.
    pub(super) fn keys(&self) -> Vec<NamespacedKey> {
        self.0.iter().filter(|(_, slot)| slot.view.is_some()).map(|(key, _)| key.clone()).collect()
    }

    /// Every object that exists, with its last observed state.
    pub(super) fn views(&self) -> impl Iterator<Item = (&NamespacedKey, &Arc<V>)> {
        self.0.iter().filter_map(|(key, slot)| Some((key, slot.view.as_ref()?)))
    }

    /// Objects that a complete list lacks, although they were last heard of before it began.
    pub(super) fn unlisted(&self, listed: &HashSet<NamespacedKey>, began: Timestamp) -> Vec<NamespacedKey> {
        let missing = |key: &NamespacedKey, slot: &ObjectSlot<V, M>| {
            slot.view.is_some() && slot.outbox.touched < began && !listed.contains(key)
        };
        self.0.iter().filter(|(key, slot)| missing(key, slot)).map(|(key, _)| key.clone()).collect()
    }

    /// Stores an object's state in the model.
    pub(super) fn see(
        &mut self,
        key: &NamespacedKey,
        view: V,
        source: ObservationSource,
        now: Timestamp,
    ) -> ObservedChange {
        let Some(slot) = self.0.get_mut(key) else {
            if source == ObservationSource::Response {
                return ObservedChange::Stale;
            }
            self.0.insert(key.clone(), ObjectSlot::new(Some(view), now));
            return ObservedChange::New;
        };
        let meta = view.meta();
        let seen = match &slot.view {
            Some(known) if known.meta().uid == meta.uid && known.meta().version >= meta.version => {
                return ObservedChange::Stale;
            }
            Some(known) if known.meta().uid == meta.uid => ObservedChange::Changed,
            Some(_) if source == ObservationSource::Response => return ObservedChange::Stale,
            Some(_) => {
                slot.memory = M::default();
                ObservedChange::Replaced
            }
            None if slot.gone.as_ref() == Some(&meta.uid) => return ObservedChange::Stale,
            None => ObservedChange::New,
        };
        slot.outbox.touched = now;
        slot.view = Some(Arc::new(view));
        seen
    }

    /// The object is gone. Returns its last form and what the model remembered of it.
    pub(super) fn forget_object(&mut self, key: &NamespacedKey) -> Option<(Arc<V>, M)> {
        let slot = self.0.get_mut(key)?;
        let view = slot.view.take()?;
        let memory = std::mem::take(&mut slot.memory);
        if slot.outbox.is_busy() {
            slot.gone = Some(view.meta().uid.clone());
            slot.outbox.touched = Timestamp::MAX;
        } else {
            self.0.remove(key);
        }
        Some((view, memory))
    }
}

impl<V: ObjectView, M: Default> ObjectSlot<V, M> {
    fn new(view: Option<V>, now: Timestamp) -> Self {
        Self { view: view.map(Arc::new), outbox: Outbox::new(now), memory: M::default(), gone: None }
    }

    /// The version that the object was last seen at; zero if it does not exist.
    pub(super) fn version(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.meta().version)
    }
}

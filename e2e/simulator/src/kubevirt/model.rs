//! The data of the model.

use super::{
    events::Action,
    objects::{
        ClaimView, ContentView, DataSourceView, DataVolumeView, Id, InstanceView, LauncherView, MachineView,
        RevisionView, SnapshotView,
    },
    slots::Slots,
};
use crate::{
    knobs::{Effective, Knobs},
    objects::{ClassView, Key},
    shared::{Settings, agenda::Agenda},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) use super::memory::{
    ClaimMemory, DataVolumeMemory, Guest, InstanceMemory, MachineMemory, Mounts, PodMemory, SnapshotMemory,
    Suspect,
};

/// The model of all objects of KubeVirt and CDI.
#[derive(Debug)]
pub struct World {
    pub(super) settings: Settings,
    pub(super) agenda: Agenda<Id>,
    pub(super) synced: bool,
    pub(super) machines: Slots<MachineView, MachineMemory>,
    pub(super) instances: Slots<InstanceView, InstanceMemory>,
    pub(super) data_volumes: Slots<DataVolumeView, DataVolumeMemory>,
    pub(super) claims: Slots<ClaimView, ClaimMemory>,
    pub(super) pods: Slots<LauncherView, PodMemory>,
    pub(super) data_sources: Slots<DataSourceView, ()>,
    pub(super) snapshots: Slots<SnapshotView, SnapshotMemory>,
    pub(super) contents: Slots<ContentView, ()>,
    pub(super) revisions: Slots<RevisionView, ()>,
    /// DataVolumes that wait for the source of their clone.
    pub(super) waiting: BTreeSet<Key>,
    pub(super) classes: HashMap<String, ClassView>,
    pub(super) knobs: HashMap<Arc<str>, Knobs>,
    /// Machines and instances by the DataVolumes and claims that they refer to.
    pub(super) users: HashMap<Key, BTreeSet<Key>>,
    /// The reverse of `users`.
    pub(super) uses_of: HashMap<Key, BTreeSet<Key>>,
    /// Pods by the UID of their instance.
    pub(super) pods_of: HashMap<Arc<str>, BTreeSet<Key>>,
    pub(super) mounts: Mounts,
    /// By namespace: the value of the knob `fail-provisioning`, and how many DataVolumes failed because of it.
    pub(super) failures_spent: HashMap<Arc<str>, (u64, u64)>,
    pub(super) actions: Vec<Action>,
}

impl World {
    /// An empty model.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            agenda: Agenda::default(),
            synced: false,
            machines: Slots::default(),
            instances: Slots::default(),
            data_volumes: Slots::default(),
            claims: Slots::default(),
            pods: Slots::default(),
            data_sources: Slots::default(),
            snapshots: Slots::default(),
            contents: Slots::default(),
            revisions: Slots::default(),
            waiting: BTreeSet::new(),
            classes: HashMap::new(),
            knobs: HashMap::new(),
            users: HashMap::new(),
            uses_of: HashMap::new(),
            pods_of: HashMap::new(),
            mounts: Mounts::default(),
            failures_spent: HashMap::new(),
            actions: Vec::new(),
        }
    }

    pub(super) fn knobs_for<'a>(&'a self, key: &Key, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(&key.namespace))
    }
}

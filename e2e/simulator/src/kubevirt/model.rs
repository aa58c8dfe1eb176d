//! The data of the model.

use super::{
    events::KubeVirtModelAction,
    objects::{
        ClaimView, ContentView, DataSourceView, DataVolumeView, InstanceView, KubeVirtMachineView,
        KubeVirtObjectId, LauncherView, RevisionView, SnapshotView,
    },
    slots::ObjectSlots,
};
use crate::{
    knobs::{Effective, Knobs},
    objects::{ClassView, NamespacedKey},
    shared::{SimulatorSettings, agenda::Agenda},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) use super::memory::{
    ClaimMemory, DataVolumeMemory, Guest, InstanceMemory, MachineMemory, Mounts, PodMemory, SnapshotMemory,
    SuspectedViolation,
};

/// The model of all objects of KubeVirt and CDI.
#[derive(Debug)]
pub struct KubeVirtModel {
    pub(super) settings: SimulatorSettings,
    pub(super) agenda: Agenda<KubeVirtObjectId>,
    pub(super) synced: bool,
    pub(super) machines: ObjectSlots<KubeVirtMachineView, MachineMemory>,
    pub(super) instances: ObjectSlots<InstanceView, InstanceMemory>,
    pub(super) data_volumes: ObjectSlots<DataVolumeView, DataVolumeMemory>,
    pub(super) claims: ObjectSlots<ClaimView, ClaimMemory>,
    pub(super) pods: ObjectSlots<LauncherView, PodMemory>,
    pub(super) data_sources: ObjectSlots<DataSourceView, ()>,
    pub(super) snapshots: ObjectSlots<SnapshotView, SnapshotMemory>,
    pub(super) contents: ObjectSlots<ContentView, ()>,
    pub(super) revisions: ObjectSlots<RevisionView, ()>,
    /// DataVolumes that wait for the source of their clone.
    pub(super) waiting: BTreeSet<NamespacedKey>,
    pub(super) classes: HashMap<String, ClassView>,
    pub(super) knobs: HashMap<Arc<str>, Knobs>,
    /// Machines and instances by the DataVolumes and claims that they refer to.
    pub(super) users: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// The reverse of `users`.
    pub(super) uses_of: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Pods by the UID of their instance.
    pub(super) pods_of: HashMap<Arc<str>, BTreeSet<NamespacedKey>>,
    pub(super) mounts: Mounts,
    /// By namespace: the value of the knob `fail-provisioning`, and how many DataVolumes failed because of
    /// it.
    pub(super) failures_spent: HashMap<Arc<str>, (u64, u64)>,
    pub(super) actions: Vec<KubeVirtModelAction>,
}

impl KubeVirtModel {
    /// An empty model.
    pub fn new(settings: SimulatorSettings) -> Self {
        Self {
            settings,
            agenda: Agenda::default(),
            synced: false,
            machines: ObjectSlots::default(),
            instances: ObjectSlots::default(),
            data_volumes: ObjectSlots::default(),
            claims: ObjectSlots::default(),
            pods: ObjectSlots::default(),
            data_sources: ObjectSlots::default(),
            snapshots: ObjectSlots::default(),
            contents: ObjectSlots::default(),
            revisions: ObjectSlots::default(),
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

    pub(super) fn knobs_for<'a>(&'a self, key: &NamespacedKey, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(&key.namespace))
    }
}

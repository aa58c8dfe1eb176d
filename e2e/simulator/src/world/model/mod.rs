//! The data of the model.

mod device;
mod disk;
mod machine;

use super::events::DvpModelAction;
use crate::{
    knobs::{Effective, Knobs},
    objects::{AttachmentView, ClassView, DvpObjectId, ImageView, NamespacedKey, OperationView, PodView},
    shared::{SimulatorSettings, agenda::Agenda, outbox::Outbox},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) use device::{Device, Plug};
pub(super) use disk::{DiskHolder, DiskStage, SimulatedDisk};
pub(super) use machine::{Boot, ManualState, Power, SimulatedMachine};

/// The model of all objects.
#[derive(Debug)]
pub struct DvpModel {
    pub(in crate::world) settings: SimulatorSettings,
    pub(in crate::world) agenda: Agenda<DvpObjectId>,
    pub(in crate::world) synced: bool,
    pub(in crate::world) machines: HashMap<NamespacedKey, SimulatedMachine>,
    pub(in crate::world) disks: HashMap<NamespacedKey, SimulatedDisk>,
    pub(in crate::world) images: HashMap<DvpObjectId, SimulatedImage>,
    pub(in crate::world) operations: HashMap<NamespacedKey, SimulatedOperation>,
    pub(in crate::world) attachments: HashMap<NamespacedKey, SimulatedAttachment>,
    pub(in crate::world) pods: HashMap<NamespacedKey, Pod>,
    pub(in crate::world) classes: HashMap<String, ClassView>,
    pub(in crate::world) knobs: HashMap<Arc<str>, Knobs>,
    /// Machines whose spec lists a disk.
    pub(in crate::world) users: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Pods by the UID of their machine.
    pub(in crate::world) pods_of: HashMap<Arc<str>, BTreeSet<NamespacedKey>>,
    /// Attachments by their machine.
    pub(in crate::world) attachments_of: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Unfinished operations by their machine.
    pub(in crate::world) operations_of: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Disks in use by machines whose object was deleted and whose Pod still runs.
    pub(in crate::world) orphaned_mounts: HashMap<Arc<str>, Vec<NamespacedKey>>,
    /// Per namespace: the knob's value and how many disks have failed because of it.
    pub(in crate::world) failures_spent: HashMap<Arc<str>, (u64, u64)>,
    pub(in crate::world) actions: Vec<DvpModelAction>,
}

impl DvpModel {
    /// An empty model.
    pub fn new(settings: SimulatorSettings) -> Self {
        Self {
            settings,
            agenda: Agenda::default(),
            synced: false,
            machines: HashMap::new(),
            disks: HashMap::new(),
            images: HashMap::new(),
            operations: HashMap::new(),
            attachments: HashMap::new(),
            pods: HashMap::new(),
            classes: HashMap::new(),
            knobs: HashMap::new(),
            users: HashMap::new(),
            pods_of: HashMap::new(),
            attachments_of: HashMap::new(),
            operations_of: HashMap::new(),
            orphaned_mounts: HashMap::new(),
            failures_spent: HashMap::new(),
            actions: Vec::new(),
        }
    }

    pub(in crate::world) fn knobs_for<'a>(
        &'a self,
        namespace: &str,
        own: Option<&'a Knobs>,
    ) -> Effective<'a> {
        Effective::new(own, self.knobs.get(namespace))
    }
}

/// An attachment in the model.
#[derive(Debug)]
pub(in crate::world) struct SimulatedAttachment {
    pub(in crate::world) view: AttachmentView,
    pub(in crate::world) outbox: Outbox,
}

/// An image in the model.
#[derive(Debug)]
pub(in crate::world) struct SimulatedImage {
    pub(in crate::world) view: ImageView,
    pub(in crate::world) outbox: Outbox,
}

/// An operation in the model.
#[derive(Debug)]
pub(in crate::world) struct SimulatedOperation {
    pub(in crate::world) view: OperationView,
    pub(in crate::world) outbox: Outbox,
    pub(in crate::world) state: OperationState,
}

/// The state of an operation.
#[derive(Clone, Debug)]
pub(in crate::world) enum OperationState {
    New,
    /// The request was passed to the machine; these were its numbers of starts and migrations.
    Accepted {
        boots: u32,
        migrations: u32,
    },
    Done,
    Failed(String),
}

/// A Pod in the model.
#[derive(Debug)]
pub(in crate::world) struct Pod {
    /// Its machine.
    pub(in crate::world) machine: NamespacedKey,
    /// UID of that machine.
    pub(in crate::world) owner: Arc<str>,
    /// The last observed state; `None` until it is created.
    pub(in crate::world) view: Option<PodView>,
    pub(in crate::world) outbox: Outbox,
}

pub(in crate::world) fn matching_keys<K: Clone, V>(
    map: &HashMap<K, V>,
    wanted: impl Fn(&K, &V) -> bool,
) -> Vec<K> {
    map.iter().filter(|(key, value)| wanted(key, value)).map(|(key, _)| key.clone()).collect()
}

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
    pub(crate) settings: SimulatorSettings,
    pub(crate) agenda: Agenda<DvpObjectId>,
    pub(crate) synced: bool,
    pub(crate) machines: HashMap<NamespacedKey, SimulatedMachine>,
    pub(crate) disks: HashMap<NamespacedKey, SimulatedDisk>,
    pub(crate) images: HashMap<DvpObjectId, SimulatedImage>,
    pub(crate) operations: HashMap<NamespacedKey, SimulatedOperation>,
    pub(crate) attachments: HashMap<NamespacedKey, SimulatedAttachment>,
    pub(crate) pods: HashMap<NamespacedKey, Pod>,
    pub(crate) classes: HashMap<String, ClassView>,
    pub(crate) knobs: HashMap<Arc<str>, Knobs>,
    /// Machines whose spec lists a disk.
    pub(crate) users: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Pods by the UID of their machine.
    pub(crate) pods_of: HashMap<Arc<str>, BTreeSet<NamespacedKey>>,
    /// Attachments by their machine.
    pub(crate) attachments_of: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Unfinished operations by their machine.
    pub(crate) operations_of: HashMap<NamespacedKey, BTreeSet<NamespacedKey>>,
    /// Disks in use by machines whose object was deleted and whose Pod still runs.
    pub(crate) orphaned_mounts: HashMap<Arc<str>, Vec<NamespacedKey>>,
    /// Per namespace: the knob's value and how many disks have failed because of it.
    pub(crate) failures_spent: HashMap<Arc<str>, (u64, u64)>,
    pub(crate) actions: Vec<DvpModelAction>,
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

    pub(crate) fn knobs_for<'a>(&'a self, namespace: &str, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(namespace))
    }
}

/// An attachment in the model.
#[derive(Debug)]
pub(crate) struct SimulatedAttachment {
    pub(crate) view: AttachmentView,
    pub(crate) outbox: Outbox,
}

/// An image in the model.
#[derive(Debug)]
pub(crate) struct SimulatedImage {
    pub(crate) view: ImageView,
    pub(crate) outbox: Outbox,
}

/// An operation in the model.
#[derive(Debug)]
pub(crate) struct SimulatedOperation {
    pub(crate) view: OperationView,
    pub(crate) outbox: Outbox,
    pub(crate) state: OperationState,
}

/// The state of an operation.
#[derive(Clone, Debug)]
pub(crate) enum OperationState {
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
pub(crate) struct Pod {
    /// Its machine.
    pub(crate) machine: NamespacedKey,
    /// UID of that machine.
    pub(crate) owner: Arc<str>,
    /// The last observed state; `None` until it is created.
    pub(crate) view: Option<PodView>,
    pub(crate) outbox: Outbox,
}

pub(crate) fn matching_keys<K: Clone, V>(map: &HashMap<K, V>, wanted: impl Fn(&K, &V) -> bool) -> Vec<K> {
    map.iter().filter(|(key, value)| wanted(key, value)).map(|(key, _)| key.clone()).collect()
}

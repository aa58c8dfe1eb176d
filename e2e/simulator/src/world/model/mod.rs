//! The data of the model.

mod device;
mod disk;
mod machine;

use super::events::Action;
use crate::{
    knobs::{Effective, Knobs},
    objects::{AttachmentView, ClassView, Id, ImageView, Key, OperationView, PodView},
    shared::{Settings, agenda::Agenda, outbox::Outbox},
};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

pub(super) use device::{Device, Plug};
pub(super) use disk::{Disk, Holder, Stage};
pub(super) use machine::{Boot, Machine, ManualState, Power};

/// The model of all objects.
#[derive(Debug)]
pub struct World {
    pub(in crate::world) settings: Settings,
    pub(in crate::world) agenda: Agenda<Id>,
    pub(in crate::world) synced: bool,
    pub(in crate::world) machines: HashMap<Key, Machine>,
    pub(in crate::world) disks: HashMap<Key, Disk>,
    pub(in crate::world) images: HashMap<Id, Image>,
    pub(in crate::world) operations: HashMap<Key, Operation>,
    pub(in crate::world) attachments: HashMap<Key, Attachment>,
    pub(in crate::world) pods: HashMap<Key, Pod>,
    pub(in crate::world) classes: HashMap<String, ClassView>,
    pub(in crate::world) knobs: HashMap<Arc<str>, Knobs>,
    /// Machines whose spec lists a disk.
    pub(in crate::world) users: HashMap<Key, BTreeSet<Key>>,
    /// Pods by the UID of their machine.
    pub(in crate::world) pods_of: HashMap<Arc<str>, BTreeSet<Key>>,
    /// Attachments by their machine.
    pub(in crate::world) attachments_of: HashMap<Key, BTreeSet<Key>>,
    /// Unfinished operations by their machine.
    pub(in crate::world) operations_of: HashMap<Key, BTreeSet<Key>>,
    /// Disks in use by machines whose object was deleted and whose Pod still runs.
    pub(in crate::world) orphaned_mounts: HashMap<Arc<str>, Vec<Key>>,
    /// Per namespace: the knob's value and how many disks have failed because of it.
    pub(in crate::world) failures_spent: HashMap<Arc<str>, (u64, u64)>,
    pub(in crate::world) actions: Vec<Action>,
}

impl World {
    /// An empty model.
    pub fn new(settings: Settings) -> Self {
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
pub(in crate::world) struct Attachment {
    pub(in crate::world) view: AttachmentView,
    pub(in crate::world) outbox: Outbox,
}

/// An image in the model.
#[derive(Debug)]
pub(in crate::world) struct Image {
    pub(in crate::world) view: ImageView,
    pub(in crate::world) outbox: Outbox,
}

/// An operation in the model.
#[derive(Debug)]
pub(in crate::world) struct Operation {
    pub(in crate::world) view: OperationView,
    pub(in crate::world) outbox: Outbox,
    pub(in crate::world) state: State,
}

/// The state of an operation.
#[derive(Clone, Debug)]
pub(in crate::world) enum State {
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
    pub(in crate::world) machine: Key,
    /// UID of that machine.
    pub(in crate::world) owner: Arc<str>,
    /// The last observed state; `None` until it is created.
    pub(in crate::world) view: Option<PodView>,
    pub(in crate::world) outbox: Outbox,
}

pub(in crate::world) fn collect<K: Clone, V>(map: &HashMap<K, V>, wanted: impl Fn(&K, &V) -> bool) -> Vec<K> {
    map.iter().filter(|(key, value)| wanted(key, value)).map(|(key, _)| key.clone()).collect()
}

//! The pure core: a model of machines, disks and Pods that converts events to writes.
//!
//! This code does not wait, read a clock, or send requests. The shell passes observations to a [`World`]
//! ([`World::observe`]), obtains the writes ([`World::step`]), and calls it again no later than
//! [`World::next_due`]. An object is processed only if it, or an object on which it depends, has changed, or if a
//! delay has ended. Therefore machines that do not change cost nothing.
//!
//! ```text
//!            seen, gone, written                    due
//!  shell ───────────────────────▶ model ◀──────── agenda
//!                                   │ advance: state → next state, after how long
//!                                   ▼
//!                                publish: model ≠ object → one write at a time per object
//! ```

mod attachment;
mod devices;
mod disk;
mod disk_status;
mod dispatch;
mod image;
mod machine;
mod machine_status;
mod mounts;
mod operation;
mod pod;
mod provisioning;
mod restart;
#[cfg(test)]
mod tests;
mod transitions;

pub use crate::shared::{Problem, Settings, Violation};

use crate::{
    knobs::{Effective, Knobs},
    objects::{
        AttachmentView, ClassView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, PodView,
    },
    shared::{agenda::Agenda, ends, outbox},
};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A state that lasts less than this is not written: the next state is written instead.
const BRIEF: Duration = Duration::from_millis(50);

/// The last observed state of an object.
#[derive(Clone, Debug)]
pub enum Object {
    /// VirtualMachine.
    Machine(Box<MachineView>),
    /// VirtualDisk.
    Disk(Box<DiskView>),
    /// VirtualImage or ClusterVirtualImage.
    Image(Kind, ImageView),
    /// VirtualMachineOperation.
    Operation(OperationView),
    /// VirtualMachineBlockDeviceAttachment.
    Attachment(AttachmentView),
    /// The Pod of a machine.
    Pod(Box<PodView>),
}

/// An event that the shell has observed.
#[derive(Debug)]
pub enum Event {
    /// An object was added or changed.
    Seen(Key, Object),
    /// An object was deleted.
    Gone(Id),
    /// A list that began at that time contains exactly these objects of a kind.
    Relisted {
        /// The listed kind.
        kind: Kind,
        /// The objects that exist.
        keys: HashSet<Key>,
        /// When the list began. Later events are newer than the list.
        began: Timestamp,
    },
    /// The knobs of a namespace changed.
    Knobs(Arc<str>, Option<Box<Knobs>>),
    /// A storage class was added, changed or deleted.
    Class(String, Option<ClassView>),
    /// A write that [`World::step`] has returned is complete.
    Written(Id, Outcome),
    /// All objects have been listed. Before this event the model only observes.
    Synced,
}

/// The result of a write.
#[derive(Debug)]
pub enum Outcome {
    /// The write succeeded; this is the object.
    Done(Option<Object>),
    /// Another client has changed the object.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// The write was rejected or lost, for this reason.
    Failed(String),
}

/// An action of the shell.
#[derive(Clone, Debug)]
pub enum Action {
    /// Perform the write, and pass the result to the model.
    Write(Id, Write),
    /// Report that two machines use the same disk.
    Report(Violation),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A merge patch of the object without its status.
    Patch(Value),
    /// A merge patch of the object's status.
    PatchStatus(Value),
    /// Create the object. If it already exists, the write succeeds.
    Create(Value),
    /// Delete the object with this UID without a grace period. If it does not exist, the write succeeds.
    Delete(Arc<str>),
}

/// The model of all objects.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    agenda: Agenda<Id>,
    synced: bool,
    machines: HashMap<Key, machine::Machine>,
    disks: HashMap<Key, disk::Disk>,
    images: HashMap<Id, image::Image>,
    operations: HashMap<Key, operation::Operation>,
    attachments: HashMap<Key, attachment::Attachment>,
    pods: HashMap<Key, pod::Pod>,
    classes: HashMap<String, ClassView>,
    knobs: HashMap<Arc<str>, Knobs>,
    /// Machines whose spec lists a disk.
    users: HashMap<Key, BTreeSet<Key>>,
    /// Pods by the UID of their machine.
    pods_of: HashMap<Arc<str>, BTreeSet<Key>>,
    /// Attachments by their machine.
    attachments_of: HashMap<Key, BTreeSet<Key>>,
    /// Unfinished operations by their machine.
    operations_of: HashMap<Key, BTreeSet<Key>>,
    /// Disks in use by machines whose object was deleted and whose Pod still runs.
    orphaned_mounts: HashMap<Arc<str>, Vec<Key>>,
    /// Per namespace: the knob's value and how many disks have failed because of it.
    failures_spent: HashMap<Arc<str>, (u64, u64)>,
    actions: Vec<Action>,
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

    /// Processes an event.
    pub fn observe(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Seen(key, object) => self.see(&key, object, Novelty::Any, now),
            Event::Gone(id) => self.lose(&id),
            Event::Relisted { kind, keys, began } => self.forget_unlisted(kind, &keys, began),
            Event::Knobs(namespace, knobs) => {
                match knobs {
                    Some(knobs) => self.knobs.insert(namespace.clone(), *knobs),
                    None => self.knobs.remove(&namespace),
                };
                self.mark_namespace(&namespace);
            }
            Event::Class(name, class) => {
                match class {
                    Some(class) => self.classes.insert(name, class),
                    None => self.classes.remove(&name),
                };
                self.mark_disks_that_wait();
            }
            Event::Written(id, outcome) => self.settle(&id, outcome, now),
            Event::Synced => {
                self.synced = true;
                self.take_over();
            }
        }
    }

    /// Processes all objects that are due, and returns the actions in order.
    pub fn step(&mut self, now: Timestamp) -> Vec<Action> {
        if !self.synced {
            return Vec::new();
        }
        while let Some(Id { kind, key }) = self.agenda.next(now) {
            match kind {
                Kind::Machine => self.plan_machine(&key, now),
                Kind::Disk => self.plan_disk(&key, now),
                Kind::Image | Kind::ClusterImage => self.plan_image(&Id { kind, key }, now),
                Kind::Operation => self.plan_operation(&key, now),
                Kind::Attachment => self.plan_attachment(&key, now),
                Kind::Pod => self.plan_pod(&key, now),
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::step`] must be called again if no event is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }

    fn knobs_for<'a>(&'a self, namespace: &str, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(namespace))
    }
}

/// The source of an object's state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Novelty {
    /// A watch: an unknown object is new.
    Any,
    /// The response to a write: an unknown object may already be deleted.
    KnownOnly,
}

fn collect<K: Clone, V>(map: &HashMap<K, V>, wanted: impl Fn(&K, &V) -> bool) -> Vec<K> {
    map.iter().filter(|(key, value)| wanted(key, value)).map(|(key, _)| key.clone()).collect()
}

//! The pure core: a model of machines, disks and pods that turns events into writes.
//!
//! Nothing here waits, reads a clock or talks to anybody. The shell tells a [`World`] what it saw
//! ([`World::observe`]), asks for what is to be written ([`World::step`]) and wakes it again no later than
//! [`World::next_due`]. A thousand settled machines cost nothing: an object is looked at when it, or one that
//! it depends on, changed, or when a delay ends.
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

pub use crate::shared::{Settings, Violation};

use crate::{
    knobs::{Effective, Knobs},
    objects::{
        AttachmentView, ClassView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, PodView,
    },
    shared::{Problem, agenda::Agenda, ends, outbox},
};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A state that would last less than this is not published: the next one follows in the same write.
const BRIEF: Duration = Duration::from_millis(50);

/// An object as last seen.
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
    /// The pod of a machine.
    Pod(Box<PodView>),
}

/// Something that the shell learned.
#[derive(Debug)]
pub enum Event {
    /// An object exists in this form.
    Seen(Key, Object),
    /// An object is gone.
    Gone(Id),
    /// A list that began at that time holds exactly these objects of a kind.
    Relisted {
        /// Kind that was listed.
        kind: Kind,
        /// The objects that exist.
        keys: HashSet<Key>,
        /// What was learned later than this is newer than the list.
        began: Timestamp,
    },
    /// The knobs of a namespace changed.
    Knobs(Arc<str>, Option<Box<Knobs>>),
    /// A storage class appeared, changed or went.
    Class(String, Option<ClassView>),
    /// A write that [`World::step`] asked for has ended.
    Written(Id, Outcome),
    /// Everything that exists has been seen once. Before this the world only watches.
    Synced,
}

/// How a write ended.
#[derive(Debug)]
pub enum Outcome {
    /// Done, and the object looks like this now.
    Done(Option<Object>),
    /// Somebody else wrote first.
    Conflict,
    /// The object is gone, or not there yet.
    NotFound,
    /// Refused or lost, for this reason.
    Failed(String),
}

/// One thing to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Write, then tell the world how it ended.
    Write(Id, Write),
    /// Tell people that two machines mount one disk.
    Report(Violation),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A merge patch of the object without its status.
    Patch(Value),
    /// A merge patch of the object's status.
    PatchStatus(Value),
    /// Create the object; that it exists already is a success.
    Create(Value),
    /// Delete the object with this UID at once; that it is gone already is a success.
    Delete(Arc<str>),
}

/// The model of everything that the simulator plays with.
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
    /// Machines that list a disk.
    users: HashMap<Key, BTreeSet<Key>>,
    /// Pods by the UID of their machine.
    pods_of: HashMap<Arc<str>, BTreeSet<Key>>,
    /// Attachments by their machine.
    attachments_of: HashMap<Key, BTreeSet<Key>>,
    /// Unfinished operations by their machine.
    operations_of: HashMap<Key, BTreeSet<Key>>,
    /// Disks still mounted by machines whose object is gone while their pod runs on.
    orphaned_mounts: HashMap<Arc<str>, Vec<Key>>,
    /// Per namespace: the knob's value and how many disks failed for it.
    failures_spent: HashMap<Arc<str>, (u64, u64)>,
    actions: Vec<Action>,
}

impl World {
    /// An empty world.
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

    /// Takes note of something.
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

    /// Advances everything that is due and returns what is to be done, in this order.
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

    /// When [`Self::step`] has something to do again, if nothing is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }

    fn knobs_for<'a>(&'a self, namespace: &str, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(namespace))
    }
}

/// Whether an object that the model does not know may be new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Novelty {
    /// From a watch: it may.
    Any,
    /// From the answer to a write: its deletion may have been seen already.
    KnownOnly,
}

fn collect<K: Clone, V>(map: &HashMap<K, V>, wanted: impl Fn(&K, &V) -> bool) -> Vec<K> {
    map.iter().filter(|(key, value)| wanted(key, value)).map(|(key, _)| key.clone()).collect()
}

//! The controllers of KubeVirt and CDI: a pure model that turns events into writes.
//!
//! Nothing here waits, reads a clock or sends a request. The shell reports what it saw ([`World::observe`]), asks for
//! writes ([`World::step`]) and calls again no later than [`World::next_due`].
//!
//! ```text
//!   VirtualMachine ──────────────> VirtualMachineInstance ────────> launcher Pod
//!     │  machine/  run strategy,      instance/  phases,             launcher/
//!     │            status             conditions                        │ mounts.rs
//!     └──────────> DataVolume ─────────────────────────────────> PersistentVolumeClaim
//!                    storage/  phases of the copy                    storage/claim.rs
//! ```
//!
//! Every controller here is level-triggered: it decides from the objects as last seen. It keeps in memory only what
//! objects do not show, such as the moment in which a phase began, and restores this from the objects after a restart.
//!
//! # What is left out
//! Webhooks (see `admission.yaml` beside this crate), instance types, migrations, hot-plugged volumes, snapshots,
//! `subresources.kubevirt.io`, and a scheduler: each node suits every instance.

mod dispatch;
mod instance;
mod json;
mod launcher;
mod machine;
mod mounts;
pub mod objects;
mod slots;
mod storage;
#[cfg(test)]
mod tests;
mod writes;

use crate::{
    knobs::{Effective, Knobs},
    objects::{ClassView, Key},
    shared::{Settings, Violation, agenda::Agenda},
};
use jiff::Timestamp;
use objects::{ClaimView, DataVolumeView, Id, InstanceView, Kind, LauncherView, MachineView, Object};
use serde_json::Value;
use slots::Slots;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// Something that the shell observed.
#[derive(Debug)]
pub enum Event {
    /// An object exists in this form.
    Seen(Key, Object),
    /// An object is gone.
    Gone(Id),
    /// A list that began at that time contains exactly these objects of a kind.
    Relisted {
        /// Kind that was listed.
        kind: Kind,
        /// The objects that exist.
        keys: HashSet<Key>,
        /// What was observed later than this is newer than the list.
        began: Timestamp,
    },
    /// The knobs of a namespace changed.
    Knobs(Arc<str>, Option<Box<Knobs>>),
    /// A storage class appeared, changed, or is gone.
    Class(String, Option<ClassView>),
    /// A write that [`World::step`] asked for has ended.
    Written(Id, Outcome),
    /// All objects have been seen once. The model writes nothing before this.
    Synced,
}

/// How a write ended.
#[derive(Debug)]
pub enum Outcome {
    /// Done, and the object looks like this now; a deleted object has no form.
    Done(Option<Object>),
    /// The object changed since it was last seen.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// Refused, or without an answer, for this reason.
    Failed(String),
}

/// One thing that the shell is to do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Write, then report how it ended.
    Write(Id, Write),
    /// Report a violation to users.
    Report(Violation),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// A merge patch of the object. Instances have no status subresource, so it may contain their status.
    Patch(Value),
    /// A merge patch of the object's status.
    PatchStatus(Value),
    /// Create the object. If it exists already, the write has succeeded.
    Create(Value),
    /// Delete the object with this UID. If it is gone already, the write has succeeded.
    Delete {
        /// UID of the object.
        uid: Arc<str>,
        /// Whether to skip the grace period of a Pod.
        now: bool,
    },
}

/// The model of all objects of KubeVirt and CDI.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    agenda: Agenda<Id>,
    synced: bool,
    machines: Slots<MachineView, machine::Memory>,
    instances: Slots<InstanceView, instance::Memory>,
    data_volumes: Slots<DataVolumeView, storage::Memory>,
    claims: Slots<ClaimView, storage::ClaimMemory>,
    pods: Slots<LauncherView, launcher::Memory>,
    classes: HashMap<String, ClassView>,
    knobs: HashMap<Arc<str>, Knobs>,
    /// Machines and instances by the DataVolumes and claims that they refer to.
    users: HashMap<Key, BTreeSet<Key>>,
    /// The reverse of `users`.
    uses_of: HashMap<Key, BTreeSet<Key>>,
    /// Pods by the UID of their instance.
    pods_of: HashMap<Arc<str>, BTreeSet<Key>>,
    mounts: mounts::Mounts,
    /// By namespace: the value of the knob `fail-provisioning`, and how many DataVolumes failed because of it.
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
            machines: Slots::default(),
            instances: Slots::default(),
            data_volumes: Slots::default(),
            claims: Slots::default(),
            pods: Slots::default(),
            classes: HashMap::new(),
            knobs: HashMap::new(),
            users: HashMap::new(),
            uses_of: HashMap::new(),
            pods_of: HashMap::new(),
            mounts: mounts::Mounts::default(),
            failures_spent: HashMap::new(),
            actions: Vec::new(),
        }
    }

    /// Takes note of an event.
    pub fn observe(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Seen(key, object) => self.see(&key, object, slots::Source::Watch, now),
            Event::Gone(id) => self.lose(&id, now),
            Event::Relisted { kind, keys, began } => {
                for key in self.unlisted(kind, &keys, began) {
                    self.lose(&Id { kind, key }, now);
                }
            }
            Event::Knobs(namespace, knobs) => {
                match knobs {
                    Some(knobs) => self.knobs.insert(namespace.clone(), *knobs),
                    None => self.knobs.remove(&namespace),
                };
                self.mark_all(|key| key.namespace == namespace);
            }
            Event::Class(name, class) => {
                match class {
                    Some(class) => self.classes.insert(name, class),
                    None => self.classes.remove(&name),
                };
                for key in self.data_volumes.keys() {
                    self.agenda.mark(Id { kind: Kind::DataVolume, key });
                }
            }
            Event::Written(id, outcome) => self.settle(&id, outcome, now),
            Event::Synced => {
                self.synced = true;
                self.mark_all(|_| true);
            }
        }
    }

    /// Advances all objects that are due, and returns what is to be done, in this order.
    pub fn step(&mut self, now: Timestamp) -> Vec<Action> {
        if !self.synced {
            return Vec::new();
        }
        while let Some(Id { kind, key }) = self.agenda.next(now) {
            match kind {
                Kind::Machine => self.plan_machine(&key, now),
                Kind::Instance => self.plan_instance(&key, now),
                Kind::DataVolume => self.plan_data_volume(&key, now),
                Kind::Claim => self.plan_claim(&key, now),
                Kind::Pod => self.plan_pod(&key, now),
            }
        }
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::step`] has something to do again, unless an event is observed before.
    pub fn next_due(&self) -> Option<Timestamp> {
        if self.synced { self.agenda.next_due() } else { None }
    }

    fn knobs_for<'a>(&'a self, key: &Key, own: Option<&'a Knobs>) -> Effective<'a> {
        Effective::new(own, self.knobs.get(&key.namespace))
    }
}

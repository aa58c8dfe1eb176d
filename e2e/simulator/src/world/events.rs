//! What the shell reports to the model, and what the model asks it to do.

use crate::{
    knobs::Knobs,
    objects::{
        AttachmentView, ClassView, DiskView, Id, ImageView, Key, Kind, MachineView, OperationView, PodView,
    },
    shared::Violation,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// A state that lasts less than this is not written: the next state is written instead.
pub(super) const BRIEF: Duration = Duration::from_millis(50);

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
    /// A write that [`World::step`](super::World::step) has returned is complete.
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

/// The source of an object's state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Novelty {
    /// A watch: an unknown object is new.
    Any,
    /// The response to a write: an unknown object may already be deleted.
    KnownOnly,
}

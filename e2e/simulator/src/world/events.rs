//! What the shell reports to the model, and what the model asks it to do.

use crate::{
    objects::{
        AttachmentView, DiskView, DvpMachineView, DvpObjectId, DvpObjectKind, ImageView, OperationView,
        PodView,
    },
    shared,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// An event that the shell has observed.
pub type DvpModelEvent = shared::ModelEvent<DvpObjectId, DvpObjectKind, ObservedDvpObject>;
/// The result of a write.
pub type DvpWriteOutcome = shared::ModelWriteOutcome<ObservedDvpObject>;
/// An action of the shell.
pub type DvpModelAction = shared::ModelAction<DvpObjectId, DvpWrite>;

/// A state that lasts less than this is not written: the next state is written instead.
pub(super) const BRIEF: Duration = Duration::from_millis(50);

/// The last observed state of an object.
#[derive(Clone, Debug)]
pub enum ObservedDvpObject {
    /// VirtualMachine.
    Machine(Box<DvpMachineView>),
    /// VirtualDisk.
    Disk(Box<DiskView>),
    /// VirtualImage or ClusterVirtualImage.
    Image(DvpObjectKind, ImageView),
    /// VirtualMachineOperation.
    Operation(OperationView),
    /// VirtualMachineBlockDeviceAttachment.
    Attachment(AttachmentView),
    /// The Pod of a machine.
    Pod(Box<PodView>),
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum DvpWrite {
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
pub(super) enum DvpObservationSource {
    /// A watch: an unknown object is new.
    Any,
    /// The response to a write: an unknown object may already be deleted.
    KnownOnly,
}

//! What the shell reports to the model, and what the model asks it to do.

use super::objects::{Id, Kind, Object};
use crate::{
    knobs::Knobs,
    objects::{ClassView, Key},
    shared::Violation,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

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
    /// A write that [`World::step`](super::World::step) asked for has ended.
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

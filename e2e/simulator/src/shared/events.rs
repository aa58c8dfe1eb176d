//! What the shell reports to a model, and what the model asks it to do.

use super::DiskViolation;
use crate::{
    knobs::Knobs,
    objects::{ClassView, NamespacedKey},
};
use jiff::Timestamp;
use std::{collections::HashSet, sync::Arc};

/// An event that the shell has observed, for a model with these identities, kinds and objects.
#[derive(Debug)]
pub enum ModelEvent<I, K, O> {
    /// An object was added or changed.
    Seen(NamespacedKey, O),
    /// An object was deleted.
    Gone(I),
    /// A list that began at that time contains exactly these objects of a kind.
    Relisted {
        /// The listed kind.
        kind: K,
        /// The objects that exist.
        keys: HashSet<NamespacedKey>,
        /// When the list began. Later events are newer than the list.
        began: Timestamp,
    },
    /// The knobs of a namespace changed.
    Knobs(Arc<str>, Option<Box<Knobs>>),
    /// A storage class was added, changed or deleted.
    Class(String, Option<ClassView>),
    /// A write that the model has requested is complete.
    Written(I, ModelWriteOutcome<O>),
    /// All objects have been listed. Before this event the model only observes.
    Synced,
}

/// The result of a write.
#[derive(Debug)]
pub enum ModelWriteOutcome<O> {
    /// The write succeeded; this is the object, unless it was deleted.
    Done(Option<O>),
    /// Another client has changed the object.
    Conflict,
    /// The object does not exist.
    NotFound,
    /// The write was rejected or unconfirmed, for this reason.
    Failed(String),
}

/// An action of the shell.
#[derive(Clone, Debug)]
pub enum ModelAction<I, W> {
    /// Perform the write, and pass the result to the model.
    Write(I, W),
    /// Report a violation to users.
    Report(DiskViolation),
}

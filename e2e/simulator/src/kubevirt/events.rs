//! What the shell reports to the model, and what the model asks it to do.

use super::objects::{Id, Kind, Object};
use crate::shared;
use serde_json::Value;
use std::sync::Arc;

/// An event that the shell has observed.
pub type Event = shared::Event<Id, Kind, Object>;
/// The result of a write.
pub type Outcome = shared::Outcome<Object>;
/// An action of the shell.
pub type Action = shared::Action<Id, Write>;

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

//! What somebody attached to a machine by hand.

use std::sync::Arc;

use vmpool_engine::ObjectId;

/// An object that attaches a disk to a machine, outside of the machine's own list of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name and UID of the attachment.
    pub id: ObjectId,
    /// The disk; `None` if it attaches something else.
    pub disk: Option<Arc<str>>,
}

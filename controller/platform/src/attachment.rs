//! Attachments of disks to machines.

use std::sync::Arc;

use vmpool_engine::ObjectId;

/// An object that attaches a disk to a machine in addition to the device list of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskAttachment {
    /// Name and UID of the attachment.
    pub id: ObjectId,
    /// The disk; `None` if it attaches something else.
    pub disk: Option<Arc<str>>,
}

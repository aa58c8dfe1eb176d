//! Disks that are objects of the pool or of its machines.

use serde_json::Value;
use vmpool_engine::Disk;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, ObjectId};

use super::{ApiObject, NoObject};
use crate::DiskAttachment;

/// Disks as objects: how to read and write them, and the devices of machines that refer to them.
pub trait Disks<Pool, Machine>: Send + Sync + 'static {
    /// Whether the platform has them. If not, the controller requests none of these types.
    const EXIST: bool = true;
    /// Whether objects of type [`Disks::Attachment`] can attach disks to machines in addition to the device
    /// list of the machine. If not, the controller does not request that type.
    const HAS_ATTACHMENTS: bool;

    /// The disk.
    type Disk: ApiObject;
    /// An object that attaches a disk to a machine.
    type Attachment: ApiObject;

    /// Translates a stored disk.
    fn read(disk: &Self::Disk) -> Disk;

    /// Translates a stored attachment.
    fn read_attachment(attachment: &Self::Attachment) -> DiskAttachment;

    /// Names of the disk templates that machines of `template` have a device for.
    fn templates(template: &Value) -> Vec<String>;

    /// The object of a drafted disk of `machine`, with the machine or the pool as its owner, depending on its
    /// template; `None` if the template was removed from the pool.
    fn object(pool: &Pool, machine: &ObjectId, draft: &DiskDraft) -> Option<Value>;

    /// The merge patch that writes all annotations of a disk.
    fn annotations(annotations: &DiskAnnotations) -> Value;

    /// The merge patch that expands a disk to this size in bytes.
    fn expand(bytes: u64) -> Value;

    /// The merge patch that makes `machine`, a released machine, the owner of a disk of the pool. It removes
    /// the labels and annotations of the controller.
    fn transfer(disk: &Self::Disk, machine: &ObjectId) -> Value;

    /// The merge patch that gives a disk without a controller the owner and the labels of a drafted disk of
    /// `machine`, as [`Disks::object`]; `None` if the template was removed from the pool.
    fn adopt(pool: &Pool, disk: &Self::Disk, machine: &ObjectId, draft: &DiskDraft) -> Option<Value>;

    /// The JSON patch that replaces disk `from` with disk `to` at this position of the machine's devices. It
    /// fails if the device has changed.
    fn repoint(machine: &Machine, position: usize, from: &str, to: &DiskDraft) -> Value;

    /// The JSON patch that removes the device for `disk` at this position of the machine's devices. It fails
    /// if the device has changed. The disk map stays unchanged.
    fn detach(machine: &Machine, position: usize, disk: &str) -> Value;
}

/// For platforms without such disks: their pools have no disk templates, so that no disk is ever drafted.
#[derive(Clone, Copy, Debug)]
pub struct NoDisks;

impl<Pool, Machine> Disks<Pool, Machine> for NoDisks {
    const EXIST: bool = false;
    const HAS_ATTACHMENTS: bool = false;

    type Disk = NoObject;
    type Attachment = NoObject;

    fn read(disk: &NoObject) -> Disk {
        match *disk {}
    }
    fn read_attachment(attachment: &NoObject) -> DiskAttachment {
        match *attachment {}
    }
    fn templates(_: &Value) -> Vec<String> {
        Vec::new()
    }
    fn object(_: &Pool, _: &ObjectId, _: &DiskDraft) -> Option<Value> {
        None
    }
    fn annotations(_: &DiskAnnotations) -> Value {
        Value::Null
    }
    fn expand(_: u64) -> Value {
        Value::Null
    }
    fn transfer(disk: &NoObject, _: &ObjectId) -> Value {
        match *disk {}
    }
    fn adopt(_: &Pool, disk: &NoObject, _: &ObjectId, _: &DiskDraft) -> Option<Value> {
        match *disk {}
    }
    fn repoint(_: &Machine, _: usize, _: &str, _: &DiskDraft) -> Value {
        Value::Null
    }
    fn detach(_: &Machine, _: usize, _: &str) -> Value {
        Value::Null
    }
}

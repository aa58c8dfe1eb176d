//! Deckhouse DVP: `virtualization.deckhouse.io/v1alpha2` pools, machines and disks.

mod devices;
mod objects;
mod read;
mod template;
mod update;
mod write;

use serde_json::Value;
use vmpool_engine::model::{DiskDraft, Draft, Marks, ObjectId};
use vmpool_engine::numbers::Block;
use vmpool_engine::removal::Record;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Pool, Replica, Status};

use super::{Attachment, Platform};

pub use objects::{AttachmentObject, DiskObject, MachineObject, PoolObject};

/// `apiVersion` of pools, machines and disks.
const API_VERSION: &str = "virtualization.deckhouse.io/v1alpha2";

/// Deckhouse DVP.
#[derive(Clone, Copy, Debug)]
pub struct Dvp;

impl Platform for Dvp {
    const NAME: &'static str = "dvp";
    const HAS_DISKS: bool = true;
    const HAS_ATTACHMENTS: bool = true;

    const REVISION_LABEL: &'static str = vmpool_api::labels::TEMPLATE_HASH;

    type Pool = PoolObject;
    type Machine = MachineObject;
    type Disk = DiskObject;
    type Attachment = AttachmentObject;

    fn read_pool(pool: &PoolObject) -> Pool {
        read::pool(pool)
    }
    fn read_machine(machine: &MachineObject) -> Replica {
        read::machine(machine)
    }
    fn read_disk(disk: &DiskObject) -> Disk {
        read::disk(disk)
    }
    fn read_attachment(attachment: &AttachmentObject) -> Attachment {
        read::attachment(attachment)
    }
    fn template(pool: &PoolObject) -> Value {
        template::of(&pool.spec().virtual_machine_template)
    }
    fn canonical(template: &Value) -> Value {
        template::canonical(template)
    }
    fn disk_templates(template: &Value) -> Vec<String> {
        devices::templates(template).map(str::to_owned).collect()
    }
    fn machine(pool: &PoolObject, template: &Value, draft: &Draft) -> Value {
        write::machine(pool, template, draft)
    }
    fn update(
        live: &Value,
        from: Option<&Value>,
        to: (&RevisionId, &Value),
        disks: &[DiskDraft],
    ) -> Option<Value> {
        update::update(live, from, to, disks)
    }
    fn adopt(live: &Value, to: (&RevisionId, &Value), disks: &[DiskDraft]) -> Option<Value> {
        update::adopt(live, to, disks)
    }
    fn advance(revision: &RevisionId) -> Value {
        write::advance(revision)
    }
    fn marks(marks: &Marks) -> Value {
        write::marks(marks)
    }
    fn grow(bytes: u64) -> Value {
        write::grow(bytes)
    }
    fn hand_over(disk: &DiskObject, machine: &ObjectId) -> Value {
        write::hand_over(disk, machine)
    }
    fn disk(pool: &PoolObject, member: &ObjectId, draft: &DiskDraft) -> Option<Value> {
        write::disk(pool, member, draft)
    }
    fn mark(pool: &PoolObject) -> Value {
        write::mark(pool)
    }
    fn unmark() -> Value {
        write::unmark()
    }
    fn repoint(machine: &MachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
        write::repoint(machine, position, from, to)
    }
    fn detach(machine: &MachineObject, position: usize, disk: &str) -> Value {
        write::detach(machine, position, disk)
    }
    fn record(block: Block) -> Value {
        write::record(block)
    }
    fn removals(record: &Record) -> Value {
        write::removals(record)
    }
    fn status(pool: &PoolObject, status: &Status) -> Value {
        write::status(pool, status)
    }
}

/// The label selector that a pool publishes: it matches the machines, and their pods, since the platform copies every
/// label of a machine to its pod.
fn selector(pool_uid: &str) -> String {
    format!("{}={pool_uid}", vmpool_api::labels::POOL_UID)
}

#[cfg(test)]
mod tests;

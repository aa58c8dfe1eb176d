//! Deckhouse DVP: `virtualization.deckhouse.io/v1alpha2` pools, machines and disks.

pub mod admission;
mod devices;
mod names;
mod objects;
mod read;
pub mod removal;
mod template;
mod update;
mod write;

use serde_json::Value;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, Draft, ObjectId};
use vmpool_engine::names::NameBlock;
use vmpool_engine::removal::RemovalRecord;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Machine, Pool, Status};

use super::{Attachment, Platform};

pub use objects::{AttachmentObject, DiskObject, MachineObject, PoolObject};

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
    fn read_machine(machine: &MachineObject) -> Machine {
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
    fn record_revision(revision: &RevisionId) -> Value {
        write::record_revision(revision)
    }
    fn disk_annotations(annotations: &DiskAnnotations) -> Value {
        write::disk_annotations(annotations)
    }
    fn expand_disk(bytes: u64) -> Value {
        write::expand_disk(bytes)
    }
    fn transfer_disk(disk: &DiskObject, machine: &ObjectId) -> Value {
        write::transfer_disk(disk, machine)
    }
    fn disk(pool: &PoolObject, machine: &ObjectId, draft: &DiskDraft) -> Option<Value> {
        write::disk(pool, machine, draft)
    }
    fn managed_labels(pool: &PoolObject) -> Value {
        write::label_patch(pool)
    }
    fn remove_markers() -> Value {
        write::remove_markers()
    }
    fn repoint(machine: &MachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
        write::repoint(machine, position, from, to)
    }
    fn detach(machine: &MachineObject, position: usize, disk: &str) -> Value {
        write::detach(machine, position, disk)
    }
    fn name_block(block: NameBlock) -> Value {
        write::name_block(block)
    }
    fn removal_record(record: &RemovalRecord) -> Value {
        write::removal_record(record)
    }
    fn status(pool: &PoolObject, status: &Status) -> Value {
        write::status(pool, status)
    }
}

#[cfg(test)]
mod tests;

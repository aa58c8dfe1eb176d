//! Deckhouse DVP: `virtualization.deckhouse.io/v1alpha2` pools, machines and disks.

pub mod admission;
mod devices;
mod disk_sources;
mod names;
mod objects;
mod read;
mod registration;
pub mod removal;
mod standby;
mod template;
mod update;
mod view;
mod write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use vmpool_engine::model::{DiskAnnotations, DiskDraft, Draft, ObjectId, PublishedStatus};
use vmpool_engine::revisions::{Fingerprint, LiveParts, RevisionId, TemplateParts};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_engine::{ComputedStatus, Disk, Machine, ParsedPool};
use vmpool_platform::{
    DefaultWording, DiskAttachment, Disks, NoFinalizers, NoInstances, NoOtherController, NoStorage,
    NoTemplateCopies, PatchBody, Platform, RevisionObjects, StatusFields,
};

pub use objects::{DvpAttachmentObject, DvpDiskObject, DvpMachineObject, DvpPoolObject};

/// Deckhouse DVP.
#[derive(Clone, Copy, Debug)]
pub struct Dvp;

impl Platform for Dvp {
    const NAME: &'static str = "dvp";
    const MACHINES_OF: &'static str = vmpool_api::annotations::MACHINES_OF;

    type Pool = DvpPoolObject;
    type Machine = DvpMachineObject;
    type Instances = NoInstances;
    type Disks = Self;
    type DiskSources = Self;
    type Storage = NoStorage;
    type Revisions = Self;
    type TemplateCopies = NoTemplateCopies;
    type OtherController = NoOtherController;
    type Finalizers = NoFinalizers;
    type Wording = DefaultWording;

    fn read_pool(pool: &DvpPoolObject) -> ParsedPool {
        read::read_pool(pool)
    }
    fn read_machine(machine: &DvpMachineObject) -> Machine {
        read::read_machine(machine)
    }
    fn template(pool: &DvpPoolObject) -> Value {
        template::template_content(&pool.spec().virtual_machine_template)
    }
    fn canonical(template: &Value) -> Value {
        template::canonical_template(template)
    }
    fn machine(pool: &DvpPoolObject, template: &Value, draft: &Draft) -> Value {
        let mut machine = write::machine_object(pool, template, draft);
        if let Some(phase) = draft.standby {
            standby::mark_standby(&mut machine, phase);
        }
        machine
    }
    fn activate(pool: &DvpPoolObject, _: &Value, revision: &RevisionId, to: &Value, at: &str) -> Value {
        standby::activate_standby(pool, revision, to, at)
    }
    fn stop_standby(_: &Value) -> Value {
        standby::stop_standby()
    }
    fn start_operation(namespace: &str, machine: &ObjectId) -> Option<Value> {
        Some(standby::start_operation(namespace, machine))
    }
    fn start_operations(namespace: &str) -> String {
        format!("/apis/{}/namespaces/{namespace}/virtualmachineoperations", names::API_VERSION)
    }
    fn update(
        live: &Value,
        from: Option<&Value>,
        revision: &RevisionId,
        to: &Value,
        disks: &[DiskDraft],
    ) -> Option<Value> {
        update::update_machine(live, from, revision, to, disks)
    }
    fn adopt(live: &Value, revision: &RevisionId, to: &Value, disks: &[DiskDraft]) -> Option<Value> {
        update::adopt_machine(live, revision, to, disks)
    }
    fn record_revision(revision: &RevisionId) -> Value {
        write::record_revision(revision)
    }
    fn managed_labels(pool: &DvpPoolObject) -> Value {
        write::label_patch(pool)
    }
    fn release(_: &DvpMachineObject) -> PatchBody {
        PatchBody::Merge(write::remove_markers())
    }
    fn name_block(block: NameBlock) -> Value {
        write::name_block(block)
    }
    /// Names do not return, so the name block says enough.
    fn removed_machines(_: &RemovedMachines) -> Value {
        json!({})
    }
    fn removal_record(record: &RemovalRecord) -> Value {
        write::removal_record(record)
    }
    fn status(pool: &DvpPoolObject, status: &ComputedStatus, _: StatusFields) -> Value {
        write::status_object(pool, status)
    }
    fn published(pool: &DvpPoolObject, status: &Value) -> PublishedStatus {
        read::published(pool, status)
    }
}

impl Disks<DvpPoolObject, DvpMachineObject> for Dvp {
    const HAS_ATTACHMENTS: bool = true;

    type Disk = DvpDiskObject;
    type Attachment = DvpAttachmentObject;

    fn read(disk: &DvpDiskObject) -> Disk {
        read::read_disk(disk)
    }
    fn read_attachment(attachment: &DvpAttachmentObject) -> DiskAttachment {
        read::read_attachment(attachment)
    }
    fn templates(template: &Value) -> Vec<String> {
        devices::attached_disk_templates(template).map(str::to_owned).collect()
    }
    fn object(pool: &DvpPoolObject, machine: &ObjectId, draft: &DiskDraft) -> Option<Value> {
        write::disk_object(pool, machine, draft)
    }
    fn annotations(annotations: &DiskAnnotations) -> Value {
        write::disk_annotations(annotations)
    }
    fn expand(bytes: u64) -> Value {
        write::expand_disk(bytes)
    }
    fn transfer(disk: &DvpDiskObject, machine: &ObjectId) -> Value {
        write::transfer_disk(disk, machine)
    }
    fn adopt(
        pool: &DvpPoolObject,
        disk: &DvpDiskObject,
        machine: &ObjectId,
        draft: &DiskDraft,
    ) -> Option<Value> {
        write::adopt_disk(pool, disk, machine, draft)
    }
    fn repoint(machine: &DvpMachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
        write::repoint_disk(machine, position, from, to)
    }
    fn detach(machine: &DvpMachineObject, position: usize, disk: &str) -> Value {
        write::detach_disk(machine, position, disk)
    }
}

impl RevisionObjects<DvpPoolObject> for Dvp {
    const LABEL: Option<&'static str> = Some(vmpool_api::labels::TEMPLATE_HASH);

    fn id(metadata: &ObjectMeta) -> Option<&str> {
        metadata.labels.as_ref()?.get(vmpool_api::labels::TEMPLATE_HASH).map(String::as_str)
    }
    fn selector(pool: &DvpPoolObject) -> Option<String> {
        Some(names::machine_label_selector(pool.metadata.uid.as_deref().unwrap_or_default()))
    }
    fn names(_: &ObjectId, _: i64) -> Option<impl Iterator<Item = RevisionId>> {
        None::<std::iter::Empty<RevisionId>>
    }
    fn object_names(pool: &ObjectId, id: &RevisionId) -> Vec<String> {
        id.object_names(&pool.name, pool.uid.as_str()).into()
    }
    fn object(pool: &DvpPoolObject, name: &str, id: &RevisionId, number: i64, template: &Value) -> Value {
        write::revision_object(pool, name, id, number, template)
    }
    /// The platform decides what a change of the spec takes, and no instance and no storage is created from a
    /// part of it. Only labels and annotations are known to disrupt nothing.
    fn parts(template: &Value) -> Option<TemplateParts> {
        Some(TemplateParts {
            instance: Fingerprint::of(&Self::canonical(template)["spec"]),
            live: LiveParts::default(),
            storage: Fingerprint::of(&Value::Null),
        })
    }
}

#[cfg(test)]
mod tests;

//! Disks and attachments.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::{Quantity, annotations, labels};
use vmpool_engine::Disk;
use vmpool_engine::limits;
use vmpool_engine::model::{DiskAnnotations, DiskRestore, DiskState, StoredTime};
use vmpool_engine::revisions::Fingerprint;
use vmpool_platform::{DiskAttachment, intern_text, owner_of};

use super::super::names::{RESTORE_CREATED, RESTORE_DELETES};
use super::super::objects::{
    DvpAttachmentObject, DvpDiskObject, DvpDiskStatus, DvpMachineObject, DvpPoolObject,
};
use super::{
    annotation_value, creation_time, label_value, object_id, parse_annotation_time, pool_uid,
    truncated_message,
};

pub(crate) fn read_disk(object: &DvpDiskObject) -> Disk {
    let metadata = &object.metadata;
    let status = &object.status;
    let mounted = status.attached_to_virtual_machines.iter().find(|machine| machine.mounted);
    let time = |key| {
        annotation_value(metadata, key)
            .map(|text| parse_annotation_time(text).map_or(StoredTime::Unreadable, StoredTime::At))
    };
    Disk {
        id: object_id(metadata),
        created: creation_time(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: owner_of::<DvpPoolObject, DvpMachineObject>(metadata),
        pool_uid_label: label_value(metadata, labels::POOL_UID).map(pool_uid),
        template: label_value(metadata, labels::DISK_TEMPLATE).map(intern_text),
        state: disk_state(status),
        pending_source: is_without_data(status).then(|| Fingerprint::of(&object.spec.data_source)),
        failure: disk_failure(status),
        size: size_in_bytes(object.spec.persistent_volume_claim.size.as_ref()),
        capacity: size_in_bytes(status.capacity.as_ref()),
        mounted_by: mounted.map(|machine| limits::clip_name(&machine.name).into()),
        used_otherwise: used_otherwise(status),
        restore: read_restore(metadata),
        annotations: DiskAnnotations {
            claimed_by: annotation_value(metadata, annotations::CLAIMED_BY)
                .filter(|name| !name.is_empty())
                .map(|name| limits::clip_name(name).into()),
            free_since: time(annotations::FREE_SINCE),
            collecting_since: time(annotations::COLLECTING_SINCE),
        },
    }
}

/// An operation of the platform marks the disk that it deletes, and the one that it creates, with its own
/// UID.
fn read_restore(metadata: &ObjectMeta) -> DiskRestore {
    let mark = |key| annotation_value(metadata, key).filter(|operation| !operation.is_empty());
    match (mark(RESTORE_DELETES), mark(RESTORE_CREATED)) {
        (Some(deletes), created) if created != Some(deletes) => DiskRestore::Replaced,
        (_, Some(_)) => DiskRestore::Created,
        _ => DiskRestore::None,
    }
}

fn disk_state(status: &DvpDiskStatus) -> DiskState {
    if status.conditions.iter().any(|condition| condition.holds("Resizing")) {
        return DiskState::Changing;
    }
    match status.phase.as_str() {
        "Ready" | "Exporting" => DiskState::Ready,
        "Resizing" | "Migrating" => DiskState::Changing,
        "Failed" => DiskState::Failed,
        "PVCLost" => DiskState::Lost,
        // Being provisioned, waiting for an upload or for the first consumer, or a phase of a later version
        // of the platform.
        _ => DiskState::Pending,
    }
}

/// Whether it is being provisioned. Then nothing is lost if another disk takes its place.
fn is_without_data(status: &DvpDiskStatus) -> bool {
    disk_state(status) == DiskState::Pending && status.capacity.is_none()
}

/// The message of the condition `Ready`, or its reason if it has no message. A disk that waits for an object
/// is `Pending`; without a message it waits only for its turn.
fn disk_failure(status: &DvpDiskStatus) -> Option<Arc<str>> {
    let failed = matches!(disk_state(status), DiskState::Failed | DiskState::Lost);
    if !failed && status.phase != "Pending" {
        return None;
    }
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready")?;
    let words = if failed && ready.message.is_empty() { &ready.reason } else { &ready.message };
    (!words.is_empty()).then(|| truncated_message(words))
}

/// `InUse` is False while the machine of the disk is stopped, so it does not show the use by machines. Any
/// reason except those about machines is another use of the disk.
fn used_otherwise(status: &DvpDiskStatus) -> bool {
    let in_use = status.conditions.iter().find(|condition| condition.holds("InUse"));
    let by_machine = ["AttachedToVirtualMachine", ""];
    status.phase == "Exporting" || in_use.is_some_and(|condition| !by_machine.contains(&&*condition.reason))
}

fn size_in_bytes(size: Option<&Quantity>) -> Option<u64> {
    size?.bytes().ok()
}

pub(crate) fn read_attachment(object: &DvpAttachmentObject) -> DiskAttachment {
    let device = &object.spec.block_device_ref;
    DiskAttachment { id: object_id(&object.metadata), disk: device.disk().map(Into::into) }
}

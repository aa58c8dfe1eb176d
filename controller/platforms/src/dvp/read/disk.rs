//! Disks and attachments.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use vmpool_api::{Quantity, annotations, labels};
use vmpool_engine::Disk;
use vmpool_engine::limits;
use vmpool_engine::model::{DiskAnnotations, DiskRestore, DiskState, StoredTime};
use vmpool_engine::revision::Fingerprint;

use super::super::names::{RESTORE_CREATED, RESTORE_DELETES};
use super::super::objects::{AttachmentObject, DiskObject, DiskStatus, MachineObject, PoolObject};
use super::{annotation, created, id, label, message, moment, pool_uid};
use crate::{Attachment, intern, owner_of};

pub(in super::super) fn disk(object: &DiskObject) -> Disk {
    let metadata = &object.metadata;
    let status = &object.status;
    let mounted = status.attached_to_virtual_machines.iter().find(|machine| machine.mounted);
    let time = |key| {
        annotation(metadata, key).map(|text| moment(text).map_or(StoredTime::Unreadable, StoredTime::At))
    };
    Disk {
        id: id(metadata),
        created: created(metadata),
        terminating: metadata.deletion_timestamp.is_some(),
        owner: owner_of::<PoolObject, MachineObject>(metadata),
        pool_uid_label: label(metadata, labels::POOL_UID).map(pool_uid),
        template: label(metadata, labels::DISK_TEMPLATE).map(intern),
        state: state(status),
        pending_source: is_without_data(status).then(|| Fingerprint::of(&object.spec.data_source)),
        failure: failure(status),
        size: bytes(object.spec.persistent_volume_claim.size.as_ref()),
        capacity: bytes(status.capacity.as_ref()),
        mounted_by: mounted.map(|machine| limits::clip(&machine.name).into()),
        used_otherwise: used_otherwise(status),
        restore: read_restore(metadata),
        annotations: DiskAnnotations {
            claimed_by: annotation(metadata, annotations::CLAIMED_BY)
                .filter(|name| !name.is_empty())
                .map(|name| limits::clip(name).into()),
            free_since: time(annotations::FREE_SINCE),
            collecting_since: time(annotations::COLLECTING_SINCE),
        },
    }
}

/// An operation of the platform marks the disk that it deletes, and the one that it creates, with its own UID.
fn read_restore(metadata: &ObjectMeta) -> DiskRestore {
    let mark = |key| annotation(metadata, key).filter(|operation| !operation.is_empty());
    match (mark(RESTORE_DELETES), mark(RESTORE_CREATED)) {
        (Some(deletes), created) if created != Some(deletes) => DiskRestore::Replaced,
        (_, Some(_)) => DiskRestore::Created,
        _ => DiskRestore::None,
    }
}

fn state(status: &DiskStatus) -> DiskState {
    if status.conditions.iter().any(|condition| condition.holds("Resizing")) {
        return DiskState::Changing;
    }
    match status.phase.as_str() {
        "Ready" | "Exporting" => DiskState::Ready,
        "Resizing" | "Migrating" => DiskState::Changing,
        "Failed" => DiskState::Failed,
        "PVCLost" => DiskState::Lost,
        // Being provisioned, waiting for an upload or for the first consumer, or a phase of a later version of the
        // platform.
        _ => DiskState::Pending,
    }
}

/// Whether it is being provisioned. Then nothing is lost if another disk takes its place.
fn is_without_data(status: &DiskStatus) -> bool {
    state(status) == DiskState::Pending && status.capacity.is_none()
}

/// The message of the condition `Ready`, or its reason if it has no message. A disk that waits for an object is
/// `Pending`; without a message it waits only for its turn.
fn failure(status: &DiskStatus) -> Option<Arc<str>> {
    let failed = matches!(state(status), DiskState::Failed | DiskState::Lost);
    if !failed && status.phase != "Pending" {
        return None;
    }
    let ready = status.conditions.iter().find(|condition| condition.kind == "Ready")?;
    let words = if failed && ready.message.is_empty() { &ready.reason } else { &ready.message };
    (!words.is_empty()).then(|| message(words))
}

/// `InUse` is False while the machine of the disk is stopped, so it does not show the use by machines. Any reason
/// except those about machines is another use of the disk.
fn used_otherwise(status: &DiskStatus) -> bool {
    let in_use = status.conditions.iter().find(|condition| condition.holds("InUse"));
    let by_machine = ["AttachedToVirtualMachine", ""];
    status.phase == "Exporting" || in_use.is_some_and(|condition| !by_machine.contains(&&*condition.reason))
}

fn bytes(size: Option<&Quantity>) -> Option<u64> {
    size?.bytes().ok()
}

pub(in super::super) fn attachment(object: &AttachmentObject) -> Attachment {
    let device = &object.spec.block_device_ref;
    Attachment { id: id(&object.metadata), disk: device.disk().map(Into::into) }
}

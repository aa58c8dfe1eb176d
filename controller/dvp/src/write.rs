//! Translation of the data model of the engine to DVP objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::{Map, Value, json};
use vmpool_api::{annotations, labels};
use vmpool_engine::ComputedStatus;
use vmpool_engine::draining::MARK as DRAINING;
use vmpool_engine::image_refresh::DISK_SOURCES;
use vmpool_engine::model::{DiskAnnotations, DiskDraft, Draft, Lifetime, ObjectId, StoredTime};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_platform::activity;

use super::names::{API_VERSION, machine_label_selector};
use super::objects::{DvpDiskObject, DvpMachineObject, DvpPoolObject};
use super::{devices, update};

/// The object of a new machine, with all labels and annotations and with resolved disks. A machine with the
/// name of a template as a disk name would refer to any disk of the namespace with that name.
pub(super) fn machine_object(pool: &DvpPoolObject, template: &Value, draft: &Draft) -> Value {
    let mut labels = update::settable_entries(&template["metadata"]["labels"]);
    labels.extend(managed_labels(pool));
    labels.insert(labels::TEMPLATE_HASH.into(), draft.revision.as_str().into());
    let mut annotations = update::settable_entries(&template["metadata"]["annotations"]);
    annotations.insert(annotations::PATCHED_TEMPLATE_HASH.into(), draft.revision.as_str().into());
    annotations.insert(annotations::DISKS.into(), disk_map(&draft.disks).into());
    let mut spec = template["spec"].clone();
    if spec.get(devices::FIELD).is_some() {
        spec[devices::FIELD] = devices::drafted_devices(template, &draft.disks).into();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachine",
        "metadata": {
            "name": &*draft.name,
            "namespace": pool.namespace(),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference("VirtualMachinePool", &pool.name_any(), &pool.uid().unwrap_or_default())],
        },
        "spec": spec,
    })
}

/// The object of a new revision.
pub(super) fn revision_object(
    pool: &DvpPoolObject,
    name: &str,
    id: &RevisionId,
    number: i64,
    template: &Value,
) -> Value {
    let mut labels = managed_labels(pool);
    labels.insert(labels::TEMPLATE_HASH.into(), id.as_str().into());
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": name,
            "namespace": pool.namespace(),
            "labels": labels,
            "ownerReferences": [owner_reference("VirtualMachinePool", &pool.name_any(), &pool.uid().unwrap_or_default())],
        },
        "data": template,
        "revision": number,
    })
}

/// The pool owns retained disks, and the machine owns ephemeral ones.
pub(super) fn disk_object(pool: &DvpPoolObject, machine: &ObjectId, draft: &DiskDraft) -> Option<Value> {
    let templates = pool.spec().virtual_disk_templates;
    let template = templates.into_iter().find(|known| known.name == *draft.template)?;
    let mut labels = managed_labels(pool);
    labels.insert(labels::DISK_TEMPLATE.into(), (*draft.template).into());
    let owner = match template.lifetime() {
        Lifetime::Ephemeral => owner_reference("VirtualMachine", &machine.name, machine.uid.as_str()),
        Lifetime::Retained => {
            owner_reference("VirtualMachinePool", &pool.name_any(), &pool.uid().unwrap_or_default())
        }
    };
    Some(json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualDisk",
        "metadata": {
            "name": &*draft.name,
            "namespace": pool.namespace(),
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": template.spec,
    }))
}

pub(super) fn record_revision(revision: &RevisionId) -> Value {
    // A drain for the restart that brought the revision into effect is over.
    json!({ "metadata": {
        "labels": { labels::TEMPLATE_HASH: revision.as_str() },
        "annotations": { DRAINING: null },
    }})
}

/// An unreadable time stays unchanged.
pub(super) fn disk_annotations(stored: &DiskAnnotations) -> Value {
    let mut annotations = Map::new();
    annotations.insert(annotations::CLAIMED_BY.to_owned(), stored.claimed_by.as_deref().into());
    for (key, time) in [
        (annotations::FREE_SINCE, stored.free_since),
        (annotations::COLLECTING_SINCE, stored.collecting_since),
    ] {
        let value = match time {
            None => Value::Null,
            Some(StoredTime::At(moment)) => format_timestamp(moment).into(),
            Some(StoredTime::Unreadable) => continue,
        };
        annotations.insert(key.to_owned(), value);
    }
    json!({ "metadata": { "annotations": annotations } })
}

pub(super) fn expand_disk(bytes: u64) -> Value {
    json!({ "spec": { "persistentVolumeClaim": { "size": format_quantity(bytes) } } })
}

/// Owners that are not controllers stay. A merge patch replaces the whole list.
pub(super) fn transfer_disk(disk: &DvpDiskObject, machine: &ObjectId) -> Value {
    let others = disk.owner_references().iter().filter(|owner| owner.controller != Some(true));
    let mut owners: Vec<Value> = others.map(|owner| json!(owner)).collect();
    owners.push(owner_reference("VirtualMachine", &machine.name, machine.uid.as_str()));
    json!({ "metadata": {
        "ownerReferences": owners,
        "labels": { labels::POOL_UID: null, labels::POOL: null, labels::DISK_TEMPLATE: null },
        "annotations": {
            annotations::CLAIMED_BY: null,
            annotations::FREE_SINCE: null,
            annotations::COLLECTING_SINCE: null,
        },
    }})
}

/// The owner and the labels of a disk that the controller creates. Owners that are not controllers stay, but
/// for the owner itself: the platform may have added it without making it the controller.
pub(super) fn adopt_disk(
    pool: &DvpPoolObject,
    found: &DvpDiskObject,
    machine: &ObjectId,
    draft: &DiskDraft,
) -> Option<Value> {
    let wanted = disk_object(pool, machine, draft)?;
    let wanted = &wanted["metadata"];
    let is_other = |owner: &&OwnerReference| wanted["ownerReferences"][0]["uid"] != *owner.uid;
    let others = found.owner_references().iter().filter(|owner| owner.controller != Some(true));
    let mut owners: Vec<Value> = others.filter(is_other).map(|owner| json!(owner)).collect();
    owners.push(wanted["ownerReferences"][0].clone());
    Some(json!({ "metadata": { "ownerReferences": owners, "labels": wanted["labels"] } }))
}

/// A size in bytes as a quantity in the largest unit without a fraction.
fn format_quantity(bytes: u64) -> String {
    let mut rest = bytes;
    let mut units = ["", "Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if rest == 0 || !rest.is_multiple_of(1024) {
            break;
        }
        rest /= 1024;
        unit = larger;
    }
    format!("{rest}{unit}")
}

/// In whole seconds, as the API server stores times.
fn format_timestamp(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(super) fn label_patch(pool: &DvpPoolObject) -> Value {
    json!({ "metadata": { "labels": managed_labels(pool) } })
}

pub(super) fn remove_markers() -> Value {
    json!({ "metadata": {
        "labels": { labels::POOL_UID: null, labels::POOL: null, labels::TEMPLATE_HASH: null },
        "annotations": { annotations::DISKS: null, annotations::PATCHED_TEMPLATE_HASH: null, DRAINING: null, DISK_SOURCES: null },
    }})
}

pub(super) fn repoint_disk(machine: &DvpMachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
    let old = machine.annotations().get(annotations::DISKS);
    let mut map: BTreeMap<String, String> =
        old.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    map.insert(to.template.to_string(), to.name.to_string());
    let device = format!("/spec/blockDeviceRefs/{position}/name");
    let annotation =
        format!("/metadata/annotations/{}", annotations::DISKS.replace('~', "~0").replace('/', "~1"));
    let map = json!(map).to_string();
    // A JSON patch cannot test that a value is absent, so this tests the version of the machine instead.
    let unchanged = match old {
        Some(old) => json!({ "op": "test", "path": annotation, "value": old }),
        None => {
            json!({ "op": "test", "path": "/metadata/resourceVersion", "value": machine.resource_version() })
        }
    };
    let noted = if machine.annotations().is_empty() {
        json!({ "op": "add", "path": "/metadata/annotations", "value": { annotations::DISKS: map } })
    } else {
        json!({ "op": "add", "path": annotation, "value": map })
    };
    json!([
        { "op": "test", "path": "/metadata/uid", "value": machine.uid() },
        { "op": "test", "path": device, "value": from },
        unchanged,
        { "op": "replace", "path": device, "value": &*to.name },
        noted,
    ])
}

pub(super) fn detach_disk(machine: &DvpMachineObject, position: usize, disk: &str) -> Value {
    let device = format!("/spec/blockDeviceRefs/{position}");
    json!([
        { "op": "test", "path": "/metadata/uid", "value": machine.uid() },
        { "op": "test", "path": format!("{device}/kind"), "value": "VirtualDisk" },
        { "op": "test", "path": format!("{device}/name"), "value": disk },
        { "op": "remove", "path": device },
    ])
}

pub(super) fn name_block(block: NameBlock) -> Value {
    json!({ "metadata": { "annotations": { annotations::NAMES: block.to_string() } } })
}

pub(super) fn removal_record(record: &RemovalRecord) -> Value {
    let text = (!record.is_empty()).then(|| record.to_string());
    json!({ "metadata": { "annotations": { annotations::SCALE_DOWN_TARGETS: text } } })
}

/// Most counters with the value zero are written as well, so that
/// `kubectl wait --for=jsonpath='{.status.replicas}'=0` works.
pub(super) fn status_object(pool: &DvpPoolObject, status: &ComputedStatus) -> Value {
    let summary = &status.summary;
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|condition| {
            let mut object = json!({
                "type": condition.kind,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": format_timestamp(condition.last_transition),
            });
            if let Some(generation) = condition.observed_generation {
                object["observedGeneration"] = generation.into();
            }
            object
        })
        .collect();
    let mut object = json!({
        "observedGeneration": summary.observed_generation,
        "replicas": summary.replicas,
        "readyReplicas": summary.ready,
        "updatedReplicas": summary.updated,
        "restartPendingReplicas": summary.restart_pending,
        "desiredTemplateHash": summary.revision.as_str(),
        "selector": machine_label_selector(&pool.uid().unwrap_or_default()),
        "conditions": conditions,
    });
    // A pool without standby machines has the status of earlier versions.
    if summary.standby.total > 0 {
        object["standbyReplicas"] = summary.standby.total.into();
        object["readyStandbyReplicas"] = summary.standby.ready.into();
    }
    if summary.draining > 0 {
        object["drainingReplicas"] = summary.draining.into();
    }
    if summary.image_outdated > 0 {
        object["imageOutdatedReplicas"] = summary.image_outdated.into();
    }
    if let Some(number) = summary.next_number {
        object["nextMachineNumber"] = number.into();
    }
    if !status.activity.is_empty() {
        object["activity"] = activity::write_activity_entries(&status.activity);
    }
    object
}

pub(super) fn managed_labels(pool: &DvpPoolObject) -> Map<String, Value> {
    Map::from_iter([
        (labels::POOL_UID.to_owned(), pool.uid().unwrap_or_default().into()),
        (labels::POOL.to_owned(), pool.name_any().into()),
    ])
}

fn owner_reference(kind: &str, name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

fn disk_map(disks: &[DiskDraft]) -> String {
    let map: BTreeMap<&str, &str> = disks.iter().map(|disk| (&*disk.template, &*disk.name)).collect();
    json!(map).to_string()
}

//! From the engine's words to DVP's objects.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Map, Value, json};
use vmpool_api::{annotations, labels};
use vmpool_engine::Status;
use vmpool_engine::model::{DiskDraft, Draft, ObjectId};
use vmpool_engine::numbers::Block;
use vmpool_engine::removal::Record;

use super::objects::{MachineObject, PoolObject};
use super::{API_VERSION, selector};

/// Every marker is set and every disk resolved in this one write: a machine that still named a template would refer to
/// whatever disk of the namespace happens to be called like it.
pub(super) fn machine(pool: &PoolObject, draft: &Draft) -> Value {
    let template = &pool.spec.virtual_machine_template;
    let mut labels = object_at(&template.metadata, "labels");
    labels.extend(managed_labels(pool));
    labels.insert(labels::TEMPLATE_HASH.into(), draft.revision.as_str().into());
    let mut annotations = object_at(&template.metadata, "annotations");
    annotations.insert(annotations::PATCHED_TEMPLATE_HASH.into(), draft.revision.as_str().into());
    annotations.insert(annotations::DISKS.into(), disk_map(&draft.disks).into());
    let mut spec = template.spec.clone();
    for device in spec.pointer_mut("/blockDeviceRefs").and_then(Value::as_array_mut).into_iter().flatten() {
        let disk = draft.disks.iter().find(|disk| device["name"] == *disk.template);
        if let (true, Some(disk)) = (device["kind"] == "VirtualDisk", disk) {
            device["name"] = (*disk.name).into();
        }
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachine",
        "metadata": {
            "name": &*draft.name,
            "namespace": pool.namespace(),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner("VirtualMachinePool", &pool.name_any(), &pool.uid().unwrap_or_default())],
        },
        "spec": spec,
    })
}

pub(super) fn disk(pool: &PoolObject, member: &ObjectId, draft: &DiskDraft) -> Option<Value> {
    let template = pool.spec.virtual_disk_templates.iter().find(|known| known.name == *draft.template)?;
    let mut labels = managed_labels(pool);
    labels.insert(labels::DISK_TEMPLATE.into(), (*draft.template).into());
    Some(json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualDisk",
        "metadata": {
            "name": &*draft.name,
            "namespace": pool.namespace(),
            "labels": labels,
            "ownerReferences": [owner("VirtualMachine", &member.name, member.uid.as_str())],
        },
        "spec": template.spec,
    }))
}

pub(super) fn mark(pool: &PoolObject) -> Value {
    json!({ "metadata": { "labels": managed_labels(pool) } })
}

pub(super) fn unmark() -> Value {
    json!({ "metadata": {
        "labels": { labels::POOL_UID: null, labels::POOL: null, labels::TEMPLATE_HASH: null },
        "annotations": { annotations::DISKS: null, annotations::PATCHED_TEMPLATE_HASH: null },
    }})
}

pub(super) fn repoint(machine: &MachineObject, position: usize, from: &str, to: &DiskDraft) -> Value {
    let old = machine.annotations().get(annotations::DISKS);
    let mut map: BTreeMap<String, String> =
        old.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    map.insert(to.template.to_string(), to.name.to_string());
    let device = format!("/spec/blockDeviceRefs/{position}/name");
    let annotation =
        format!("/metadata/annotations/{}", annotations::DISKS.replace('~', "~0").replace('/', "~1"));
    json!([
        { "op": "test", "path": "/metadata/uid", "value": machine.uid() },
        { "op": "test", "path": device, "value": from },
        { "op": "test", "path": annotation, "value": old },
        { "op": "replace", "path": device, "value": &*to.name },
        { "op": "replace", "path": annotation, "value": json!(map).to_string() },
    ])
}

pub(super) fn record(block: Block) -> Value {
    json!({ "metadata": { "annotations": { annotations::NAMES: block.to_string() } } })
}

pub(super) fn removals(record: &Record) -> Value {
    let text = (!record.is_empty()).then(|| record.to_string());
    json!({ "metadata": { "annotations": { annotations::SCALE_DOWN_TARGETS: text } } })
}

/// Zero counters are written too, so that `kubectl wait --for=jsonpath='{.status.replicas}'=0` works.
pub(super) fn status(pool: &PoolObject, status: &Status) -> Value {
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
                // Whole seconds: that is all that the API keeps.
                "lastTransitionTime": condition.last_transition.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            });
            if let Some(generation) = condition.observed_generation {
                object["observedGeneration"] = generation.into();
            }
            object
        })
        .collect();
    json!({
        "observedGeneration": summary.observed_generation,
        "replicas": summary.replicas,
        "readyReplicas": summary.ready,
        "updatedReplicas": summary.updated,
        "restartPendingReplicas": summary.restart_pending,
        "desiredTemplateHash": summary.revision.as_str(),
        "selector": selector(&pool.uid().unwrap_or_default()),
        "conditions": conditions,
    })
}

fn managed_labels(pool: &PoolObject) -> Map<String, Value> {
    Map::from_iter([
        (labels::POOL_UID.to_owned(), pool.uid().unwrap_or_default().into()),
        (labels::POOL.to_owned(), pool.name_any().into()),
    ])
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
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

fn object_at(value: &Value, key: &str) -> Map<String, Value> {
    value.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

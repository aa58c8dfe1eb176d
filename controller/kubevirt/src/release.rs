//! Finalizers, owner references and the storage of removed machines: JSON patches that change exactly one
//! entry of a list, and fail if the list has changed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::annotations::MACHINES_OF;
use vmpool_engine::copied_pool;
use vmpool_engine::draining::MARK as DRAINING;
use vmpool_engine::image_refresh::DISK_SOURCES;
use vmpool_engine::model::ObjectId;
use vmpool_engine::protection::RESTARTING;
use vmpool_platform::owner::{is_a, is_owner};

use super::keys::{FINALIZER, PRESERVED_ORDINAL, PRESERVED_POOL, parse_machine_ordinal};
use super::objects::{DEPENDENTS_FIRST, FinalizerSummary, KubeVirtMachineObject, KubeVirtPoolObject};

/// An object to patch.
#[derive(Clone, Copy, Debug)]
pub struct PatchTarget<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
}

/// The JSON patch that appends the finalizer of the pool to a pool or a machine; `None` if it is there. The
/// finalizers of other clients stay.
pub fn add_finalizer(target: PatchTarget<'_>, finalizers: FinalizerSummary) -> Option<Value> {
    if finalizers.position.is_some() {
        return None;
    }
    let add = if finalizers.count == 0 {
        json!({ "op": "add", "path": "/metadata/finalizers", "value": [FINALIZER] })
    } else {
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER })
    };
    // Without the version, the first form would replace the finalizer that another client has added
    // meanwhile.
    Some(json!([test_operation("/metadata/uid", target.uid), resource_version_test(target), add]))
}

/// The operation that records on a pool that its machines are its own; `None` if there is a record, also that
/// of a former pool. The patch must test the version of the pool.
pub fn record_machines_of(pool: &ObjectMeta) -> Option<Value> {
    let record = copied_pool::machines_record(&super::read::read_object_id(pool));
    match &pool.annotations {
        Some(map) if map.contains_key(MACHINES_OF) => None,
        Some(map) if !map.is_empty() => {
            let path = metadata_path("annotations", MACHINES_OF);
            Some(json!({ "op": "add", "path": path, "value": record }))
        }
        _ => Some(json!({ "op": "add", "path": "/metadata/annotations", "value": { MACHINES_OF: record } })),
    }
}

/// The JSON patch that removes the finalizer of the pool from a pool or a machine; `None` if it is not there.
///
/// It does not depend on the version of the object, because a machine that is being deleted changes often.
pub fn remove_finalizer(uid: &str, finalizers: FinalizerSummary) -> Option<Value> {
    Some(Value::Array(
        [vec![test_operation("/metadata/uid", uid)], finalizer_removal_operations(finalizers)?].concat(),
    ))
}

/// The JSON patch that removes the finalizer of a deletion after the dependents; `None` if it is not the only
/// one.
pub fn end_deletion(uid: &str, finalizers: FinalizerSummary) -> Option<Value> {
    let is_only = finalizers.dependents_first && finalizers.count == 1;
    is_only.then(|| {
        json!([
            test_operation("/metadata/uid", uid),
            { "op": "test", "path": "/metadata/finalizers", "value": [DEPENDENTS_FIRST] },
            { "op": "remove", "path": "/metadata/finalizers" },
        ])
    })
}

/// The JSON patch that releases a machine: it removes the owner reference of the pool and the finalizer of
/// the pool, and nothing else. `None` if the machine has neither.
///
/// The revision labels stay. The one in the template cannot be removed without a change of the template of a
/// running guest.
pub fn release_machine(machine: &ObjectMeta, finalizers: FinalizerSummary) -> Option<Value> {
    let owner = controller_removal_operations(machine, is_a::<KubeVirtPoolObject>).unwrap_or_default();
    let finalizer = finalizer_removal_operations(finalizers).unwrap_or_default();
    let changes = [owner, finalizer].concat();
    let uid = machine.uid.as_deref().unwrap_or_default();
    (!changes.is_empty())
        .then(|| Value::Array([vec![test_operation("/metadata/uid", uid)], changes].concat()))
}

/// The operations that remove the marks of a restart and of a drain from a machine, which no controller would
/// remove any more.
pub fn remove_step_marks(machine: &ObjectMeta) -> impl Iterator<Item = Value> + '_ {
    let marks = [RESTARTING, DRAINING, DISK_SOURCES].into_iter();
    let marks = marks.filter(|key| machine.annotations.as_ref().is_some_and(|map| map.contains_key(*key)));
    marks.map(|key| json!({ "op": "remove", "path": metadata_path("annotations", key) }))
}

/// The JSON patch that makes a DataVolume or a claim outlive `machine`, which is being removed: it removes
/// the owner reference of the machine, and records pool and ordinal in labels. `None` if the machine does not
/// control the object.
///
/// Send it after the delete of the machine, because KubeVirt would otherwise adopt the object again, and
/// before the finalizer of the machine is removed.
pub fn preserve_storage(object: &ObjectMeta, machine: &ObjectId, pool: &ObjectId) -> Option<Value> {
    let owner =
        controller_removal_operations(object, |owner| is_owner::<KubeVirtMachineObject>(owner, machine))?;
    let target = PatchTarget {
        uid: object.uid.as_deref().unwrap_or_default(),
        resource_version: object.resource_version.as_deref().unwrap_or_default(),
    };
    let mut labels = Map::new();
    labels.insert(PRESERVED_POOL.to_owned(), (*pool.name).into());
    if let Some(ordinal) = parse_machine_ordinal(&machine.name) {
        labels.insert(PRESERVED_ORDINAL.to_owned(), ordinal.to_string().into());
    }
    let labels = if object.labels.as_ref().is_none_or(BTreeMap::is_empty) {
        vec![
            resource_version_test(target),
            json!({ "op": "add", "path": "/metadata/labels", "value": labels }),
        ]
    } else {
        let add = |(key, value): (String, Value)| {
            let path = metadata_path("labels", &key);
            json!({ "op": "add", "path": path, "value": value })
        };
        labels.into_iter().map(add).collect()
    };
    Some(Value::Array([vec![test_operation("/metadata/uid", target.uid)], owner, labels].concat()))
}

fn finalizer_removal_operations(finalizers: FinalizerSummary) -> Option<Vec<Value>> {
    let path = format!("/metadata/finalizers/{}", finalizers.position?);
    Some(vec![test_operation(&path, FINALIZER), json!({ "op": "remove", "path": path })])
}

/// The operations that remove the controller of an object from its owners; `None` if `is_wanted` does not
/// accept it.
fn controller_removal_operations(
    object: &ObjectMeta,
    is_wanted: impl Fn(OwnerIdentity<'_>) -> bool,
) -> Option<Vec<Value>> {
    let owners = object.owner_references.as_deref().unwrap_or_default();
    let place = owners.iter().position(|owner| owner.controller == Some(true))?;
    let owner = OwnerIdentity::of(&owners[place]);
    let path = format!("/metadata/ownerReferences/{place}");
    is_wanted(owner).then(|| {
        vec![test_operation(&format!("{path}/uid"), owner.uid), json!({ "op": "remove", "path": path })]
    })
}

/// The JSON pointer to a key of the labels or the annotations.
fn metadata_path(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn resource_version_test(target: PatchTarget<'_>) -> Value {
    test_operation("/metadata/resourceVersion", target.resource_version)
}

fn test_operation(path: &str, value: &str) -> Value {
    json!({ "op": "test", "path": path, "value": value })
}

#[cfg(test)]
mod tests;

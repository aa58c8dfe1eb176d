//! The owners of copies: an object that several others use has several owners, and is deleted with the last
//! one.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};
use vmpool_api::OwnerIdentity;
use vmpool_api::kubevirt::labels::POOL_UID;
use vmpool_api::kubevirt::{API_VERSION, POOL_GROUP};
use vmpool_engine::ObjectId;

use crate::copy;
use crate::keys::{MACHINE_KIND, POOL_KIND};
use crate::metadata::DocumentMetadata;

/// The number of owners that an object gets at most, because etcd limits its size.
const OWNERS: usize = 1000;

/// How an existing ControllerRevision compares with a planned copy of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedCopyComparison {
    /// It is the copy.
    Same,
    /// It has the same content, and lacks the owner of the planned copy, or labels. This JSON patch adds
    /// both. It fails if the object has changed.
    Incomplete(Value),
    /// It is being deleted, so the copy can be made when it is gone.
    Terminating,
    /// It has another content.
    Other,
}

/// Compares an existing ControllerRevision with a planned copy of the same name.
///
/// A pool and a machine of one name have copies of one name. So has an object that was deleted and created
/// again, until the garbage collector has deleted the copy of the former one, or for ever if its dependents
/// were orphaned. The name contains UID and generation of what is copied, so the content is the same, and
/// they share the copy.
pub fn compare_planned_copy(planned: &Value, live: &Value) -> PlannedCopyComparison {
    if DocumentMetadata::of(live).is_deleted() {
        return PlannedCopyComparison::Terminating;
    }
    if !is_same_copy(&planned["data"], &live["data"]) {
        return PlannedCopyComparison::Other;
    }
    let mut owners = stored_owner_references(live);
    let owner = DocumentMetadata::of(planned).owner_references().first().cloned().unwrap_or_default();
    let is_new = add_owner(&mut owners, owner);
    owners_and_labels_patch(planned, live, is_new, owners)
        .map_or(PlannedCopyComparison::Same, PlannedCopyComparison::Incomplete)
}

/// The JSON patch that gives an object these owners, if they are new, and the labels of a planned copy;
/// `None` if it has both.
pub(super) fn owners_and_labels_patch(
    planned: &Value,
    live: &Value,
    is_new: bool,
    owners: Vec<Value>,
) -> Option<Value> {
    let live = DocumentMetadata::of(live);
    let labels = DocumentMetadata::of(planned).labels();
    let has = |key: &str, value: &Value| live.labels().and_then(|labels| labels.get(key)) == Some(value);
    let is_labeled = labels.into_iter().flatten().all(|(key, value)| has(key, value));
    if is_labeled && !is_new {
        return None;
    }
    let mut patch = set_owners(live, &owners.into());
    if !is_labeled && let Some(operations) = patch.as_array_mut() {
        let mut all = live.labels().cloned().unwrap_or_default();
        all.extend(labels.cloned().unwrap_or_default());
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": all }));
    }
    Some(patch)
}

/// Whether the data of two ControllerRevisions are copies of one object with the same spec.
pub(super) fn is_same_copy(one: &Value, other: &Value) -> bool {
    ["apiVersion", "kind"].iter().all(|field| one[field] == other[field])
        && one["metadata"]["name"] == other["metadata"]["name"]
        && copy::same_spec(&one["spec"], &other["spec"])
}

/// Adds an owner, in the place of a former object of its kind and name. Returns false if it is an owner
/// already.
pub(super) fn add_owner(owners: &mut Vec<Value>, mut owner: Value) -> bool {
    let new = OwnerIdentity::of_json(&owner);
    if owners.iter().any(|other| OwnerIdentity::of_json(other) == new) {
        return false;
    }
    // A namespace has one object of a kind and a name, so another one with this name is gone, and the garbage
    // collector has not deleted its copy yet.
    let is_former = |other: &Value| OwnerIdentity { uid: new.uid, ..OwnerIdentity::of_json(other) } == new;
    owners.retain(|other| !is_former(other));
    // An object has one controller at most.
    if owners.iter().any(|owner| owner["controller"] == true) {
        owner["controller"] = false.into();
    }
    owners.push(owner);
    true
}

/// The pin with these machines as further owners.
pub fn with_machine_owners(pin: &Value, machines: &[ObjectId]) -> Value {
    let mut pin = pin.clone();
    let mut owners = stored_owner_references(&pin);
    for machine in machines {
        if !is_owned_by(&owners, machine) {
            owners.push(json!(machine_owner_reference(machine)));
        }
    }
    pin["metadata"]["ownerReferences"] = owners.into();
    pin
}

/// The JSON patch that makes a machine a further owner of a pin; `None` if the object is no pin or has this
/// owner.
pub fn add_machine_owner(live: &Value, machine: &ObjectId) -> Option<Value> {
    let mut owners = stored_owner_references(live);
    let is_pin = DocumentMetadata::of(live).label(POOL_UID).is_some();
    if !is_pin || is_owned_by(&owners, machine) {
        return None;
    }
    owners.push(json!(machine_owner_reference(machine)));
    Some(set_owners(DocumentMetadata::of(live), &owners.into()))
}

fn is_owned_by(owners: &[Value], machine: &ObjectId) -> bool {
    owners.iter().any(|owner| OwnerIdentity::of_json(owner) == identity_of(machine))
}

/// The JSON patch that makes the machines which use a copy its owners instead of `machine`; `None` if no
/// other object owns or uses it, so that it can be deleted.
pub fn remove_machine_owner(copy: &ObjectMeta, machine: &ObjectId, users: &[ObjectId]) -> Option<Value> {
    let owners = copy.owner_references.as_deref().unwrap_or_default();
    let is_left = |owner: &&OwnerReference| OwnerIdentity::of(owner) != identity_of(machine);
    let left: Vec<OwnerReference> = owners.iter().filter(is_left).cloned().collect();
    if left.is_empty() && users.is_empty() {
        return None;
    }
    Some(replace_owners(copy, left, users))
}

/// The JSON patch that makes the machines which use a pin its only owners, so that virt-controller does not
/// delete it with the revisions of the pool, and the garbage collector deletes it with the last machine;
/// `None` if no pool owns it, or no machine uses it. The patch fails if the object has changed.
pub fn transfer_to_machines(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
    let is_pool = |owner: &OwnerReference| OwnerIdentity::of(owner).is_a(POOL_GROUP, POOL_KIND);
    let owners = pin.owner_references.as_deref().unwrap_or_default();
    if machines.is_empty() || !owners.iter().any(is_pool) {
        return None;
    }
    let left = owners.iter().filter(|owner| !is_pool(owner)).cloned().collect();
    Some(replace_owners(pin, left, machines))
}

/// The JSON patch that makes machines further owners of a pin, before its pool is gone; `None` if all of them
/// are. The pool stays an owner: the garbage collector ignores an owner that is gone if there are others.
pub fn add_machine_owners(pin: &ObjectMeta, machines: &[ObjectId]) -> Option<Value> {
    let owners = pin.owner_references.as_deref().unwrap_or_default();
    let known: BTreeSet<OwnerIdentity<'_>> = owners.iter().map(OwnerIdentity::of).collect();
    let is_complete = machines.iter().all(|machine| known.contains(&identity_of(machine)));
    (!is_complete).then(|| replace_owners(pin, owners.to_vec(), machines))
}

/// The JSON patch with these owners and these machines. With too many machines there is no owner, so that the
/// object stays.
fn replace_owners(object: &ObjectMeta, mut owners: Vec<OwnerReference>, machines: &[ObjectId]) -> Value {
    let new = {
        let known: BTreeSet<OwnerIdentity<'_>> = owners.iter().map(OwnerIdentity::of).collect();
        let new = machines.iter().filter(|machine| !known.contains(&identity_of(machine)));
        new.map(machine_owner_reference).collect::<Vec<_>>()
    };
    owners.extend(new);
    if owners.len() > OWNERS {
        owners.clear();
    }
    set_owners(DocumentMetadata::in_field(&json!(object)), &json!(owners))
}

fn identity_of(machine: &ObjectId) -> OwnerIdentity<'_> {
    OwnerIdentity::new(API_VERSION, MACHINE_KIND, &machine.name, machine.uid.as_str())
}

fn machine_owner_reference(machine: &ObjectId) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: MACHINE_KIND.to_owned(),
        name: machine.name.to_string(),
        uid: machine.uid.as_str().to_owned(),
        ..OwnerReference::default()
    }
}

/// The owners of a stored object.
pub(super) fn stored_owner_references(live: &Value) -> Vec<Value> {
    DocumentMetadata::of(live).owner_references().to_vec()
}

/// The JSON patch that sets the owners of the object with this metadata. It fails if the object has changed.
fn set_owners(metadata: DocumentMetadata<'_>, owners: &Value) -> Value {
    let [uid, version] = metadata.version_tests();
    json!([
        uid,
        version,
        { "op": "add", "path": "/metadata/ownerReferences", "value": owners },
    ])
}

#[cfg(test)]
mod tests;

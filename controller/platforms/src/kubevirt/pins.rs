//! Pins: the copies of instance types and preferences that all machines of a revision use.
//!
//! A copy is a ControllerRevision that the pool owns. The content of a revision contains it as well, beside the template,
//! so that a later revision with the same template uses the same copy, and a lost copy can be made again.

mod resolve;

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::labels::POOL_UID;
use vmpool_engine::ObjectId;
use vmpool_engine::model::Unresolved;
use vmpool_instancetype::model::Family;
use vmpool_instancetype::stash;

use super::keys::{API_VERSION, MACHINE_KIND, owner};
use crate::{Existing, Found, Resolution};
use resolve::{FAMILIES, Open};

/// The field of the content of a revision with the pins. Pools do not have it.
pub const FIELD: &str = "vmpoolPins";

/// The field of the spec of a pool that contains the template of its machines.
const TEMPLATE: &str = "virtualMachineTemplate";

/// The reasons why a template cannot be resolved.
pub const REASONS: [&str; 6] = [
    "InstancetypeNotFound",
    "PreferenceNotFound",
    "InstancetypeConflict",
    "RequirementsNotMet",
    "InferenceFailed",
    "RevisionMismatch",
];

/// Whether the template in the spec of a pool names an instance type or a preference, and the pool pins them.
pub fn has_references(spec: &Value) -> bool {
    let machine = &spec[TEMPLATE]["spec"];
    FAMILIES.iter().any(|family| machine[family.field()].is_object())
}

/// The spec of a pool with the pins of its template.
pub fn resolve(pool: &ObjectId, namespace: &str, spec: &Value, found: &Found) -> Resolution {
    match resolve::pins(pool, namespace, &spec[TEMPLATE], found) {
        Ok(pins) => {
            let mut spec = spec.clone();
            spec[FIELD] = pins;
            Resolution::Resolved(spec)
        }
        Err(Open::Needs(reference)) => Resolution::Needs(reference),
        Err(Open::Unresolved(reason, message)) => Resolution::Unresolved(Unresolved { reason, message }),
    }
}

/// The spec of a pool with the pins that the content of a revision contains.
pub fn inherit(spec: &Value, stored: &Value) -> Option<Value> {
    let pins = stored.get(FIELD).filter(|pins| pins.is_object())?;
    let mut spec = spec.clone();
    spec[FIELD] = pins.clone();
    Some(spec)
}

/// The ControllerRevisions in the content of a revision.
pub fn objects(content: &Value) -> Vec<Value> {
    let pins = FAMILIES.iter().map(|family| &content[FIELD][family.field()]["revision"]);
    pins.filter(|revision| revision.is_object()).cloned().collect()
}

/// Compares a ControllerRevision with a pin of the same name.
pub fn existing(pool: &ObjectId, pin: &Value, live: &Value) -> Existing {
    let (stored, other) = (&pin["data"], &live["data"]);
    let same = ["apiVersion", "kind"].iter().all(|field| stored[field] == other[field])
        && stored["metadata"]["name"] == other["metadata"]["name"]
        && stash::same_spec(&stored["spec"], &other["spec"]);
    if !same || !live["metadata"]["deletionTimestamp"].is_null() {
        return Existing::Other;
    }
    let mut owners = owners(live);
    if is_owned_by(&owners, pool.uid.as_str()) {
        return Existing::Same;
    }
    let mut owner = owner(&pool.name, pool.uid.as_str());
    // An object has one controller at most.
    if owners.iter().any(|owner| owner["controller"] == true) {
        owner["controller"] = false.into();
    }
    owners.push(owner);
    Existing::Unowned(with_owners(live, &owners))
}

/// The JSON patch that makes a machine a further owner of a pin; `None` if the object is no pin or has this owner.
pub fn keep(live: &Value, machine: &ObjectId) -> Option<Value> {
    let mut owners = owners(live);
    let is_pin = live["metadata"]["labels"][POOL_UID].is_string();
    if !is_pin || is_owned_by(&owners, machine.uid.as_str()) {
        return None;
    }
    owners.push(json!({
        "apiVersion": API_VERSION,
        "kind": MACHINE_KIND,
        "name": &*machine.name,
        "uid": machine.uid.as_str(),
    }));
    Some(with_owners(live, &owners))
}

fn owners(live: &Value) -> Vec<Value> {
    live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

fn is_owned_by(owners: &[Value], uid: &str) -> bool {
    owners.iter().any(|owner| owner["uid"] == *uid)
}

fn with_owners(live: &Value, owners: &[Value]) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": live["metadata"]["uid"] },
        { "op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"] },
        { "op": "add", "path": "/metadata/ownerReferences", "value": owners },
    ])
}

/// Writes the pinned matchers into the spec of a machine. `pins` is the field of the content of a revision; null changes
/// nothing.
pub fn apply(spec: &mut Value, pins: &Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    for family in FAMILIES {
        let Some(pin) = pins.get(family.field()) else { continue };
        match &pin["matcher"] {
            Value::Null => spec.remove(family.field()),
            matcher => spec.insert(family.field().to_owned(), matcher.clone()),
        };
        if pin["removesMemory"] == true
            && let Some(domain) =
                spec.get_mut("template").and_then(|template| template.pointer_mut("/spec/domain"))
            && let Some(domain) = domain.as_object_mut()
        {
            domain.remove("memory");
        }
    }
}

/// What machines get from their instance type and preference: the pinned specs, or else the matchers.
pub fn effective(content: &Value) -> Value {
    let part = |family: Family| {
        let spec = &content[FIELD][family.field()]["revision"]["data"]["spec"];
        if spec.is_null() { content[TEMPLATE]["spec"][family.field()].clone() } else { spec.clone() }
    };
    FAMILIES.map(|family| (family.field().to_owned(), part(family))).into_iter().collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests;

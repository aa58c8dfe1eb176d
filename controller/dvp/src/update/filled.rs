//! Fields that the platform fills in when a machine is created without them.
//!
//! The value comes from the machine's class or its number of cores. If a rollout changes one of these and the
//! template omits the field, the patch resets the field and the platform fills it in again. Otherwise
//! machines of one revision would differ, or the new class would reject the value.

use serde_json::{Value, json};

/// Such a field of the spec, and the fields that its value is derived from. All are JSON pointers.
const FILLED: [(&str, &[&str]); 1] = [("/cpu/coreFraction", &["/virtualMachineClassName", "/cpu/cores"])];

/// Resets, in the merge patch of a spec, each field that `to` leaves out, that the platform filled in, and
/// whose sources change with the patch.
pub(super) fn reset_filled_fields(live: &Value, to: &Value, patch: &mut Value) {
    for (field, sources) in FILLED {
        let is_set = |spec: &Value| spec.pointer(field).is_some_and(|value| !value.is_null());
        let changes = sources.iter().any(|source| patch.pointer(source).is_some());
        if changes && !is_set(to) && is_set(&live["spec"]) && is_filled_in(live, field) {
            let mut reset = Value::Null;
            for key in field.split('/').skip(1).collect::<Vec<_>>().into_iter().rev() {
                reset = json!({ key: reset });
            }
            merge_keeping_nulls(patch, reset);
        }
    }
}

/// Adds the fields of `addition` to a merge patch. Unlike the application of a merge patch it keeps nulls.
fn merge_keeping_nulls(patch: &mut Value, addition: Value) {
    match (patch, addition) {
        (Value::Object(patch), Value::Object(addition)) => {
            for (key, value) in addition {
                merge_keeping_nulls(patch.entry(key).or_insert(Value::Null), value);
            }
        }
        (patch, addition) => *patch = addition,
    }
}

/// Whether the value of a field of the spec came with the creation of the machine, and not from a later edit.
///
/// The API server attributes what a mutating webhook fills in to the client whose request it was. The client
/// that created the machine also set the owner reference, so a field that another client owns was edited. A
/// server that records no field managers leaves no trace of edits; the field then counts as filled in, as the
/// template never set it.
fn is_filled_in(live: &Value, field: &str) -> bool {
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owns = |manager: &Value, path: &str| {
        let pointer = path.replace('/', "/f:");
        manager["fieldsV1"].pointer(&pointer).is_some()
    };
    managers
        .filter(|manager| owns(manager, &format!("/spec{field}")))
        .all(|manager| owns(manager, "/metadata/ownerReferences"))
}

#[cfg(test)]
mod tests;

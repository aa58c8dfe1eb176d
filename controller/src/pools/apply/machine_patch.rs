//! Patches of machines, and what they require of the machine.
//!
//! The controller of the platform writes the status of a machine often. A patch that requires the version
//! that was read conflicts with each of these writes, also if it does not rely on the status. Such a patch
//! tests the fields that it relies on instead: a JSON patch, of which the API server applies all or nothing.

use json_patch::PatchOperation;
use kube::api::Patch;
use serde_json::{Map, Value, json};
use vmpool_engine::ObjectId;
use vmpool_kit::write::WriteError;
use vmpool_platforms::Platform;

use crate::pools::context::PoolContext;

/// What a patch requires of the machine that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requirement {
    /// That nothing has changed. A patch after which the platform may restart the machine requires this, and
    /// one that relies on the status or ends a protection.
    Version,
    /// That spec and metadata have not changed. The generation stands for the spec, and for a deletion, which
    /// increments it. Finalizers and managed fields may change.
    SpecAndMetadata,
}

/// The fields that stand for spec and metadata of a machine. A user protects it in its annotations, and
/// detaches it with its labels or its owner.
const READ_FIELDS: [&str; 5] = [
    "/metadata/uid",
    "/metadata/generation",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/ownerReferences",
];

/// The largest number of operations in a patch. The API server accepts ten times as many.
const MAX_OPERATIONS: usize = 1000;

/// The patch with the effect of `merge` on the machine `live`, a merge patch of its spec and its metadata.
pub(super) fn guard_machine_patch(live: &Value, merge: &Value, requirement: Requirement) -> Patch<Value> {
    let tested = match requirement {
        Requirement::Version => None,
        Requirement::SpecAndMetadata => test_read_fields(live, merge),
    };
    tested.map_or_else(|| Patch::Merge(require_version(live, merge)), Patch::Json)
}

fn require_version(live: &Value, merge: &Value) -> Value {
    let mut patch = merge.clone();
    for field in ["uid", "resourceVersion"] {
        patch["metadata"][field] = live["metadata"][field].clone();
    }
    patch
}

/// The JSON patch that tests spec and metadata; `None` if the machine lacks one of the fields, because a
/// patch cannot test that a field is absent, or if the patch would be too long.
fn test_read_fields(live: &Value, merge: &Value) -> Option<json_patch::Patch> {
    let test = |path| Some(json!({ "op": "test", "path": path, "value": live.pointer(path)? }));
    let mut operations = READ_FIELDS.into_iter().map(test).collect::<Option<Vec<_>>>()?;
    push_changes(&mut operations, "", live, merge.as_object()?);
    (operations.len() <= MAX_OPERATIONS).then(|| serde_json::from_value(operations.into()).ok())?
}

/// Adds the operations with the effect of a merge patch on the object `live`, which has this path.
fn push_changes(operations: &mut Vec<Value>, path: &str, live: &Value, merge: &Map<String, Value>) {
    for (key, wanted) in merge {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (live.get(key), wanted) {
            (None, Value::Null) => {}
            (Some(_), Value::Null) => operations.push(json!({ "op": "remove", "path": path })),
            (Some(current @ Value::Object(_)), Value::Object(merge)) => {
                push_changes(operations, &path, current, merge);
            }
            (_, wanted) => {
                let mut value = Value::Null;
                json_patch::merge(&mut value, wanted);
                operations.push(json!({ "op": "add", "path": path, "value": value }));
            }
        }
    }
}

/// Whether a patch of a machine failed because the machine is not any more as it was read. The API server
/// rejects a JSON patch in the same way if one of its tests fails and if its result is invalid, so the
/// machine is read again.
pub(super) async fn is_patch_outdated<P: Platform>(
    context: &PoolContext<P>,
    namespace: &str,
    machine: &ObjectId,
    patch: &Patch<Value>,
    error: &WriteError,
) -> bool {
    if !error.is_unprocessable() {
        return error.is_conflict();
    }
    let Patch::Json(operations) = patch else { return false };
    match context.get_text::<P::Machine>(namespace, &machine.name).await {
        Ok(Some(live)) => {
            serde_json::from_slice(live.bytes()).is_ok_and(|live| has_failed_test(operations, &live))
        }
        Ok(None) | Err(_) => true,
    }
}

/// Whether a test of the patch fails for the machine `live`.
fn has_failed_test(patch: &json_patch::Patch, live: &Value) -> bool {
    patch.iter().any(|operation| match operation {
        PatchOperation::Test(test) => live.pointer(test.path.as_str()) != Some(&test.value),
        _ => false,
    })
}

#[cfg(test)]
mod tests;

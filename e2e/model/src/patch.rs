//! The languages of patches.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::answer::Refusal;
use crate::call::PatchKind;

/// `old` after the patch.
pub(crate) fn patched(old: &Value, kind: PatchKind, patch: &Value) -> Result<Value, Refusal> {
    let mut new = old.clone();
    match kind {
        PatchKind::Merge if patch.is_object() => json_patch::merge(&mut new, patch),
        PatchKind::Merge => return Err(Refusal::bad_request("a merge patch is an object")),
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| Refusal::bad_request(error.to_string()))?;
            for operation in patch.0 {
                apply(&mut new, operation).map_err(|error| {
                    Refusal::invalid(format!(
                        "the server rejected our request due to an error in our request: {error}"
                    ))
                })?;
            }
        }
    }
    Ok(new)
}

/// One operation, as the server's library understands it: it replaces members that are not there, and finds that they
/// are null.
fn apply(object: &mut Value, operation: PatchOperation) -> Result<(), json_patch::PatchError> {
    let operation = match operation {
        PatchOperation::Replace(replace) if is_free(object, replace.path.as_str()) => {
            PatchOperation::Add(AddOperation { path: replace.path, value: replace.value })
        }
        PatchOperation::Test(test) if test.value.is_null() && is_free(object, test.path.as_str()) => {
            return Ok(());
        }
        operation => operation,
    };
    json_patch::patch(object, &[operation])
}

/// Whether there is no such member of an object that is there.
fn is_free(object: &Value, pointer: &str) -> bool {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
    object.pointer(parent).is_some_and(Value::is_object) && object.pointer(pointer).is_none()
}

//! JSON merge patch and JSON patch.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::api_error::ApiError;
use crate::call::PatchKind;

/// `old` with the patch applied.
pub(crate) fn apply_patch(old: &Value, kind: PatchKind, patch: &Value) -> Result<Value, ApiError> {
    let mut new = old.clone();
    match kind {
        PatchKind::Merge if patch.is_object() => json_patch::merge(&mut new, patch),
        PatchKind::Merge => return Err(ApiError::bad_request("a merge patch is an object")),
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            for operation in patch.0 {
                apply(&mut new, operation).map_err(|error| {
                    ApiError::invalid(format!(
                        "the server rejected our request due to an error in our request: {error}"
                    ))
                })?;
            }
        }
    }
    Ok(new)
}

/// Applies one operation with the semantics of the library that the API server uses. `replace` adds missing
/// members, and `test` treats missing members as null.
fn apply(object: &mut Value, operation: PatchOperation) -> Result<(), json_patch::PatchError> {
    let operation = match operation {
        PatchOperation::Replace(replace) if is_absent(object, replace.path.as_str()) => {
            PatchOperation::Add(AddOperation { path: replace.path, value: replace.value })
        }
        PatchOperation::Test(test) if test.value.is_null() && is_absent(object, test.path.as_str()) => {
            return Ok(());
        }
        operation => operation,
    };
    json_patch::patch(object, &[operation])
}

/// Whether the parent object exists but lacks this member.
fn is_absent(object: &Value, pointer: &str) -> bool {
    let Some((parent, _)) = pointer.rsplit_once('/') else { return false };
    object.pointer(parent).is_some_and(Value::is_object) && object.pointer(pointer).is_none()
}

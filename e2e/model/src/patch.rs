//! The languages of patches.

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
            json_patch::patch(&mut new, &patch).map_err(|error| {
                Refusal::invalid(format!(
                    "the server rejected our request due to an error in our request: {error}"
                ))
            })?;
        }
    }
    Ok(new)
}

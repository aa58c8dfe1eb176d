//! The finalizers that new objects get.

use serde_json::{Value, json};

use crate::review::{ReviewAnswer, ReviewRequest};

/// Allows the request. A new object gets this finalizer, if it has not. Updates do not: a user may remove the
/// finalizer, and the controller adds it again.
pub(crate) fn answer_with_finalizer(request: &ReviewRequest, finalizer: &str) -> ReviewAnswer {
    let has = |object: &Value| {
        let finalizers = object["metadata"]["finalizers"].as_array();
        finalizers.is_some_and(|all| all.iter().any(|name| name == finalizer))
    };
    let old = &request.object;
    if request.operation != "CREATE" || !request.sub_resource.is_empty() || has(old) {
        return ReviewAnswer::allowed();
    }
    let mut new = old.clone();
    match &mut new["metadata"]["finalizers"] {
        Value::Array(finalizers) => finalizers.push(json!(finalizer)),
        absent => *absent = json!([finalizer]),
    }
    ReviewAnswer::patched(json_patch::diff(old, &new))
}

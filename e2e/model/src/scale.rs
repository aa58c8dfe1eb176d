//! The scale subresource of custom resources.

use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::call::{Call, PatchKind, Verb};
use crate::patch::apply_patch;
use crate::resource::Resource;

/// The `Scale` of an object.
pub(crate) fn scale_of_object(resource: &Resource, object: &Value) -> Result<Value, ApiError> {
    let [spec_path, status_path, selector] = resource
        .scale
        .as_ref()
        .ok_or_else(|| ApiError::not_found("the server could not find the requested resource"))?;
    let Some(replicas) = object.pointer(spec_path).and_then(Value::as_i64) else {
        return Err(ApiError::new(
            500,
            "InternalError",
            format!("the spec replicas field {spec_path:?} does not exist"),
        ));
    };
    let metadata = &object["metadata"];
    let mut scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {},
        "status": { "replicas": object.pointer(status_path).and_then(Value::as_i64).unwrap_or_default() },
    });
    // Go's encoder omits zero.
    if replicas != 0 {
        scale["spec"]["replicas"] = json!(replicas);
    }
    if let Some(selector) = object.pointer(selector).and_then(Value::as_str) {
        scale["status"]["selector"] = json!(selector);
    }
    Ok(scale)
}

/// Translates a write of the scale into a patch of the object. Also returns the scale before and after.
pub(crate) fn translate_scale_write(
    resource: &Resource,
    object: &Value,
    call: &Call,
) -> Result<(Call, Value, Value), ApiError> {
    let old = scale_of_object(resource, object)?;
    let new = match call.verb {
        Verb::Patch(kind) => apply_patch(&old, kind, &call.body)?,
        _ => call.body.clone(),
    };
    let replicas = &new["spec"]["replicas"];
    if !replicas.is_null() && replicas.as_i64().is_none_or(|replicas| replicas < 0) {
        return Err(ApiError::invalid("spec.replicas: Invalid value: should be a non-negative integer"));
    }
    let replicas = if replicas.is_null() { json!(0) } else { replicas.clone() };
    let mut patch = json!({});
    let spec_path = resource.scale.as_ref().map(|[spec_path, ..]| spec_path.as_str()).unwrap_or_default();
    spec_path.split('/').skip(1).fold(&mut patch, |at, part| &mut at[part]).clone_from(&replicas);
    // The UID in a patch is not checked, because the patch is applied to the old scale.
    let uid = (call.verb == Verb::Update).then_some("uid");
    for field in uid.into_iter().chain(["resourceVersion"]) {
        let value = &new["metadata"][field];
        if value.as_str().is_some_and(|text| !text.is_empty()) && *value != old["metadata"][field] {
            return Err(ApiError::conflict(format!(
                "Operation cannot be fulfilled on {} {}: the object has been modified; please apply your changes to the \
                 latest version and try again",
                resource.full_name(),
                object["metadata"]["name"]
            )));
        }
    }
    let call =
        Call { verb: Verb::Patch(PatchKind::Merge), subresource: String::new(), body: patch, ..call.clone() };
    Ok((call, old, new))
}

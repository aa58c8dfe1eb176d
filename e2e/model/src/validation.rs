//! Validation of writes.

use serde_json::{Map, Value, json};

use crate::api_error::ApiError;
use crate::call::{Call, Verb};
use crate::resource::Resource;
use crate::store::ApiObjectKey;

/// Checks that API version and kind match the path.
pub(crate) fn check_type(resource: &Resource, object: &Value) -> Result<(), ApiError> {
    let (version, kind) = (&object["apiVersion"], &object["kind"]);
    if *version != resource.api_version().as_str() || *kind != resource.kind.as_str() {
        let expected = format!("{}, Kind={}", resource.api_version(), resource.kind);
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}, Kind={kind}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// Checks the namespace of a new object against the path, and fills it in if it is missing.
pub(crate) fn check_namespace_of_new(
    resource: &Resource,
    call: &Call,
    metadata: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    if !resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != call.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), json!(call.namespace));
    Ok(())
}

/// Checks that the name in an update matches the path.
pub(crate) fn check_name(call: &Call, object: &Value) -> Result<(), ApiError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if !name.is_empty() && name != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    Ok(())
}

/// Checks UID and resource version of a write. For most resources an update must contain a resource version;
/// a patch may. Of the metadata in a status patch, only the resource version is checked.
pub(crate) fn check_preconditions(
    resource: &Resource,
    call: &Call,
    key: &ApiObjectKey,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (uid, version) = (text(&new["metadata"]["uid"]), text(&new["metadata"]["resourceVersion"]));
    let update = call.verb == Verb::Update;
    if let Some(uid) = uid.filter(|_| update)
        && old["metadata"]["uid"] != uid.as_str()
    {
        return Err(ApiError::conflict(format!(
            "Operation cannot be fulfilled on {key}: StorageError: invalid object, Code: 4: Precondition failed: UID in \
             precondition: {uid}, UID in object meta: {}",
            old["metadata"]["uid"]
        )));
    }
    match version {
        Some(version) if old["metadata"]["resourceVersion"] != version.as_str() => {
            return Err(ApiError::conflict(format!(
                "Operation cannot be fulfilled on {key}: the object has been modified; please apply your changes to the \
                 latest version and try again"
            )));
        }
        None if update && resource.requires_version => {
            return Err(ApiError::invalid(format!(
                "{key} is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )));
        }
        _ => {}
    }
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    Ok(())
}

/// Refuses an update with a UID, because an update without an existing object creates one.
pub(crate) fn check_no_uid(key: &ApiObjectKey, new: &Value) -> Result<(), ApiError> {
    match new["metadata"]["uid"].as_str().unwrap_or_default() {
        "" => Ok(()),
        uid => Err(ApiError::conflict(format!(
            "Operation cannot be fulfilled on {key}: Precondition failed: UID in precondition: {uid}, UID in object meta: "
        ))),
    }
}

/// Refuses a change of the namespace.
pub(crate) fn check_namespace(key: &ApiObjectKey, new: &Value) -> Result<(), ApiError> {
    let namespace = new["metadata"]["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && namespace != &*key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Refuses changes of immutable metadata. Missing fields keep their value; all other immutable fields are
/// reset later.
pub(crate) fn check_immutable_fields(key: &ApiObjectKey, old: &Value, new: &Value) -> Result<(), ApiError> {
    let terminating = !old["metadata"]["deletionTimestamp"].is_null();
    let deletion = ["deletionTimestamp", "deletionGracePeriodSeconds"].into_iter().filter(|_| !terminating);
    let changed = ["uid"].into_iter().chain(deletion).find(|field| {
        let value = &new["metadata"][field];
        !value.is_null() && *value != "" && *value != old["metadata"][field]
    });
    match changed {
        None => Ok(()),
        Some(field) => Err(ApiError::invalid(format!(
            "{key} is invalid: metadata.{field}: Invalid value: {}: field is immutable",
            new["metadata"][field]
        ))),
    }
}

/// Refuses new finalizers on an object that is being deleted.
pub(crate) fn check_finalizers(key: &ApiObjectKey, old: &Value, new: &Value) -> Result<(), ApiError> {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let all = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = all(old);
    match all(new).iter().find(|finalizer| !before.contains(finalizer)) {
        None => Ok(()),
        Some(added) => Err(ApiError::invalid(format!(
            "{key} is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
             found new finalizers {added}"
        ))),
    }
}

/// Refuses more than one controlling owner.
pub(crate) fn check_owners(key: &ApiObjectKey, new: &Value) -> Result<(), ApiError> {
    let owners = new["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    if owners.filter(|owner| owner["controller"] == true).count() > 1 {
        return Err(ApiError::invalid(format!(
            "{key} is invalid: metadata.ownerReferences: Invalid value: Only one reference can have Controller set to true"
        )));
    }
    Ok(())
}

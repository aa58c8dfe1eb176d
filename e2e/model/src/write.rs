//! Creates, updates and patches.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::api_error::ApiError;
use crate::call::{Call, Verb};
use crate::patch::apply_patch;
use crate::resource::Resource;
use crate::store::{ApiObjectKey, ApiObjectStore};
use crate::validation;

/// The characters of generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Metadata that only the server writes. The generation is not included, because a create may set it where it
/// is not counted.
const SERVER_SET_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// The result of a write before it is stored.
pub(crate) struct PreparedWrite {
    pub(crate) key: ApiObjectKey,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Value,
    /// Whether the status of the new object is the default of its schema. The API server stores a new object
    /// without its status, and fills in the default when it reads the object.
    pub(crate) status_is_default: bool,
}

/// Computes the object that a write requests.
pub(crate) fn prepare_write(
    store: &mut ApiObjectStore,
    resource: &Resource,
    call: &Call,
    now: Timestamp,
    random: u64,
) -> Result<PreparedWrite, ApiError> {
    let key = object_key(resource, &call.namespace, &call.name);
    match call.verb {
        Verb::Create => prepare_create(store, resource, call, now, random),
        Verb::Update if resource.creates_on_update && store.get(&key).is_none() => {
            validation::check_no_uid(&key, &call.body)?;
            let mut call = call.clone();
            // The object does not exist, so a resource version in the request means nothing.
            remove_field(&mut call.body["metadata"], "resourceVersion");
            prepare_create(store, resource, &call, now, random)
        }
        _ => prepare_change(store, resource, call),
    }
}

/// Computes the object that a create requests.
fn prepare_create(
    store: &mut ApiObjectStore,
    resource: &Resource,
    call: &Call,
    now: Timestamp,
    random: u64,
) -> Result<PreparedWrite, ApiError> {
    let mut object = call.body.clone();
    if !object.is_object() {
        return Err(ApiError::bad_request("the body is no object"));
    }
    validation::check_type(resource, &object)?;
    let metadata = metadata_of(&mut object)?;
    let versioned =
        metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if versioned && !call.is_dry() {
        // The error comes from the storage layer, and the API server does not translate it.
        return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
    }
    validation::check_namespace_of_new(resource, call, metadata)?;
    let mut name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if name.is_empty() {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        if prefix.is_empty() {
            return Err(ApiError::invalid(format!(
                "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
                resource.kind
            )));
        }
        name = generated_name(prefix, random);
        metadata.insert("name".into(), json!(name));
    }
    for field in SERVER_SET_FIELDS.into_iter().chain(["managedFields"]) {
        metadata.remove(field);
    }
    let key = object_key(resource, &call.namespace, &name);
    validation::check_owners(&key, &object)?;
    if store.get(&key).is_some() {
        return Err(ApiError::new(409, "AlreadyExists", format!("{key} already exists")));
    }
    let uid = store.new_uid();
    let metadata = metadata_of(&mut object)?;
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(format_seconds(now)));
    if resource.generations {
        metadata.insert("generation".into(), json!(1));
    }
    if resource.status {
        remove_field(&mut object, "status");
    }
    resource.fill(&mut object);
    let status_is_default = resource.status && object.get("status").is_some();
    Ok(PreparedWrite { key, old: None, new: object, status_is_default })
}

/// Computes the object that an update or a patch requests.
pub(crate) fn prepare_change(
    store: &ApiObjectStore,
    resource: &Resource,
    call: &Call,
) -> Result<PreparedWrite, ApiError> {
    let key = object_key(resource, &call.namespace, &call.name);
    if call.verb == Verb::Update {
        validation::check_type(resource, &call.body)?;
        validation::check_name(call, &call.body)?;
        validation::check_namespace(&key, &call.body)?;
    }
    let Some(old) = store.get(&key).cloned() else { return Err(ApiError::not_found(&key.to_string())) };
    let mut new = match call.verb {
        Verb::Patch(kind) => apply_patch(&old, kind, &call.body)?,
        _ => call.body.clone(),
    };
    validation::check_type(resource, &new)?;
    metadata_of(&mut new)?;
    validation::check_name(call, &new)?;
    validation::check_namespace(&key, &new)?;
    validation::check_preconditions(resource, call, &key, &old, &mut new)?;
    resource.fill(&mut new);
    if call.subresource == "status" {
        let status = new["status"].take();
        new = (*old).clone();
        set_or_remove_field(&mut new, "status", status);
    } else {
        validation::check_immutable_fields(&key, &old, &new)?;
        validation::check_finalizers(&key, &old, &new)?;
        validation::check_owners(&key, &new)?;
        if resource.status {
            set_or_remove_field(&mut new, "status", old["status"].clone());
        }
        let metadata = metadata_of(&mut new)?;
        for field in SERVER_SET_FIELDS.into_iter().chain(["generation", "name", "namespace"]) {
            match old["metadata"].get(field) {
                Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
                None => drop(metadata.remove(field)),
            }
        }
        metadata.remove("managedFields");
    }
    if resource.generations && differs_outside_metadata_and_status(&old, &new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = json!(generation + 1);
    }
    Ok(PreparedWrite { key, old: Some(old), new, status_is_default: false })
}

/// Stores the object if it differs from the stored one, which can lack the default of its status. A
/// terminating object without finalizers is removed.
pub(crate) fn commit_write(store: &mut ApiObjectStore, prepared: PreparedWrite) -> Arc<Value> {
    let PreparedWrite { key, old, mut new, status_is_default } = prepared;
    drop_empty_metadata(&mut new);
    let Some(old) = old else {
        let created = store.put(key.clone(), new);
        if status_is_default {
            store.note_unstored_status(key);
        }
        return created;
    };
    if new == *old && !store.lacks_stored_status(&key) {
        return old;
    }
    let terminating = !new["metadata"]["deletionTimestamp"].is_null();
    if terminating && !has_finalizers(&new) {
        // Watches receive the object as it was before its last finalizer was removed. The client that removed
        // the finalizer receives the new object with the old resource version.
        store.remove(&key, None);
        return Arc::new(new);
    }
    store.put(key, new)
}

pub(crate) fn object_key(resource: &Resource, namespace: &str, name: &str) -> ApiObjectKey {
    let namespace = if resource.namespaced { namespace } else { "" };
    ApiObjectKey { resource: resource.full_name().into(), namespace: namespace.into(), name: name.into() }
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

/// The time in whole seconds, as the API stores it.
pub(crate) fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether anything other than metadata and status differs.
fn differs_outside_metadata_and_status(old: &Value, new: &Value) -> bool {
    fn other_fields(object: &Value) -> BTreeMap<&String, &Value> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(field, _)| !["metadata", "status"].contains(&field.as_str())).collect()
    }
    other_fields(old) != other_fields(new)
}

/// Removes empty metadata fields, which the server does not store.
fn drop_empty_metadata(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => true,
        });
    }
}

fn metadata_of(object: &mut Value) -> Result<&mut Map<String, Value>, ApiError> {
    let object = object.as_object_mut().ok_or_else(|| ApiError::bad_request("the body is no object"))?;
    object
        .entry("metadata")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or_else(|| ApiError::bad_request("metadata is no object"))
}

fn set_or_remove_field(object: &mut Value, field: &str, value: Value) {
    if value.is_null() {
        remove_field(object, field);
    } else {
        object[field] = value;
    }
}

pub(crate) fn remove_field(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}

fn generated_name(prefix: &str, mut random: u64) -> String {
    let mut name = prefix.to_owned();
    for _ in 0..5 {
        let (rest, digit) = (random / 27, random % 27);
        random = rest;
        name.push(char::from(ALPHABET[usize::try_from(digit).unwrap_or_default()]));
    }
    name
}

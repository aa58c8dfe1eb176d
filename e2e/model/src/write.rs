//! Creates, updates and patches.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::call::{Call, Verb};
use crate::patch::patched;
use crate::resource::Resource;
use crate::store::{Key, Store};

/// Letters and digits of generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Metadata that only the server writes.
const SERVERS_OWN: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// What a write would store.
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Value,
}

/// The object that a create asks for.
pub(crate) fn create(
    store: &mut Store,
    resource: &Resource,
    call: &Call,
    now: Timestamp,
    random: u64,
) -> Result<Wanted, Refusal> {
    let mut object = call.body.clone();
    if !object.is_object() {
        return Err(Refusal::bad_request("the body is no object"));
    }
    check_type(resource, &object)?;
    let metadata = metadata_of(&mut object)?;
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
    }
    check_namespace(resource, call, metadata)?;
    let mut name = metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if name.is_empty() {
        let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
        if prefix.is_empty() {
            return Err(Refusal::invalid(format!(
                "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
                resource.kind
            )));
        }
        name = generated(prefix, random);
        metadata.insert("name".into(), json!(name));
    }
    for field in SERVERS_OWN.iter().chain(&["resourceVersion", "managedFields"]) {
        metadata.remove(*field);
    }
    let key = key(resource, &call.namespace, &name);
    if store.get(&key).is_some() {
        return Err(Refusal::new(409, "AlreadyExists", format!("{key} already exists")));
    }
    let uid = store.new_uid();
    let metadata = metadata_of(&mut object)?;
    metadata.insert("uid".into(), json!(uid));
    metadata.insert("creationTimestamp".into(), json!(seconds(now)));
    if resource.generations {
        metadata.insert("generation".into(), json!(1));
    }
    if resource.status {
        remove(&mut object, "status");
    }
    resource.fill(&mut object);
    Ok(Wanted { key, old: None, new: object })
}

/// The object that an update or a patch asks for.
pub(crate) fn change(store: &Store, resource: &Resource, call: &Call) -> Result<Wanted, Refusal> {
    let key = key(resource, &call.namespace, &call.name);
    let Some(old) = store.get(&key).cloned() else { return Err(Refusal::not_found(&key.to_string())) };
    let mut new = match call.verb {
        Verb::Patch(kind) => patched(&old, kind, &call.body)?,
        _ => call.body.clone(),
    };
    check_type(resource, &new)?;
    check_versions(resource, call, &key, &old, &mut new)?;
    let metadata = metadata_of(&mut new)?;
    for field in SERVERS_OWN {
        match old["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
    metadata.insert("name".into(), json!(&*key.name));
    if !key.namespace.is_empty() {
        metadata.insert("namespace".into(), json!(&*key.namespace));
    }
    metadata.remove("managedFields");
    resource.fill(&mut new);
    if call.subresource == "status" {
        let status = new["status"].take();
        new = (*old).clone();
        set(&mut new, "status", status);
    } else if resource.status {
        set(&mut new, "status", old["status"].clone());
    }
    check_finalizers(&key, &old, &new)?;
    if resource.generations && differs_in_substance(&old, &new) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        new["metadata"]["generation"] = json!(generation + 1);
    }
    Ok(Wanted { key, old: Some(old), new })
}

/// Stores what is wanted, if it differs from what there is. A dying object without finalizers goes.
pub(crate) fn commit(store: &mut Store, wanted: Wanted) -> Arc<Value> {
    let Wanted { key, old, mut new } = wanted;
    drop_empty_metadata(&mut new);
    let Some(old) = old else { return store.put(key, new) };
    if new == *old {
        return old;
    }
    let dying = !new["metadata"]["deletionTimestamp"].is_null();
    if dying && !has_finalizers(&new) {
        return store.remove(&key, Some(new)).unwrap_or(old);
    }
    store.put(key, new)
}

pub(crate) fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
    let namespace = if resource.namespaced { namespace } else { "" };
    Key { resource: resource.full_name().into(), namespace: namespace.into(), name: name.into() }
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}

/// Whole seconds, as the API keeps it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn check_type(resource: &Resource, object: &Value) -> Result<(), Refusal> {
    let (version, kind) = (&object["apiVersion"], &object["kind"]);
    if *version != resource.api_version().as_str() || *kind != resource.kind.as_str() {
        let expected = format!("{}, Kind={}", resource.api_version(), resource.kind);
        return Err(Refusal::bad_request(format!(
            "the API version in the data ({version}, Kind={kind}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

fn check_namespace(
    resource: &Resource,
    call: &Call,
    metadata: &mut Map<String, Value>,
) -> Result<(), Refusal> {
    if !resource.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != call.namespace {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), json!(call.namespace));
    Ok(())
}

/// The locks that a request names. An update must name one of custom resources; a patch may.
fn check_versions(
    resource: &Resource,
    call: &Call,
    key: &Key,
    old: &Value,
    new: &mut Value,
) -> Result<(), Refusal> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let (uid, version) = (text(&new["metadata"]["uid"]), text(&new["metadata"]["resourceVersion"]));
    let update = call.verb == Verb::Update;
    if let Some(uid) = uid
        && old["metadata"]["uid"] != uid.as_str()
    {
        return Err(if update {
            Refusal::conflict(format!(
                "Operation cannot be fulfilled on {key}: StorageError: invalid object, Code: 4: Precondition failed: UID in \
                 precondition: {uid}, UID in object meta: {}",
                old["metadata"]["uid"]
            ))
        } else {
            Refusal::invalid(format!(
                "{key} is invalid: metadata.uid: Invalid value: {uid:?}: field is immutable"
            ))
        });
    }
    match version {
        Some(version) if old["metadata"]["resourceVersion"] != version.as_str() => {
            return Err(Refusal::conflict(format!(
                "Operation cannot be fulfilled on {key}: the object has been modified; please apply your changes to the \
                 latest version and try again"
            )));
        }
        None if update && resource.demands_version => {
            return Err(Refusal::invalid(format!(
                "{key} is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )));
        }
        _ => {}
    }
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    Ok(())
}

fn check_finalizers(key: &Key, old: &Value, new: &Value) -> Result<(), Refusal> {
    if old["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let all = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = all(old);
    match all(new).iter().find(|finalizer| !before.contains(finalizer)) {
        None => Ok(()),
        Some(added) => Err(Refusal::invalid(format!(
            "{key} is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
             found new finalizers {added}"
        ))),
    }
}

/// Whether anything but metadata and status differs.
fn differs_in_substance(old: &Value, new: &Value) -> bool {
    let substance = |object: &Value| {
        let mut object = object.clone();
        remove(&mut object, "metadata");
        remove(&mut object, "status");
        object
    };
    substance(old) != substance(new)
}

/// What is empty in metadata is not stored.
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

fn metadata_of(object: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let object = object.as_object_mut().ok_or_else(|| Refusal::bad_request("the body is no object"))?;
    object
        .entry("metadata")
        .or_insert_with(|| json!({}))
        .as_object_mut()
        .ok_or_else(|| Refusal::bad_request("metadata is no object"))
}

fn set(object: &mut Value, field: &str, value: Value) {
    if value.is_null() {
        remove(object, field);
    } else {
        object[field] = value;
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(field);
    }
}

fn generated(prefix: &str, mut random: u64) -> String {
    let mut name = prefix.to_owned();
    for _ in 0..5 {
        let (rest, digit) = (random / 27, random % 27);
        random = rest;
        name.push(char::from(ALPHABET[usize::try_from(digit).unwrap_or_default()]));
    }
    name
}

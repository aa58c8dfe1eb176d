//! Deletions and finalizers.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_error::ApiError;
use crate::call::Call;
use crate::resource::Resource;
use crate::store::{ApiObjectKey, ApiObjectStore};
use crate::write::{format_seconds, has_finalizers, object_key, remove_field};

/// The finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

/// The result of a deletion.
pub(crate) enum DeletionResult {
    /// The object was removed; this is its last state.
    Removed(Arc<Value>),
    /// The object is terminating until its finalizers are removed.
    Terminating(Arc<Value>),
}

/// Validates a deletion and returns the object.
pub(crate) fn find_object_to_delete(
    store: &ApiObjectStore,
    resource: &Resource,
    call: &Call,
) -> Result<(ApiObjectKey, Arc<Value>), ApiError> {
    let key = object_key(resource, &call.namespace, &call.name);
    let Some(object) = store.get(&key).cloned() else { return Err(ApiError::not_found(&key.to_string())) };
    for (field, word) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = &call.body["preconditions"][field];
        if !wanted.is_null() && *wanted != object["metadata"][field] {
            return Err(ApiError::conflict(format!(
                "Operation cannot be fulfilled on {key}: the {word} in the precondition ({wanted}) does not match the {word} \
                 in record ({}). The object might have been deleted and then recreated",
                object["metadata"][field]
            )));
        }
    }
    Ok((key, object))
}

/// Deletes an object or sets its deletion timestamp. A dry run changes nothing.
pub(crate) fn delete_object(
    store: &mut ApiObjectStore,
    resource: &Resource,
    key: &ApiObjectKey,
    policy: Option<&str>,
    now: Timestamp,
    dry: bool,
) -> Option<DeletionResult> {
    let old = store.get(key)?.clone();
    let object = with_deletion_timestamp(&old, policy.filter(|_| resource.collected), now);
    if !has_finalizers(&object) {
        return if dry { Some(old) } else { store.remove(key, Some(object)) }.map(DeletionResult::Removed);
    }
    let object = if dry || object == *old { Arc::new(object) } else { store.put(key.clone(), object) };
    Some(DeletionResult::Terminating(object))
}

/// The object after the deletion request.
fn with_deletion_timestamp(old: &Value, policy: Option<&str>, now: Timestamp) -> Value {
    let mut object = old.clone();
    let wanted = match policy {
        Some("Foreground") => Some(FOREGROUND),
        Some("Orphan") => Some(ORPHAN),
        _ => None,
    };
    if policy.is_some() {
        // The latest propagation policy applies, unless the garbage collector has already acted on an earlier
        // one.
        let before = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut finalizers = before.clone();
        finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
        finalizers.extend(wanted.map(|finalizer| json!(finalizer)));
        let same = finalizers.len() == before.len() && before.iter().all(|one| finalizers.contains(one));
        if finalizers.is_empty() {
            remove_field(&mut object["metadata"], "finalizers");
        } else if !same {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
    }
    if has_finalizers(&object) && object["metadata"]["deletionTimestamp"].is_null() {
        object["metadata"]["deletionTimestamp"] = json!(format_seconds(now));
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = json!(generation + 1);
        }
    }
    object
}

//! The patch that the user's client would send for a manifest.
//!
//! A client removes a field only if it knows that it set the field before. `kubectl apply` finds this in an
//! annotation, and server-side apply in the managed fields of its field manager. A dry run as another manager
//! would keep each removed field.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

/// The annotation in which `kubectl apply` stores the manifest.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The field manager of `kubectl apply`.
pub(super) const CLIENT_SIDE_MANAGER: &str = "kubectl-client-side-apply";
/// The field manager of `kubectl apply --server-side`.
pub(super) const SERVER_SIDE_MANAGER: &str = "kubectl";

/// How the user's client applies a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApplyMethod {
    /// `kubectl apply`.
    ClientSide,
    /// Server-side apply with this field manager.
    ServerSide { manager: String },
}

impl ApplyMethod {
    /// The method that `server_side` and `manager` request, or else the one by which the pool was applied
    /// last.
    pub(super) fn of_pool(stored: &Value, server_side: bool, manager: Option<&str>) -> Self {
        if let Some(manager) = manager {
            return Self::ServerSide { manager: manager.to_owned() };
        }
        let applied = last_manager(stored, |entry| entry["operation"] == "Apply");
        let applied_by_client = stored["metadata"]["annotations"][LAST_APPLIED].is_string();
        let client_side = last_manager(stored, |entry| entry["manager"] == CLIENT_SIDE_MANAGER)
            .filter(|_| applied_by_client)
            .map(|(time, _)| time);
        match applied {
            Some((time, manager)) if server_side || client_side.is_none_or(|earlier| earlier < time) => {
                Self::ServerSide { manager: manager.to_owned() }
            }
            _ if server_side => Self::ServerSide { manager: SERVER_SIDE_MANAGER.to_owned() },
            _ => Self::ClientSide,
        }
    }

    /// The command that the plan stands for, for users.
    pub(super) fn description(&self) -> String {
        match self {
            Self::ClientSide => "kubectl apply".to_owned(),
            Self::ServerSide { manager } => format!("server-side apply with the field manager {manager}"),
        }
    }
}

/// The time and the name of the manager that last wrote the object, among those that `is_wanted` accepts.
/// Times of one format are compared as text.
fn last_manager(stored: &Value, is_wanted: impl Fn(&Value) -> bool) -> Option<(&str, &str)> {
    let entries = stored["metadata"]["managedFields"].as_array()?.iter();
    let entries = entries.filter(|entry| entry["subresource"].as_str().unwrap_or_default().is_empty());
    let wanted = entries.filter(|entry| is_wanted(entry));
    wanted.filter_map(|entry| Some((entry["time"].as_str()?, entry["manager"].as_str()?))).max()
}

/// A manifest of a pool, without the fields that `kubectl get` shows and that no client may set.
///
/// # Errors
/// The manifest is of another object than the stored pool.
pub(super) fn read_manifest(text: &str, stored: &Value) -> Result<Value> {
    let mut manifest: Value =
        serde_yaml_ng::from_str(text).context("the manifest is no YAML of one object")?;
    for field in ["apiVersion", "kind"] {
        let (own, other) = (&manifest[field], &stored[field]);
        if own != other {
            bail!("{field} of the manifest is {own}, and that of the stored pool is {other}");
        }
    }
    for field in ["name", "namespace"] {
        let (own, other) = (&manifest["metadata"][field], &stored["metadata"][field]);
        if own != other && !(field == "namespace" && own.is_null()) {
            bail!(
                "the manifest is of a pool with the {field} {own}, and the command of a pool with the {field} {other}"
            );
        }
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), stored["metadata"]["name"].clone());
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if let Some(value) = manifest["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    manifest["metadata"] = metadata.into();
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.remove("status");
    }
    Ok(manifest)
}

/// The JSON merge patch that `kubectl apply` sends for a custom resource.
///
/// # Errors
/// The annotation with the former manifest cannot be read.
pub(super) fn client_side_patch(manifest: &Value, stored: &Value) -> Result<Value> {
    let former = match stored["metadata"]["annotations"][LAST_APPLIED].as_str() {
        Some(text) => serde_json::from_str(text)
            .with_context(|| format!("the annotation {LAST_APPLIED} of the pool cannot be read"))?,
        // The pool was not applied before. kubectl then removes nothing.
        None => json!({}),
    };
    let mut manifest = manifest.clone();
    if let Some(annotations) = manifest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let text = manifest.to_string();
    manifest["metadata"]["annotations"][LAST_APPLIED] = text.into();
    let mut patch = merge_patch(&former, &manifest, stored);
    // The pool that was read, and no other one of this name.
    patch["metadata"]["uid"] = stored["metadata"]["uid"].clone();
    Ok(patch)
}

/// What a client that applied `former` changes in `stored` to apply `wanted`. Lists are replaced as a whole.
fn merge_patch(former: &Value, wanted: &Value, stored: &Value) -> Value {
    let empty = Map::new();
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (former, wanted, stored) = (object(former), wanted.as_object().unwrap_or(&empty), object(stored));
    let mut patch = Map::new();
    for (key, value) in wanted {
        match stored.get(key) {
            Some(present) if present == value => {}
            Some(present) if present.is_object() && value.is_object() => {
                let below = merge_patch(former.get(key).unwrap_or(&Value::Null), value, present);
                if below.as_object().is_some_and(|below| !below.is_empty()) {
                    patch.insert(key.clone(), below);
                }
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in former.keys().filter(|key| !wanted.contains_key(*key) && stored.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch.into()
}

#[cfg(test)]
mod tests;

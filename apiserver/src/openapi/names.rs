//! Names of schemas, and references to them.

use serde_json::{Value, json};
use vmpool_platforms::removal::RemovalApi;

/// The name of a schema of vmpool.
pub(super) fn schema_name(api: &RemovalApi, kind: &str) -> String {
    let group: Vec<&str> = api.group.split('.').rev().collect();
    format!("{}.{}.{kind}", group.join("."), api.version)
}

/// A reference to a schema.
pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Group, version and kind of an object of vmpool.
pub(super) fn gvk(api: &RemovalApi, kind: &str) -> Value {
    json!({ "group": api.group, "kind": kind, "version": api.version })
}

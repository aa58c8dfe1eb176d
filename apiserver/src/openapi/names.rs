//! Names of schemas, and references to them.

use serde_json::{Value, json};

use crate::api::GroupVersion;

/// The name of a schema of vmpool.
pub(super) fn schema_name(served: GroupVersion, kind: &str) -> String {
    let group: Vec<&str> = served.group.split('.').rev().collect();
    format!("{}.{}.{kind}", group.join("."), served.version)
}

/// A reference to a schema.
pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Group, version and kind of an object of vmpool.
pub(super) fn gvk(served: GroupVersion, kind: &str) -> Value {
    json!({ "group": served.group, "kind": kind, "version": served.version })
}

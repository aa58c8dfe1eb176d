//! Names of schemas, paths and parameters, and references to them.

use serde_json::{Value, json};
use vmpool_platforms::removal::{GroupVersion, RemovalApi};

/// The name of a schema of vmpool.
pub(super) fn schema_name(api: &RemovalApi, kind: &str) -> String {
    let group: Vec<&str> = api.group.split('.').rev().collect();
    format!("{}.{}.{kind}", group.join("."), api.version)
}

/// A reference to a schema.
pub(super) fn schema_reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Group, version and kind of an object of vmpool.
pub(super) fn group_version_kind(api: &RemovalApi, kind: &str) -> Value {
    json!({ "group": api.group, "kind": kind, "version": api.version })
}

/// The beginning of the paths of a version of a group.
pub(super) fn namespace_path_prefix(served: GroupVersion) -> String {
    format!("/apis/{served}/namespaces/{{namespace}}")
}

/// A parameter in the path.
pub(super) fn path_parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "path", "description": description, "required": true,
        "schema": { "type": "string", "uniqueItems": true } })
}

/// A parameter in the query.
pub(super) fn query_parameter(name: &str, description: &str) -> Value {
    json!({ "name": name, "in": "query", "description": description,
        "schema": { "type": "string", "uniqueItems": true } })
}

/// The tag of the operations of a version of a group.
pub(super) fn operation_tag(served: GroupVersion) -> String {
    let group: String = served.group.split('.').map(capitalize_word).collect();
    format!("{}_{}", group, served.version)
}

fn capitalize_word(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

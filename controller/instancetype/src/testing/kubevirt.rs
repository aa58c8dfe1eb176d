//! The names of fields: those that the machines of KubeVirt have, and those in the definitions of instance
//! types and preferences.

use serde_json::{Map, Value, json};
use vmpool_api::instancetype::crds::CRDS;

/// The fields below the spec of a VirtualMachineInstance.
const INSTANCE: &str = include_str!("../../../../api/tests/fixtures/kubevirt/instance-fields.txt");

/// The fields in the spec of an instance that KubeVirt does not have. `null` equals an absent field.
pub(crate) fn unknown_fields(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    add_unknown(spec, "", &mut found);
    found
}

fn add_unknown(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let field = join_schema_path(path, key);
                // The keys of a map are free.
                if is_known(&field) || is_known(&join_schema_path(path, "*")) {
                    add_unknown(value, &field, found);
                } else {
                    found.push(field);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_unknown(item, &format!("{path}[]"), found)),
        _ => {}
    }
}

fn is_known(field: &str) -> bool {
    let below = |line: &str| line.strip_prefix(field).is_some_and(|rest| rest.starts_with(['.', '[']));
    INSTANCE.lines().any(|line| line == field || below(line))
}

fn join_schema_path(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The fields of the spec of a kind in the definition of this project, each with a value.
pub(crate) fn fields_of(kind: &str) -> Vec<(String, Value)> {
    let definition = CRDS.iter().find(|definition| definition.kind == kind).unwrap();
    let definition: Value = serde_yaml_ng::from_str(definition.yaml).unwrap();
    let mut fields = Vec::new();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    add_fields(schema, "", &mut fields);
    fields
}

fn add_fields(schema: &Value, path: &str, fields: &mut Vec<(String, Value)>) {
    match schema["properties"].as_object() {
        Some(properties) => {
            for (name, schema) in properties {
                add_fields(schema, &join_schema_path(path, name), fields);
            }
        }
        None => fields.push((path.to_owned(), value_of(schema))),
    }
}

fn value_of(schema: &Value) -> Value {
    if let Some(properties) = schema["properties"].as_object() {
        return properties.iter().map(|(name, schema)| (name.clone(), value_of(schema))).collect();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer") => json!(3),
        Some("string") => json!("x"),
        Some("array") => json!([value_of(&schema["items"])]),
        Some("object") if schema["additionalProperties"].is_object() => json!({"key": "value"}),
        Some("object") => Map::new().into(),
        // A quantity has no type.
        _ => json!("3Gi"),
    }
}

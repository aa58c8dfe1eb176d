//! The fields of a pool's spec according to its schema.

use serde_json::Value;

/// The key that represents all keys of a map.
pub(super) const KEY: &str = "some-key";

/// A field, which may contain other fields.
#[derive(Clone, Debug)]
pub(super) struct PoolField {
    /// The JSON pointer; for a list, of its first item.
    pub(super) pointer: String,
    /// The schema, without those of its subfields.
    pub(super) schema: Value,
}

impl PoolField {
    /// The name of the field; for a map key, the name of the map.
    pub(super) fn name(&self) -> &str {
        let is_name = |part: &&str| *part != KEY && part.parse::<usize>().is_err();
        self.pointer.rsplit('/').find(is_name).unwrap_or_default()
    }
}

/// All fields of the spec, including objects and lists.
pub(super) fn fields(schema: &Value) -> Vec<PoolField> {
    let mut fields = Vec::new();
    walk("/spec", &schema["properties"]["spec"], &mut fields);
    fields
}

fn walk(pointer: &str, schema: &Value, fields: &mut Vec<PoolField>) {
    let mut own = schema.clone();
    if let Some(own) = own.as_object_mut() {
        own.retain(|key, _| {
            !["description", "properties", "items", "additionalProperties"].contains(&key.as_str())
        });
    }
    fields.push(PoolField { pointer: pointer.to_owned(), schema: own });
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{pointer}/{name}"), field, fields);
    }
    if schema["items"].is_object() {
        walk(&format!("{pointer}/0"), &schema["items"], fields);
    }
    if schema["additionalProperties"].is_object() {
        walk(&format!("{pointer}/{KEY}"), &schema["additionalProperties"], fields);
    }
}

/// The messages of a schema's CEL rules, as far as they are constant.
pub(super) fn rules(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
            let own = own.filter_map(|rule| rule["message"].as_str().map(str::to_owned));
            own.chain(fields.values().flat_map(rules)).collect()
        }
        Value::Array(items) => items.iter().flat_map(rules).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn all_fields_of_a_schema_are_found() {
    let schema = serde_json::json!({ "properties": { "spec": { "type": "object", "properties": {
        "list": { "type": "array", "items": { "type": "object", "properties": { "size": { "minimum": 1 } } } },
        "map": { "additionalProperties": { "type": "string" } },
    } } } });
    let found = fields(&schema);
    let pointers: Vec<&str> = found.iter().map(|field| field.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        ["/spec", "/spec/list", "/spec/list/0", "/spec/list/0/size", "/spec/map", "/spec/map/some-key"]
    );
    assert_eq!(found[3].schema, serde_json::json!({ "minimum": 1 }));
    assert_eq!((found[2].name(), found[5].name()), ("list", "map"));
}

//! The fields of a pool's spec, as its schema has them.

use serde_json::Value;

/// The key that stands for those of a map.
pub(super) const KEY: &str = "some-key";

/// One field, or what has fields.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Where it is, as a JSON pointer; of a list the first item.
    pub(super) pointer: String,
    /// What it may be, without what may be in it.
    pub(super) schema: Value,
}

impl Field {
    /// What it is called; the key of a map is called as the map is.
    pub(super) fn name(&self) -> &str {
        let is_name = |part: &&str| *part != KEY && part.parse::<usize>().is_err();
        self.pointer.rsplit('/').find(is_name).unwrap_or_default()
    }
}

/// All fields of the spec, and all that have some.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    let mut fields = Vec::new();
    walk("/spec", &schema["properties"]["spec"], &mut fields);
    fields
}

fn walk(pointer: &str, schema: &Value, fields: &mut Vec<Field>) {
    let mut own = schema.clone();
    if let Some(own) = own.as_object_mut() {
        own.retain(|key, _| {
            !["description", "properties", "items", "additionalProperties"].contains(&key.as_str())
        });
    }
    fields.push(Field { pointer: pointer.to_owned(), schema: own });
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

/// What a CEL rule of a schema says when it is broken, as far as that is the same every time.
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
fn a_field_is_found_wherever_it_is() {
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

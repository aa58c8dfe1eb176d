//! The API server's defaults, as admission sees objects with them.

use serde_json::Value;

/// Sets defaults of missing fields, as the API server does before it calls a webhook.
pub(super) fn set_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                if !fields.contains_key(name) && !field["default"].is_null() {
                    fields.insert(name.clone(), field["default"].clone());
                }
                if let Some(present) = fields.get_mut(name) {
                    set_defaults(field, present);
                }
            }
            let others = &schema["additionalProperties"];
            if others.is_object() {
                fields.values_mut().for_each(|value| set_defaults(others, value));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_defaults(&schema["items"], item)),
        _ => {}
    }
}

#[test]
fn missing_fields_get_their_defaults() {
    let schema: Value = serde_json::json!({ "properties": {
        "count": { "default": 0 },
        "inner": { "default": {}, "properties": { "kind": { "default": "a" } } },
        "list": { "items": { "properties": { "size": { "default": 1 } } } },
        "map": { "additionalProperties": { "properties": { "size": { "default": 1 } } } },
    } });
    let mut value = serde_json::json!({ "list": [{}, { "size": 2 }], "map": { "x": {} } });
    set_defaults(&schema, &mut value);
    let expected = serde_json::json!({
        "count": 0, "inner": { "kind": "a" }, "list": [{ "size": 1 }, { "size": 2 }], "map": { "x": { "size": 1 } } });
    assert_eq!(value, expected);
}

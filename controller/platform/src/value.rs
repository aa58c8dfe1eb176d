//! Lenient access to JSON, for objects that a cluster may define differently.

use serde_json::Value;

static NULL: Value = Value::Null;

/// A field of a value, `null` where there is none.
pub fn json_field<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&NULL)
}

/// The value at a path of fields.
pub fn json_at_path<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, name| json_field(value, name))
}

/// The entries of a list; none if the value is not a list.
pub fn json_entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of a field; `None` if the value is not a text.
pub fn json_text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    json_field(value, name).as_str()
}

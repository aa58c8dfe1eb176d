//! Fields of a JSON document by their path, such as `domain.cpu.model`.

use crate::quantity;
use serde_json::{Value, json};

/// The value at a path; null if there is none.
pub(super) fn field_at<'a>(document: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(document, |value, name| &value[name])
}

/// The items at a path.
pub(super) fn items_at<'a>(document: &'a Value, path: &str) -> &'a [Value] {
    field_at(document, path).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The value at a path, with every object on the way to it.
fn create_field_path<'a>(document: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(document, |value, name| {
        if !value.is_object() {
            *value = json!({});
        }
        &mut value[name]
    })
}

/// Writes a value.
pub(super) fn set_field(document: &mut Value, path: &str, value: Value) {
    *create_field_path(document, path) = value;
}

/// Writes a value, unless it is null.
pub(super) fn set_given_field(document: &mut Value, path: &str, value: &Value) {
    if !value.is_null() {
        set_field(document, path, value.clone());
    }
}

/// Writes a value, unless it is null or the field is set.
pub(super) fn set_missing_field(document: &mut Value, path: &str, value: &Value) {
    if is_unset(field_at(document, path)) {
        set_given_field(document, path, value);
    }
}

/// Whether a field is absent, null or an empty text.
pub(super) fn is_unset(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Changes each item of a list.
pub(super) fn change_each_item(document: &mut Value, path: &str, change: impl FnMut(&mut Value)) {
    if !items_at(document, path).is_empty() {
        create_field_path(document, path).as_array_mut().into_iter().flatten().for_each(change);
    }
}

/// Adds an item to a list.
pub(super) fn append_item(document: &mut Value, path: &str, item: Value) {
    let list = create_field_path(document, path);
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// A quantity in whole units, rounded up; `None` if it is not positive.
pub(super) fn parse_quantity(value: &Value) -> Option<u128> {
    match value {
        Value::String(text) => quantity::parse_bytes(text),
        Value::Number(number) => quantity::parse_bytes(&number.to_string()),
        _ => None,
    }
}

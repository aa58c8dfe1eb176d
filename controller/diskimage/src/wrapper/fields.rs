//! Lists and objects in the fields of a template, which is JSON because it contains what only KubeVirt knows.

use serde_json::{Map, Value, json};

/// The items of a list. None of another value.
pub(super) fn list_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The object in this field, which is created if it is absent.
pub(super) fn object_field_mut<'v>(
    parent: &'v mut Map<String, Value>,
    field: &str,
) -> Option<&'v mut Map<String, Value>> {
    parent.entry(field).or_insert_with(|| json!({})).as_object_mut()
}

/// The list in this field, which is created if it is absent.
pub(super) fn list_field_mut<'v>(
    parent: &'v mut Map<String, Value>,
    field: &str,
) -> Option<&'v mut Vec<Value>> {
    parent.entry(field).or_insert_with(|| json!([])).as_array_mut()
}

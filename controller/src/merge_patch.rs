//! Merge patches between two values.

use serde_json::Value;

/// A merge patch that makes `old` equal to `new`.
pub(crate) fn merge_patch_between(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = serde_json::Map::new();
    for (field, value) in new {
        match old.get(field) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(field.clone(), merge_patch_between(before, value))),
            None => drop(patch.insert(field.clone(), value.clone())),
        }
    }
    for field in old.keys().filter(|field| !new.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_what_differs_and_removes_what_is_gone() {
        let old = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1, 2], "f": 3 });
        let new = json!({ "a": 1, "b": { "c": 1, "x": 3 }, "e": [2], "g": {} });
        let patch = merge_patch_between(&old, &new);
        assert_eq!(patch, json!({ "b": { "d": null, "x": 3 }, "e": [2], "f": null, "g": {} }));
        let mut merged = old;
        json_patch::merge(&mut merged, &patch);
        assert_eq!(merged, new);
    }
}

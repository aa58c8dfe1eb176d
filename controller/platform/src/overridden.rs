//! Fields of a machine that another program gave other values than the controller sent.
//!
//! An admission policy or the platform can change an object while it is stored. What they add is not
//! compared: only fields that the controller sent, and only if the stored object has another value.

use serde_json::{Map, Value};
use vmpool_api::Quantity;

/// Maximum number of fields in a list.
const LISTED: usize = 20;

/// The paths of the fields of `sent`, an object or a merge patch, that have another value in `stored`, in the
/// spelling of admission messages, such as `spec.domain.cpu.cores` or `metadata.labels[team]`. Only labels,
/// annotations and the spec are compared, without the fields in `completed`. A null in `sent`, and a value
/// that an encoder omits because it is the zero value, equal an absent value.
pub fn overridden_fields(sent: &Value, stored: &Value, completed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for field in ["labels", "annotations"] {
        compare_values(
            &format!("metadata.{field}"),
            true,
            &sent["metadata"][field],
            &stored["metadata"][field],
            &mut found,
        );
    }
    compare_values("spec", false, &sent["spec"], &stored["spec"], &mut found);
    found.retain(|path| !completed.iter().any(|field| is_at_or_below(path, field)));
    found.truncate(LISTED);
    found
}

fn is_at_or_below(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn compare_values(path: &str, is_map: bool, sent: &Value, stored: &Value, found: &mut Vec<String>) {
    // A merge patch without the field, or one that removes it: a default may take its place.
    if sent.is_null() || is_same(sent, stored) {
        return;
    }
    match (sent, stored) {
        (Value::Object(sent), _) => compare_fields(path, is_map, sent, stored, found),
        // Other programs may add items and reorder them.
        (Value::Array(sent), Value::Array(stored)) if has_all(sent, stored) => {}
        // Of a list of objects, the fields of the item with the same name or at the same place say more.
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (place, (sent, stored)) in sent.iter().zip(stored).enumerate() {
                compare_values(&format!("{path}[{place}]"), false, sent, stored, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

fn compare_fields(
    path: &str,
    is_map: bool,
    sent: &Map<String, Value>,
    stored: &Value,
    found: &mut Vec<String>,
) {
    if !stored.is_object() {
        // A struct without fields is omitted.
        if sent.values().any(|value| !is_omitted(value)) {
            found.push(path.to_owned());
        }
        return;
    }
    for (key, value) in sent {
        let below = if is_map { format!("{path}[{key}]") } else { format!("{path}.{key}") };
        let is_map = matches!(key.as_str(), "labels" | "annotations" | "nodeSelector" | "matchLabels");
        compare_values(&below, is_map, value, &stored[key], found);
    }
}

/// Whether `stored` contains each item of `sent`, possibly with further fields.
fn has_all(sent: &[Value], stored: &[Value]) -> bool {
    sent.iter().all(|sent| {
        stored.iter().any(|stored| {
            let mut found = Vec::new();
            compare_values("", false, sent, stored, &mut found);
            found.is_empty()
        })
    })
}

fn is_same(sent: &Value, stored: &Value) -> bool {
    sent == stored || stored.is_null() && is_omitted(sent) || is_same_quantity(sent, stored)
}

/// Whether an encoder can omit the value, because it is the zero value of its type.
fn is_omitted(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_omitted),
    }
}

/// Whether both are the same quantity in different spellings.
fn is_same_quantity(sent: &Value, stored: &Value) -> bool {
    let nanos = |value: &Value| match value {
        Value::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            Quantity::new(text.as_str()).nanos().ok()
        }
        Value::Number(number) => Quantity::new(number.to_string()).nanos().ok(),
        _ => None,
    };
    nanos(sent).zip(nanos(stored)).is_some_and(|(sent, stored)| sent == stored)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::equal(json!({ "cpu": { "cores": 2 } }), json!({ "cpu": { "cores": 2 } }), &[])]
    #[case::an_added_field(json!({ "cpu": { "cores": 2 } }), json!({ "cpu": { "cores": 2, "model": "host" }, "a": 1 }), &[])]
    #[case::another_number(json!({ "cpu": { "cores": 2 } }), json!({ "cpu": { "cores": 4 } }), &["spec.cpu.cores"])]
    #[case::a_removed_field(json!({ "cpu": { "cores": 2 } }), json!({ "cpu": {} }), &["spec.cpu.cores"])]
    #[case::a_removed_struct(json!({ "cpu": { "cores": 2 } }), json!({}), &["spec.cpu"])]
    #[case::another_node(
        json!({ "nodeSelector": { "pool": "cpu" } }), json!({ "nodeSelector": { "pool": "gpu", "zone": "a" } }),
        &["spec.nodeSelector[pool]"]
    )]
    #[case::zero_values_that_are_omitted(
        json!({ "a": 0, "b": false, "c": "", "d": [], "e": {}, "f": { "g": null } }), json!({}), &[]
    )]
    #[case::another_spelling_of_a_quantity(json!({ "memory": "1024Mi", "cpu": 1 }), json!({ "memory": "1Gi", "cpu": "1" }), &[])]
    #[case::another_quantity(json!({ "memory": "1Gi" }), json!({ "memory": "2Gi" }), &["spec.memory"])]
    #[case::an_item_of_another_program(
        json!({ "tolerations": [{ "key": "a" }] }), json!({ "tolerations": [{ "key": "b" }, { "key": "a", "operator": "Exists" }] }),
        &[]
    )]
    #[case::a_changed_item(
        json!({ "networks": [{ "type": "Main" }, { "type": "Network", "name": "a" }] }),
        json!({ "networks": [{ "type": "Main", "id": 1 }, { "type": "Network", "name": "b", "id": 2 }] }),
        &["spec.networks[1].name"]
    )]
    #[case::a_removed_item(json!({ "tolerations": [{ "key": "a" }] }), json!({ "tolerations": [] }), &["spec.tolerations"])]
    #[case::a_completed_reference(json!({ "instancetype": { "name": "a" } }), json!({ "instancetype": { "name": "b" } }), &[])]
    fn only_sent_fields_with_another_value_are_found(
        #[case] sent: Value,
        #[case] stored: Value,
        #[case] expected: &[&str],
    ) {
        let completed = ["spec.instancetype"];
        assert_eq!(
            overridden_fields(&json!({ "spec": sent }), &json!({ "spec": stored }), &completed),
            expected
        );
    }

    #[test]
    fn what_a_patch_leaves_out_or_removes_is_not_compared() {
        let stored = json!({ "metadata": { "labels": { "a": "b" }, "annotations": { "c": "d" } }, "spec": { "e": 1, "f": 2 } });
        for patch in [json!({}), json!({ "metadata": { "labels": { "a": null } }, "spec": { "f": null } })] {
            assert_eq!(overridden_fields(&patch, &stored, &[]), [""; 0], "{patch}");
        }
    }

    #[test]
    fn labels_and_annotations_are_compared_and_other_metadata_is_not() {
        let sent = json!({ "metadata": { "name": "a", "labels": { "team": "render", "b": "" }, "annotations": { "c": "d" } } });
        let stored =
            json!({ "metadata": { "name": "b", "labels": { "team": "platform" }, "annotations": {} } });
        assert_eq!(
            overridden_fields(&sent, &stored, &[]),
            ["metadata.labels[team]", "metadata.annotations[c]"]
        );
    }
}

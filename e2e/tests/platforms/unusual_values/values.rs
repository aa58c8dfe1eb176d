//! Unusual values for a field.

use serde_json::{Value, json};

/// A change of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldChange {
    Put(Value),
    Remove,
}

impl FieldChange {
    /// Applies the change at a path, and creates missing parents.
    pub(super) fn make(&self, object: &mut Value, pointer: &str) {
        let (parent, last) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        match self {
            Self::Remove => match object.pointer_mut(parent) {
                Some(Value::Object(fields)) => drop(fields.remove(last)),
                Some(Value::Array(items)) => {
                    if let Some(place) = last.parse().ok().filter(|place| *place < items.len()) {
                        items.remove(place);
                    }
                }
                _ => {}
            },
            Self::Put(value) => *place(object, pointer) = value.clone(),
        }
    }
}

/// The value at a path; missing parents are created.
fn place<'v>(object: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').skip(1).fold(object, |at, part| {
        if let Ok(index) = part.parse::<usize>() {
            if !at.is_array() {
                *at = json!([]);
            }
            let items = at.as_array_mut().expect("the value is a list");
            while items.len() <= index {
                items.push(json!({}));
            }
            &mut items[index]
        } else {
            if !at.is_object() {
                *at = json!({});
            }
            &mut at[part]
        }
    })
}

/// Characters of several scripts, a right-to-left override, and a character outside the basic multilingual
/// plane.
const UNICODE: &str = "Größe-日本-\u{202e}-🦀";

/// All changes for a field with this schema, each with a name.
pub(super) fn changes(schema: &Value) -> Vec<(&'static str, FieldChange)> {
    let mut values = vec![("absent", FieldChange::Remove), ("null", FieldChange::Put(Value::Null))];
    let mut put = |what, value: Value| values.push((what, FieldChange::Put(value)));
    let any = schema["x-kubernetes-int-or-string"] == true;
    match schema["type"].as_str() {
        Some("integer") => {
            integers(schema, &mut put);
            put("another type", json!("1"));
        }
        Some("boolean") => {
            put("smallest", json!(false));
            put("largest", json!(true));
            put("another type", json!("yes"));
            put("a number", json!(1));
        }
        Some("object") => {
            put("empty", json!({}));
            put("another type", json!("text"));
            put("a list", json!([]));
        }
        Some("array") => {
            put("empty", json!([]));
            put("of nothing", json!([null]));
            put("another type", json!({}));
        }
        Some("string") => {
            strings(schema, &mut put);
            put("another type", json!(7));
        }
        _ => {
            debug_assert!(any, "unknown type: {schema}");
            integers(schema, &mut put);
            strings(schema, &mut put);
            put("a fraction", json!("0.5"));
            put("an amount", json!("1Gi"));
            put("a small amount", json!("1n"));
            put("a large amount", json!("8000P"));
            put("a share", json!("10%"));
            put("more than all", json!("101%"));
            put("another type", json!({}));
        }
    }
    values
}

fn integers(schema: &Value, put: &mut impl FnMut(&'static str, Value)) {
    let wide = schema["format"] == "int64";
    let least = schema["minimum"].as_i64();
    let most = schema["maximum"].as_i64().unwrap_or(if wide { i64::MAX } else { i64::from(i32::MAX) });
    put("zero", json!(0));
    put("negative", json!(-1));
    put("smallest", json!(least.unwrap_or(if wide { i64::MIN } else { i64::from(i32::MIN) })));
    if let Some(least) = least {
        put("below", json!(least - 1));
    }
    put("largest", json!(most));
    // The first number beyond signed 64-bit integers is still valid JSON.
    put(
        "beyond",
        most.checked_add(1).map_or_else(|| json!(i64::MAX.unsigned_abs() + 1), |beyond| json!(beyond)),
    );
    put("far beyond", json!(u64::MAX));
    put("a fraction of a number", json!(1.5));
}

fn strings(schema: &Value, put: &mut impl FnMut(&'static str, Value)) {
    put("empty text", json!(""));
    put("blank", json!(" "));
    put("smallest", json!("a"));
    put("negative", json!("-1"));
    put("unicode", json!(UNICODE));
    put("lines", json!("a\nb: c\u{0}"));
    let most = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok());
    put("largest", json!("a".repeat(most.unwrap_or(253))));
    put("beyond", json!("a".repeat(most.map_or(70_000, |most| most + 1))));
    put("an hour", json!("1h"));
    put("a word in capitals", json!("Value"));
    for value in schema["enum"].as_array().into_iter().flatten() {
        put("one of the values", value.clone());
    }
}

#[test]
fn missing_parents_are_created() {
    let mut object = json!({ "spec": { "list": [{ "a": 1 }] } });
    FieldChange::Put(json!(2)).make(&mut object, "/spec/list/0/b/c");
    FieldChange::Put(json!(3)).make(&mut object, "/spec/other/0");
    FieldChange::Remove.make(&mut object, "/spec/list/0/a");
    FieldChange::Remove.make(&mut object, "/spec/nothing/here");
    assert_eq!(object, json!({ "spec": { "list": [{ "b": { "c": 2 } }], "other": [3] } }));
}

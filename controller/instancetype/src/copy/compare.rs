//! Comparing a copy with an object by what their specs mean.

use std::cmp::Ordering;

use serde_json::Value;

use crate::model::InstanceTypeObject;
use crate::quantity::Amount;

/// The quantities of all four kinds.
const QUANTITIES: [&str; 3] = ["memory.guest", "memory.maxGuest", "requirements.memory.guest"];

/// Maps, which are equal to absent if they are empty. An empty object elsewhere is a setting, for example
/// `preferredRng: {}`.
const MAPS: [&str; 2] = ["nodeSelector", "annotations"];

/// Whether two specs mean the same. Quantities are compared by value; null, an empty list, an empty text and
/// an empty map equal an absent field, and so does an overcommit of 0.
pub fn same_spec(left: &Value, right: &Value) -> bool {
    same_value(left, right, "")
}

fn same_value(left: &Value, right: &Value, path: &str) -> bool {
    if is_absent(left, path) || is_absent(right, path) {
        return is_absent(left, path) && is_absent(right, path);
    }
    if QUANTITIES.contains(&path)
        && let (Some(left), Some(right)) = (Amount::from_json(left), Amount::from_json(right))
    {
        return left.compare(&right) == Ordering::Equal;
    }
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            left.keys().chain(right.keys()).all(|key| {
                let field =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                // A key with a dot, for example of an annotation, must not look like a path.
                let path = if MAPS.contains(&path) { "*".to_owned() } else { join_spec_path(path, key) };
                same_value(&field(left), &field(right), &path)
            })
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same_value(left, right, "*"))
        }
        (left, right) => left == right,
    }
}

fn join_spec_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn is_absent(value: &Value, path: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // The empty value of a label or annotation is a value.
        Value::String(text) => text.is_empty() && path != "*",
        Value::Object(fields) => fields.is_empty() && MAPS.contains(&path),
        Value::Number(number) => path == "memory.overcommitPercent" && number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

/// How the live object differs from a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// It has another spec.
    SpecChanged,
    /// It no longer exists.
    Deleted,
    /// It was deleted and created again with another spec.
    Recreated,
}

impl Outdated {
    /// The reason in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpecChanged => "SpecChanged",
            Self::Deleted => "Deleted",
            Self::Recreated => "Recreated",
        }
    }
}

/// Compares the object in a copy with the live object. `None` if the live object has the same spec.
pub fn outdated_reason(copied: &InstanceTypeObject, live: Option<&InstanceTypeObject>) -> Option<Outdated> {
    let Some(live) = live else { return Some(Outdated::Deleted) };
    if same_spec(copied.spec(), live.spec()) {
        return None;
    }
    let recreated = copied.identity.uid.is_some() && copied.identity.uid != live.identity.uid;
    Some(if recreated { Outdated::Recreated } else { Outdated::SpecChanged })
}

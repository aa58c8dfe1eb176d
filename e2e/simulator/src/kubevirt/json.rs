//! JSON that the controllers compute with.

use crate::objects::{NamespacedKey, format_seconds};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The merge patch (RFC 7396) that turns one value into another; `None` if they are equal.
pub(super) fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return Some(to.clone()) };
    let mut patch = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) => patch.extend(merge_patch(before, value).map(|change| (name.clone(), change))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// A number that depends on nothing but these parts.
pub(super) fn stable_number(parts: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// A UUID that depends on nothing but these parts.
pub(super) fn stable_uuid(parts: &impl Hash) -> String {
    let digits = format!("{:016x}{:016x}", stable_number((parts, 0)), stable_number((parts, 1)));
    let (variant, rest) = digits[16..].split_at(1);
    let variant = ["8", "9", "a", "b"][usize::from_str_radix(variant, 16).unwrap_or_default() % 4];
    format!("{}-{}-4{}-{variant}{}-{}", &digits[..8], &digits[8..12], &digits[13..16], &rest[..3], &rest[3..])
}

/// A random-looking end of a name that depends on nothing but these parts.
pub(super) fn name_suffix(parts: impl Hash) -> String {
    // Letters and digits that cannot be mistaken for each other, as in generated names.
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = stable_number(parts);
    let mut suffix = String::new();
    for _ in 0..5 {
        let letters = ALPHABET.len() as u64;
        suffix.push(char::from(ALPHABET[usize::try_from(number % letters).unwrap_or_default()]));
        number /= letters;
    }
    suffix
}

/// A moment in whole seconds that is not before this one.
pub(super) fn rounded_up(time: Timestamp) -> String {
    let whole = time.subsec_nanosecond() == 0;
    let up = if whole { time } else { time.checked_add(std::time::Duration::from_secs(1)).unwrap_or(time) };
    format_seconds(up)
}

/// A stable number for a name within its namespace.
pub(super) fn namespace_and_name(key: &NamespacedKey) -> (&str, &str) {
    (&key.namespace, &key.name)
}

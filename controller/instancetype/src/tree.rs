//! Reading and writing JSON documents by path.
//!
//! Machines are handled as JSON, so that no field of a newer KubeVirt is lost. A path is a chain of keys such
//! as `domain.cpu.sockets`, relative to the value that is given. As in KubeVirt's own decoder, `null` equals
//! an absent field, and for text an empty string does too.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

#[cfg(test)]
mod tests;

/// A value does not have the type that its field requires.
///
/// The message names the field and never quotes the value, because a caller can point to documents that it
/// may not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} must be {expected}")]
pub struct Malformed {
    /// The path of the field.
    pub path: String,
    /// What the field must be, with an article.
    pub expected: &'static str,
}

impl Malformed {
    pub(crate) fn new(path: impl Into<String>, expected: &'static str) -> Self {
        Self { path: path.into(), expected }
    }

    /// The same error, with the path of the document that contains the field in front.
    #[must_use]
    pub fn below(self, base: &str) -> Self {
        let path = match (base, self.path.as_str()) {
            ("", _) => self.path,
            (base, "") => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        };
        Self { path, ..self }
    }
}

const OBJECT: &str = "an object";
const LIST: &str = "a list of objects";
const TEXT: &str = "a string";

/// The value at a path; `None` if it is absent or null.
pub(crate) fn value_at<'a>(root: &'a Value, path: &str) -> Result<Option<&'a Value>, Malformed> {
    let mut value = root;
    let mut end = 0;
    for key in path_keys(path) {
        match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => match fields.get(key) {
                Some(next) => value = next,
                None => return Ok(None),
            },
            _ => return Err(Malformed::new(&path[..end], OBJECT)),
        }
        end += key.len() + usize::from(end > 0);
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// The object at a path.
pub(crate) fn object_at<'a>(root: &'a Value, path: &str) -> Result<Option<&'a Value>, Malformed> {
    typed_value_at(root, path, OBJECT, |value| value.is_object().then_some(value))
}

/// The text at a path; `None` if it is empty.
pub(crate) fn text_at<'a>(root: &'a Value, path: &str) -> Result<Option<&'a str>, Malformed> {
    Ok(typed_value_at(root, path, TEXT, Value::as_str)?.filter(|text| !text.is_empty()))
}

/// The boolean at a path.
pub(crate) fn flag_at(root: &Value, path: &str) -> Result<Option<bool>, Malformed> {
    typed_value_at(root, path, "a boolean", Value::as_bool)
}

/// The unsigned 32-bit number at a path.
pub(crate) fn u32_at(root: &Value, path: &str) -> Result<Option<u32>, Malformed> {
    typed_value_at(root, path, "a whole number from 0 to 4294967295", |value| {
        value.as_u64().and_then(|number| u32::try_from(number).ok())
    })
}

/// The signed 64-bit number at a path.
pub(crate) fn i64_at(root: &Value, path: &str) -> Result<Option<i64>, Malformed> {
    typed_value_at(root, path, "a whole number", Value::as_i64)
}

/// The list of objects at a path; empty if it is absent.
pub(crate) fn items_at<'a>(root: &'a Value, path: &str) -> Result<&'a [Value], Malformed> {
    let list = typed_value_at(root, path, LIST, |value| {
        value.as_array().filter(|items| items.iter().all(Value::is_object)).map(Vec::as_slice)
    })?;
    Ok(list.unwrap_or_default())
}

/// The map from text to text at a path, for example annotations.
pub(crate) fn text_map_at(root: &Value, path: &str) -> Result<Option<BTreeMap<String, String>>, Malformed> {
    typed_value_at(root, path, "a map from strings to strings", |value| {
        let entries = value.as_object()?.iter();
        entries.map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    })
}

fn typed_value_at<'a, T>(
    root: &'a Value,
    path: &str,
    expected: &'static str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<Option<T>, Malformed> {
    value_at(root, path)?.map(|value| read(value).ok_or_else(|| Malformed::new(path, expected))).transpose()
}

/// The object at a path, created if it is absent.
pub(crate) fn object_mut<'a>(
    root: &'a mut Value,
    path: &str,
) -> Result<&'a mut Map<String, Value>, Malformed> {
    let mut value = root;
    let mut end = 0;
    for key in path_keys(path) {
        value = object_fields_mut(value)
            .ok_or_else(|| Malformed::new(&path[..end], OBJECT))?
            .entry(key)
            .or_insert(Value::Null);
        end += key.len() + usize::from(end > 0);
    }
    object_fields_mut(value).ok_or_else(|| Malformed::new(path, OBJECT))
}

/// The list of objects at a path, created if it is absent.
pub(crate) fn items_mut<'a>(root: &'a mut Value, path: &str) -> Result<&'a mut Vec<Value>, Malformed> {
    let (parent, key) = split_path(path);
    let value = object_mut(root, parent)?.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(items) if items.iter().all(Value::is_object) => Ok(items),
        _ => Err(Malformed::new(path, LIST)),
    }
}

/// Calls a function for each object of the list at a path. An absent list stays absent.
pub(crate) fn for_each_item(
    root: &mut Value,
    path: &str,
    mut change: impl FnMut(&mut Value) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    if items_at(root, path)?.is_empty() {
        return Ok(());
    }
    for (index, item) in items_mut(root, path)?.iter_mut().enumerate() {
        change(item).map_err(|error| error.below(&format!("{path}[{index}]")))?;
    }
    Ok(())
}

/// Writes the value at a path, whatever was there.
pub(crate) fn set_value(root: &mut Value, path: &str, value: impl Into<Value>) -> Result<(), Malformed> {
    let (parent, key) = split_path(path);
    object_mut(root, parent)?.insert(key.to_owned(), value.into());
    Ok(())
}

/// Writes the value at a path, if there is one and it may be written.
pub(crate) fn set_given(
    root: &mut Value,
    path: &str,
    value: Option<impl Into<Value>>,
) -> Result<(), Malformed> {
    value.map_or(Ok(()), |value| set_value(root, path, value))
}

/// Writes a default: only if one is given, and the field is absent.
pub(crate) fn set_default(
    root: &mut Value,
    path: &str,
    default: Option<impl Into<Value>>,
) -> Result<(), Malformed> {
    match default {
        Some(default) if value_at(root, path)?.is_none() => set_value(root, path, default),
        _ => Ok(()),
    }
}

/// Writes a default for a text: only if one is given, and the field is absent or empty.
pub(crate) fn set_default_text(root: &mut Value, path: &str, default: Option<&str>) -> Result<(), Malformed> {
    match default {
        Some(default) if text_at(root, path)?.is_none() => set_value(root, path, default),
        _ => Ok(()),
    }
}

/// Removes the field at a path, if it exists.
pub(crate) fn remove_field(root: &mut Value, path: &str) -> Result<(), Malformed> {
    if value_at(root, path)?.is_some() {
        let (parent, key) = split_path(path);
        object_mut(root, parent)?.remove(key);
    }
    Ok(())
}

/// The fields of an object. Null becomes an empty object.
fn object_fields_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

fn path_keys(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|key| !key.is_empty())
}

fn split_path(path: &str) -> (&str, &str) {
    path.rsplit_once('.').unwrap_or(("", path))
}

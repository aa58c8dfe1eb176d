//! Values of KubeVirt's API in one spelling.
//!
//! KubeVirt reads an object into its Go types and encodes them again when it stores a copy. A copy therefore
//! lacks values that the object has, and has values that the object lacks. The type of a field decides which:
//!
//! - Absent, null and empty lists are equal. So are absent and empty texts, unless the text is a pointer.
//! - A bool or a number that is no pointer is encoded only if it is not false or 0, or is always encoded.
//!   Either way, an absent field equals false or 0. In a pointer, false and 0 are values.
//! - A struct that is no pointer is always encoded. In a pointer, an empty struct is a value, for example
//!   `masquerade: {}`.
//! - Quantities are encoded with the suffix that Kubernetes prefers.
//!
//! The types of fields are data, in a [`FieldEncodings`] for each kind. A comparison of objects with their
//! copies compares [`FieldEncodings::canonical`] values.

use serde_json::{Map, Value};
use vmpool_api::Quantity;

mod encoder;

/// The Go type of a field, if it makes two spellings equal. A field without one is a text that is no pointer,
/// a list, or a pointer to another type, for which the general rules suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldEncoding {
    /// A bool or a number, no pointer: false and 0 equal an absent field.
    Scalar,
    /// A number or a text in one type, no pointer: 0 equals an absent field, and an empty text does not.
    IntOrString,
    /// A pointer to a text: an empty text differs from an absent field.
    OptionalText,
    /// A text, no pointer, that is also encoded if it is empty. An empty text equals an absent field.
    RequiredText,
    /// A struct, no pointer: an empty one equals an absent field.
    Struct,
    /// A map of texts: an empty one equals an absent field. Its keys are free, and an empty text in it is a
    /// value.
    TextMap,
    /// A map of quantities: as [`Self::TextMap`], with values that are compared as quantities.
    QuantityMap,
    /// A quantity, no pointer: 0 equals an absent field.
    Quantity,
    /// A pointer to a quantity: 0 differs from an absent field.
    OptionalQuantity,
}

impl FieldEncoding {
    const fn is_map(self) -> bool {
        matches!(self, Self::TextMap | Self::QuantityMap)
    }
}

/// The fields of one kind that have a [`FieldEncoding`]. A path contains the names of the fields, with dots
/// between them and `[]` after the name of a list, for example `domain.devices.disks[].disk.readonly`.
#[derive(Clone, Copy, Debug)]
pub struct FieldEncodings {
    /// The fields, with their paths.
    pub fields: &'static [(&'static str, FieldEncoding)],
    /// The kinds that fields contain, with the paths of these fields.
    pub embedded: &'static [(&'static str, &'static FieldEncodings)],
}

impl FieldEncodings {
    /// The value of the field at a path in one spelling; `None` if it equals an absent field. Two values have
    /// equal results exactly if KubeVirt reads them as the same value. The path of the whole object is empty.
    pub fn canonical(&self, path: &str, value: &Value) -> Option<Value> {
        let encoding = self.encoding(path);
        match value {
            Value::Null => None,
            Value::Object(entries) if encoding.is_some_and(FieldEncoding::is_map) => {
                let entries: Map<String, Value> = entries
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), canonical_entry(encoding, value)?)))
                    .collect();
                (!entries.is_empty()).then_some(Value::Object(entries))
            }
            Value::Object(fields) => {
                let fields: Map<String, Value> = fields
                    .iter()
                    .filter_map(|(key, value)| {
                        Some((key.clone(), self.canonical(&join_field(path, key), value)?))
                    })
                    .collect();
                (!fields.is_empty() || encoding != Some(FieldEncoding::Struct))
                    .then_some(Value::Object(fields))
            }
            Value::Array(items) if items.is_empty() => None,
            // Positions in a list are significant.
            Value::Array(items) => {
                let path = format!("{path}[]");
                Some(items.iter().map(|item| self.canonical_item(&path, item)).collect())
            }
            scalar => canonical_scalar(encoding, scalar),
        }
    }

    /// As [`Self::canonical`], for a field at a JSON pointer below the field at the path `root`. A star in
    /// the pointer stands for an item of a list.
    pub fn canonical_at_pointer(&self, root: &str, pointer: &str, value: &Value) -> Option<Value> {
        let mut path = root.to_owned();
        for segment in pointer.split('/').skip(1) {
            let encoding = self.encoding(&path);
            if encoding.is_some_and(FieldEncoding::is_map) {
                return canonical_entry(encoding, value);
            }
            match segment {
                "*" => path.push_str("[]"),
                field => path = join_field(&path, field),
            }
        }
        self.canonical(&path, value)
    }

    fn canonical_item(&self, path: &str, item: &Value) -> Value {
        match item {
            Value::Object(_) => self.canonical(path, item).unwrap_or(Value::Null),
            other => other.clone(),
        }
    }

    fn encoding(&self, path: &str) -> Option<FieldEncoding> {
        let known = self.fields.iter().find(|(known, _)| *known == path).map(|(_, encoding)| *encoding);
        known.or_else(|| {
            self.embedded
                .iter()
                .find_map(|(field, kind)| kind.encoding(path.strip_prefix(*field)?.strip_prefix('.')?))
        })
    }
}

fn join_field(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The value of an entry of a map.
fn canonical_entry(map: Option<FieldEncoding>, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        quantity if map == Some(FieldEncoding::QuantityMap) => Some(canonical_quantity(quantity)),
        other => Some(other.clone()),
    }
}

fn canonical_scalar(encoding: Option<FieldEncoding>, scalar: &Value) -> Option<Value> {
    use FieldEncoding::{IntOrString, OptionalQuantity, OptionalText, Quantity, Scalar};
    let is_zero = |value: &Value| value.as_i64() == Some(0);
    match (encoding, scalar) {
        (Some(OptionalQuantity), quantity) => Some(canonical_quantity(quantity)),
        (Some(Quantity), quantity) => Some(canonical_quantity(quantity)).filter(|value| *value != ZERO),
        (Some(OptionalText | IntOrString), Value::String(_)) => Some(scalar.clone()),
        (_, Value::String(text)) if text.is_empty() => None,
        (Some(Scalar), Value::Bool(false)) => None,
        (Some(Scalar | IntOrString), number) if is_zero(number) => None,
        (_, other) => Some(other.clone()),
    }
}

/// The canonical quantity zero.
const ZERO: &str = "0n";

/// A quantity in billionths. A value that is no quantity stays as it is.
fn canonical_quantity(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => return other.clone(),
    };
    Quantity::new(text).nanos().map_or_else(|_| value.clone(), |nanos| format!("{nanos}n").into())
}

#[cfg(test)]
mod tests;

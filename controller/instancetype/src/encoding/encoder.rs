//! Values as KubeVirt encodes them.

use serde_json::{Map, Value, json};

use super::{FieldEncoding, FieldEncodings, join_field};
use crate::quantity::canonical_text;

impl FieldEncodings {
    /// The value of the field at a path as KubeVirt encodes it after it has read it; `None` if KubeVirt
    /// leaves it out. The path of the whole object is empty.
    ///
    /// Fields that KubeVirt does not know, and that it would drop, stay.
    pub fn encoded(&self, path: &str, value: &Value) -> Option<Value> {
        let encoding = self.encoding(path);
        match value {
            Value::Null => None,
            Value::Object(entries) if encoding.is_some_and(FieldEncoding::is_map) => {
                (!entries.is_empty()).then(|| encoded_map(encoding, entries))
            }
            Value::Object(fields) => Some(self.encoded_object(path, fields)),
            Value::Array(items) if items.is_empty() => None,
            Value::Array(items) => {
                let path = format!("{path}[]");
                Some(items.iter().map(|item| self.encoded(&path, item).unwrap_or(Value::Null)).collect())
            }
            scalar => encoded_scalar(encoding, scalar),
        }
    }

    fn encoded_object(&self, path: &str, fields: &Map<String, Value>) -> Value {
        let encoded = |(name, value): (&String, &Value)| {
            Some((name.clone(), self.encoded(&join_field(path, name), value)?))
        };
        let mut result: Map<String, Value> = fields.iter().filter_map(encoded).collect();
        for (name, encoding) in self.fields_below(path) {
            if !result.contains_key(name)
                && let Some(zero) = self.encoded_zero(&join_field(path, name), encoding)
            {
                result.insert(name.to_owned(), zero);
            }
        }
        Value::Object(result)
    }

    /// What KubeVirt writes for an absent field: what is no pointer is always encoded.
    fn encoded_zero(&self, path: &str, encoding: FieldEncoding) -> Option<Value> {
        match encoding {
            FieldEncoding::Struct => Some(self.encoded_object(path, &Map::new())),
            FieldEncoding::Quantity => Some(json!("0")),
            FieldEncoding::IntOrString => Some(json!(0)),
            FieldEncoding::RequiredText => Some(json!("")),
            FieldEncoding::Scalar
            | FieldEncoding::OptionalText
            | FieldEncoding::TextMap
            | FieldEncoding::QuantityMap
            | FieldEncoding::OptionalQuantity => None,
        }
    }

    /// The known fields of the object at a path.
    fn fields_below(&self, path: &str) -> Vec<(&'static str, FieldEncoding)> {
        let own = self.fields.iter().filter_map(|(field, encoding)| {
            let (around, name) = field.rsplit_once('.').unwrap_or(("", field));
            (around == path).then_some((name, *encoding))
        });
        let embedded = self.embedded.iter().filter_map(|(field, kind)| {
            let rest = path.strip_prefix(*field)?;
            let path = if rest.is_empty() { rest } else { rest.strip_prefix('.')? };
            Some(kind.fields_below(path))
        });
        own.chain(embedded.flatten()).collect()
    }
}

fn encoded_map(map: Option<FieldEncoding>, entries: &Map<String, Value>) -> Value {
    let encoded = |value: &Value| match map {
        Some(FieldEncoding::QuantityMap) => encoded_quantity(value),
        _ => value.clone(),
    };
    entries.iter().map(|(key, value)| (key.clone(), encoded(value))).collect()
}

fn encoded_scalar(encoding: Option<FieldEncoding>, scalar: &Value) -> Option<Value> {
    use FieldEncoding::{IntOrString, OptionalQuantity, OptionalText, Quantity, RequiredText, Scalar};
    match (encoding, scalar) {
        (Some(Quantity | OptionalQuantity), quantity) => Some(encoded_quantity(quantity)),
        (Some(OptionalText | RequiredText | IntOrString), _) => Some(scalar.clone()),
        (_, Value::String(text)) if text.is_empty() => None,
        (Some(Scalar), Value::Bool(false)) => None,
        (Some(Scalar), number) if number.as_i64() == Some(0) => None,
        (_, other) => Some(other.clone()),
    }
}

/// A value that is neither a text nor a number stays as it is.
fn encoded_quantity(value: &Value) -> Value {
    match value {
        Value::String(text) => canonical_text(text).into(),
        Value::Number(number) => canonical_text(&number.to_string()).into(),
        other => other.clone(),
    }
}

//! A part of an object as JSON text.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// JSON text that is parsed when it is needed. The parsed tree can need fifty times as much memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(Arc<str>);

impl Default for Text {
    fn default() -> Self {
        Self("null".into())
    }
}

impl Text {
    /// The text of `value`.
    pub fn of(value: &Value) -> Self {
        Self(value.to_string().into())
    }

    /// The parsed value.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// Number of bytes of the JSON text.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.get().into()))
    }
}

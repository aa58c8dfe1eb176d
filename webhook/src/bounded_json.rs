//! Decodes selected fields of JSON text within a memory budget.
//!
//! In memory, a small object takes about eighty times the length of its text: 1 MB of `{"a":0}` takes more
//! than 80 MB. Fields that are not selected are skipped and use no memory.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The size of an entry of a list in bytes, including the unused capacity of a growing list.
const ENTRY: usize = 2 * size_of::<Value>();
/// The size of a string in bytes without its content.
const STRING: usize = 32;
/// The size of a node of a map in bytes: eleven keys and values, and the links to other nodes.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 64;
/// The minimum number of entries in a node of a large map.
const ENTRIES_OF_A_NODE: usize = 5;

/// The maximum nesting. It is below the limit of the decoder, whose error would not describe the object.
const MAX_NESTING: usize = vmpool_engine::limits::NESTING;

/// Why JSON text was not decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    /// The text is not valid JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The values exceed the budget.
    #[error("the object exceeds {0} bytes of memory or {MAX_NESTING} levels of nesting")]
    TooLarge(usize),
}

/// A memory budget. The use is an upper bound in bytes.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: usize,
    used: Cell<usize>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Cell::new(0) }
    }

    /// Whether the budget is exceeded.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    /// The used memory in bytes.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Exceeds the budget if `depth` is more than the maximum nesting.
    fn descend<E: Error>(&self, depth: usize) -> Result<(), E> {
        if depth > MAX_NESTING { self.charge_bytes(usize::MAX) } else { Ok(()) }
    }

    fn charge_bytes<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.used.set(self.used.get().saturating_add(bytes));
        if self.is_exceeded() { Err(E::custom("the object is too large")) } else { Ok(()) }
    }
}

/// The part of a path that selects the entries of a list.
const ENTRIES: &str = "*";

/// Decodes the fields of a JSON text at these paths, including everything below them. A path consists of
/// field names separated by dots. A `*` stands for the entries of a list.
///
/// # Errors
/// [`JsonError`] if the text is not JSON or exceeds the limit in bytes of memory.
pub(crate) fn decode_selected_fields(text: &[u8], paths: &[&str], limit: usize) -> Result<Value, JsonError> {
    let budget = MemoryBudget::new(limit);
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Fields::new(paths, &budget).deserialize(&mut json).and_then(|value| {
        json.end()?;
        Ok(value)
    });
    match value {
        Err(_) if budget.is_exceeded() => Err(JsonError::TooLarge(limit)),
        other => Ok(other?),
    }
}

/// Decodes a value with selected fields.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    /// The rest of each path below this value. An empty path selects everything.
    paths: Vec<&'a str>,
    budget: &'a MemoryBudget,
    /// The number of maps and lists around this value.
    depth: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(paths: &[&'a str], budget: &'a MemoryBudget) -> Self {
        Self { paths: paths.to_vec(), budget, depth: 0 }
    }

    fn selects_all(&self) -> bool {
        self.paths.contains(&"")
    }

    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }

    /// The selection below a field; `None` if the field is not selected.
    fn below(&self, field: &str) -> Option<Self> {
        if self.selects_all() {
            return Some(self.deeper());
        }
        let rest = self.paths.iter().filter_map(|path| match path.strip_prefix(field)? {
            "" => Some(""),
            // The name of an annotation contains dots.
            rest => rest.strip_prefix('.'),
        });
        let paths: Vec<&str> = rest.collect();
        (!paths.is_empty()).then_some(Self { paths, ..self.deeper() })
    }
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.budget.charge_bytes(STRING + value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.budget.descend(self.depth + 1)?;
        let mut values = Vec::new();
        let Some(entries) = self.below(ENTRIES) else {
            // No path selects the entries, so the list is empty.
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Array(values));
        };
        while let Some(value) = list.next_element_seed(entries.clone())? {
            self.budget.charge_bytes(ENTRY)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.budget.descend(self.depth + 1)?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(selection) = self.below(&key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let node = if fields.len().is_multiple_of(ENTRIES_OF_A_NODE) { NODE } else { 0 };
            self.budget.charge_bytes(STRING + key.len() + node)?;
            fields.insert(key, map.next_value_seed(selection)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests;

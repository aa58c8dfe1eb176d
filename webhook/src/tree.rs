//! JSON as values: only the fields that are needed, and only as much memory as a budget allows.
//!
//! A small object costs some eighty times its text: 1 MB of `{"a":0}` is more than 80 MB of values. A field that is not
//! needed is skipped and costs nothing.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Bytes of an entry of a list: its value, and as much again that a growing list keeps free.
const ENTRY: usize = 2 * size_of::<Value>();
/// Bytes of a text besides its letters.
const TEXT: usize = 32;
/// Bytes of one node of a map: eleven keys and values, and what links it to the others.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 64;
/// Entries that a node of a map holds at least, once there are so many.
const ENTRIES_OF_A_NODE: usize = 5;

/// Deepest nesting that is read. The decoder gives up a little later, and says nothing of the object then.
const DEEPEST: usize = vmpool_engine::limits::NESTING;

/// JSON cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It would take more memory than the budget allows.
    #[error("it would take more than {0} bytes of memory, or is nested more than {DEEPEST} levels deep")]
    TooLarge(usize),
}

/// The memory that values may take. It is an upper bound, in bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: Cell<usize>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: Cell::new(0) }
    }

    /// Whether more was asked for than there is.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.used.get() > self.limit
    }

    /// What was taken.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Refuses what is `depth` levels deep, if that is too deep.
    fn descend<E: Error>(&self, depth: usize) -> Result<(), E> {
        if depth > DEEPEST { self.take(usize::MAX) } else { Ok(()) }
    }

    fn take<E: Error>(&self, bytes: usize) -> Result<(), E> {
        self.used.set(self.used.get().saturating_add(bytes));
        if self.is_exceeded() { Err(E::custom("it is too large")) } else { Ok(()) }
    }
}

/// Reads the fields of a text that `paths` name, with all that is below them. A path is the names on the way, with dots.
///
/// # Errors
/// [`TreeError`].
pub(crate) fn read(text: &[u8], paths: &[&str], limit: usize) -> Result<Value, TreeError> {
    let budget = Budget::new(limit);
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Fields::new(paths, &budget).deserialize(&mut json).and_then(|value| {
        json.end()?;
        Ok(value)
    });
    match value {
        Err(_) if budget.is_exceeded() => Err(TreeError::TooLarge(limit)),
        other => Ok(other?),
    }
}

/// A value, of which only some fields are kept.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    /// What is left of the paths from here on. An empty one keeps everything.
    paths: Vec<&'a str>,
    budget: &'a Budget,
    /// Number of maps and lists around it.
    depth: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(paths: &[&'a str], budget: &'a Budget) -> Self {
        Self { paths: paths.to_vec(), budget, depth: 0 }
    }

    fn keeps_all(&self) -> bool {
        self.paths.contains(&"")
    }

    fn deeper(&self) -> Self {
        Self { depth: self.depth + 1, ..self.clone() }
    }

    /// What is kept of a field, nothing if it is not needed.
    fn below(&self, field: &str) -> Option<Self> {
        if self.keeps_all() {
            return Some(self.deeper());
        }
        let rest = self.paths.iter().filter_map(|path| match path.split_once('.') {
            Some((head, rest)) => (head == field).then_some(rest),
            None => (*path == field).then_some(""),
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
        self.budget.take(TEXT + value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        self.budget.descend(self.depth + 1)?;
        let mut values = Vec::new();
        if !self.keeps_all() {
            // No field is in a list: it stays what it is, and empty.
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Array(values));
        }
        while let Some(value) = list.next_element_seed(self.deeper())? {
            self.budget.take(ENTRY)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.budget.descend(self.depth + 1)?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(kept) = self.below(&key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let node = if fields.len().is_multiple_of(ENTRIES_OF_A_NODE) { NODE } else { 0 };
            self.budget.take(TEXT + key.len() + node)?;
            fields.insert(key, map.next_value_seed(kept)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests;

//! The spec of a pool in the cache.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use vmpool_engine::limits;

/// The spec of a pool as JSON text. The parsed tree can need fifty times as much memory, so it exists only
/// while it is needed.
///
/// Of a spec that exceeds the limits, only the fields of `Brief` are kept, which the status needs even if the
/// pool is invalid.
#[derive(Debug)]
pub struct SpecText<Brief> {
    text: Arc<str>,
    /// Length of the stored text, in bytes.
    size: usize,
    /// Nesting depth of the stored text.
    depth: usize,
    brief: PhantomData<fn() -> Brief>,
}

impl<Brief> SpecText<Brief> {
    /// The text: the whole spec, or its brief form.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Length of the stored text, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Why the spec is not kept completely.
    pub fn error(&self) -> Option<String> {
        limits::spec_error(self.size, self.depth)
    }
}

// Not derived, because `Brief` need not be `Clone`.
impl<Brief> Clone for SpecText<Brief> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), size: self.size, depth: self.depth, brief: PhantomData }
    }
}

impl<Brief> Default for SpecText<Brief> {
    fn default() -> Self {
        Self { text: "null".into(), size: 0, depth: 0, brief: PhantomData }
    }
}

impl<'de, Brief: Default + DeserializeOwned + Serialize> Deserialize<'de> for SpecText<Brief> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        let (size, depth) = (text.len(), limits::nesting_depth(text));
        let text: Arc<str> = if limits::spec_error(size, depth).is_none() {
            text.into()
        } else {
            let brief: Brief = serde_json::from_str(text).unwrap_or_default();
            serde_json::to_string(&brief).unwrap_or_default().into()
        };
        Ok(Self { text, size, depth, brief: PhantomData })
    }
}

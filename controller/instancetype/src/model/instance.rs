//! The part of a machine that instance types and preferences are applied to.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::tree::{self, Malformed};

/// `spec.template` of a VirtualMachine, or a VirtualMachineInstance: an object with `metadata` and `spec`.
///
/// All fields are kept, also those that this crate does not know. `spec.domain` may be absent.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceTemplate(Value);

impl InstanceTemplate {
    /// Takes a document. An absent `spec` is an empty one.
    ///
    /// # Errors
    /// The document, its metadata, its annotations or its spec have the wrong type.
    pub fn new(document: Value) -> Result<Self, Malformed> {
        let mut document = document;
        tree::text_map_at(&document, "metadata.annotations")?;
        tree::object_mut(&mut document, "spec")?;
        Ok(Self(document))
    }

    /// The spec of the instance.
    pub fn spec(&self) -> &Value {
        &self.0["spec"]
    }

    pub(crate) fn spec_mut(&mut self) -> &mut Value {
        &mut self.0["spec"]
    }

    /// The annotations of the instance.
    ///
    /// # Errors
    /// They are not a map from text to text.
    pub fn annotations(&self) -> Result<BTreeMap<String, String>, Malformed> {
        Ok(tree::text_map_at(&self.0, "metadata.annotations")?.unwrap_or_default())
    }

    /// The annotations to write to, created if they are absent.
    pub(crate) fn annotations_mut(&mut self) -> Result<&mut Map<String, Value>, Malformed> {
        tree::object_mut(&mut self.0, "metadata.annotations")
    }

    /// The document.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// The document.
    pub fn into_value(self) -> Value {
        self.0
    }
}

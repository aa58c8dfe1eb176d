//! ControllerRevision with the copy of an instance type or a preference, and how machines name it.

use super::KubeVirtObjectMetadata;
use crate::objects::StoredObject;
use serde_json::Value;
use std::sync::Arc;

/// A ControllerRevision on the wire. Its `data` takes the place of a spec.
pub type StoredCopyRevision = StoredObject<Value, Value>;

/// The last observed state of a ControllerRevision.
#[derive(Clone, Debug)]
pub struct RevisionView {
    /// Metadata.
    pub meta: KubeVirtObjectMetadata,
    /// The object that it is a copy of.
    pub object: Arc<Value>,
}

impl RevisionView {
    /// Reads a stored ControllerRevision.
    pub fn read(stored: StoredCopyRevision) -> Self {
        Self { meta: KubeVirtObjectMetadata::read(stored.metadata), object: Arc::new(stored.spec) }
    }
}

/// What a matcher names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatcherKind {
    /// An instance type.
    Instancetype,
    /// A preference.
    Preference,
}

/// How a machine names its instance type or its preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedMatcher {
    /// The lower-case kind of the object, in the singular.
    kind: String,
    /// The name of the object.
    name: String,
    /// The ControllerRevision that the spec names, or nothing.
    revision: String,
}

impl SimulatedMatcher {
    /// Reads `instancetype` or `preference` of a machine's spec.
    pub fn read(family: MatcherKind, matcher: &Value) -> Option<Self> {
        if !matcher.is_object() {
            return None;
        }
        let text = |field: &str| matcher[field].as_str().unwrap_or_default().to_owned();
        let given = text("kind").to_lowercase();
        let kind = match (given.trim_end_matches('s'), family) {
            ("", MatcherKind::Instancetype) => "virtualmachineclusterinstancetype",
            ("", MatcherKind::Preference) => "virtualmachineclusterpreference",
            (given, _) => given,
        };
        Some(Self { kind: kind.to_owned(), name: text("name"), revision: text("revisionName") })
    }

    /// The ControllerRevision that the machine uses: that of its spec, or else that of `reference` in its
    /// status.
    pub fn revision<'a>(&'a self, reference: &'a Value) -> Option<&'a str> {
        let recorded = reference["controllerRevisionRef"]["name"].as_str();
        Some(&*self.revision).filter(|name| !name.is_empty()).or(recorded)
    }

    /// Whether the matcher names the object that this is a copy of.
    pub fn names(&self, object: &Value) -> bool {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        kind == self.kind && object["metadata"]["name"] == *self.name
    }
}

//! Matchers: `spec.instancetype` and `spec.preference` of a machine.

use serde_json::Value;

use super::{InstanceTypeKind, TypeFamily, UnknownKind};
use crate::tree::{self, Malformed};

/// What happens if inference from a volume fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The request is denied.
    Reject,
    /// The matcher is removed, if the failure can be ignored.
    Ignore,
}

/// Names the instance type or the preference of a machine. Fields that are empty in the object are empty
/// here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeMatcher {
    /// The object to use.
    pub name: String,
    /// The kind as it is written; [`kind`](Self::kind) normalizes it.
    pub kind: String,
    /// The ControllerRevision to use instead of the live object.
    pub revision_name: String,
    /// The volume whose labels name the object.
    pub infer_from_volume: String,
    /// The failure policy as it is written; [`failure_policy`](Self::failure_policy) reads it.
    pub infer_from_volume_failure_policy: String,
}

impl TypeMatcher {
    /// Reads the matcher of a machine, given as an object with a `spec`.
    ///
    /// # Errors
    /// A field has the wrong type.
    pub fn of_machine(machine: &Value, family: TypeFamily) -> Result<Option<Self>, Malformed> {
        Self::at(machine, &format!("spec.{}", family.field()))
    }

    /// Reads a matcher at a path of a document.
    pub(crate) fn at(document: &Value, path: &str) -> Result<Option<Self>, Malformed> {
        let Some(matcher) = tree::object_at(document, path)? else { return Ok(None) };
        let text = |key| match tree::text_at(matcher, key) {
            Ok(text) => Ok(text.unwrap_or_default().to_owned()),
            Err(error) => Err(error.below(path)),
        };
        Ok(Some(Self {
            name: text("name")?,
            kind: text("kind")?,
            revision_name: text("revisionName")?,
            infer_from_volume: text("inferFromVolume")?,
            infer_from_volume_failure_policy: text("inferFromVolumeFailurePolicy")?,
        }))
    }

    /// The normalized kind. Compare this one, never the text: an empty kind and
    /// `virtualmachineclusterinstancetypes` are the same.
    ///
    /// # Errors
    /// [`UnknownKind`] if the text is none of the family's kinds.
    pub fn kind(&self, family: TypeFamily) -> Result<InstanceTypeKind, UnknownKind> {
        InstanceTypeKind::of_matcher(family, &self.kind)
    }

    /// The failure policy. The default is [`FailurePolicy::Reject`]; `None` if the text is neither of the two
    /// values.
    pub fn failure_policy(&self) -> Option<FailurePolicy> {
        match self.infer_from_volume_failure_policy.as_str() {
            "" | "Reject" => Some(FailurePolicy::Reject),
            "Ignore" => Some(FailurePolicy::Ignore),
            _ => None,
        }
    }

    /// The matcher for the machines of a pool: the same object, from this ControllerRevision. Nothing is left
    /// to infer.
    #[must_use]
    pub fn pinned(&self, revision: impl Into<String>) -> Self {
        Self {
            name: self.name.clone(),
            kind: self.kind.clone(),
            revision_name: revision.into(),
            ..Self::default()
        }
    }

    /// The matcher as JSON, without empty fields.
    pub fn to_json(&self) -> Value {
        let fields = [
            ("name", &self.name),
            ("kind", &self.kind),
            ("revisionName", &self.revision_name),
            ("inferFromVolume", &self.infer_from_volume),
            ("inferFromVolumeFailurePolicy", &self.infer_from_volume_failure_policy),
        ];
        fields
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(key, text)| (key, text.as_str()))
            .collect()
    }
}

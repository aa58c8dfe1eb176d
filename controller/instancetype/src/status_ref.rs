//! References in the status of a machine: which copy it uses.

use serde_json::{Value, json};

use crate::model::{TypeFamily, TypeMatcher};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// `status.instancetypeRef` or `status.preferenceRef` of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusRef {
    /// What the matcher said when the reference was recorded. Its `revision_name` is empty.
    pub matcher: TypeMatcher,
    /// The name of the copy; empty if there is none yet.
    pub revision: String,
}

/// The copy that a machine refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePin {
    /// The name of the ControllerRevision.
    pub revision: String,
    /// Whether the matcher names it, in `revisionName`, and not the status alone.
    pub by_spec: bool,
}

/// What to record for a matcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusRefPlan {
    /// The reference is complete.
    Complete(StatusRef),
    /// A copy must be made from the live object first; [`StatusRef::with_revision`] then completes the
    /// reference.
    NeedsCopy(StatusRef),
}

impl StatusRef {
    /// Reads the reference of a machine.
    ///
    /// # Errors
    /// A field has the wrong type.
    pub fn of_machine(machine: &Value, family: TypeFamily) -> Result<Option<Self>, Malformed> {
        let path = format!("status.{}", family.status_field());
        let Some(matcher) = TypeMatcher::at(machine, &path)? else { return Ok(None) };
        let revision = tree::text_at(machine, &format!("{path}.controllerRevisionRef.name"))?;
        Ok(Some(Self {
            matcher: TypeMatcher { revision_name: String::new(), ..matcher },
            revision: revision.unwrap_or_default().to_owned(),
        }))
    }

    /// The reference with the name of its copy.
    #[must_use]
    pub fn with_revision(self, revision: impl Into<String>) -> Self {
        Self { revision: revision.into(), ..self }
    }

    /// The reference as JSON.
    pub fn to_json(&self) -> Value {
        let mut reference = self.matcher.to_json();
        if !self.revision.is_empty() {
            reference["controllerRevisionRef"] = json!({ "name": self.revision });
        }
        reference
    }
}

/// The copy that a machine uses. `revisionName` in the matcher precedes the status, where KubeVirt records
/// it since 1.5. `None` if the live object is used.
pub fn machine_pin(matcher: &TypeMatcher, status: Option<&StatusRef>) -> Option<MachinePin> {
    if !matcher.revision_name.is_empty() {
        return Some(MachinePin { revision: matcher.revision_name.clone(), by_spec: true });
    }
    let revision = status.map(|status| status.revision.clone()).filter(|revision| !revision.is_empty())?;
    Some(MachinePin { revision, by_spec: false })
}

/// Whether the status of a machine names this copy. KubeVirt records each one that it uses, also that of a
/// `revisionName`.
///
/// # Errors
/// The status of the machine has the wrong type.
pub fn is_recorded(machine: &Value, family: TypeFamily, revision: &str) -> Result<bool, Malformed> {
    Ok(StatusRef::of_machine(machine, family)?.is_some_and(|status| status.revision == revision))
}

/// What the status must record for a matcher. If name, kind or volume of the matcher changed, the recorded
/// copy is dropped. A matcher without a volume may be the name that was inferred from the recorded one.
pub fn plan_status_ref(
    family: TypeFamily,
    matcher: &TypeMatcher,
    status: Option<&StatusRef>,
) -> StatusRefPlan {
    let recorded = status.filter(|status| same_object(family, matcher, &status.matcher));
    let revision = match matcher.revision_name.as_str() {
        "" => recorded.map(|status| status.revision.clone()).unwrap_or_default(),
        revision => revision.to_owned(),
    };
    let reference =
        StatusRef { matcher: TypeMatcher { revision_name: String::new(), ..matcher.clone() }, revision };
    if reference.revision.is_empty() {
        StatusRefPlan::NeedsCopy(reference)
    } else {
        StatusRefPlan::Complete(reference)
    }
}

/// Kinds are compared as they are normalized: an empty kind is another one than that of a namespace.
fn same_object(family: TypeFamily, matcher: &TypeMatcher, recorded: &TypeMatcher) -> bool {
    let kinds = (matcher.kind(family), recorded.kind(family));
    let volume = &matcher.infer_from_volume;
    let same_volume = volume.is_empty() || *volume == recorded.infer_from_volume;
    matcher.name == recorded.name && same_volume && kinds.0 == kinds.1
}

/// The JSON patch of the status of a machine that records these references; `None` removes one, and one that
/// is not named stays as it is. All are one patch, so that no reader sees one without the other. A reference
/// that the status already has is not written again; without any change there is no patch.
///
/// # Errors
/// The status of the machine has the wrong type.
pub fn status_refs_patch(
    machine: &Value,
    references: impl IntoIterator<Item = (TypeFamily, Option<StatusRef>)>,
) -> Result<Option<Value>, Malformed> {
    let mut operations = Vec::new();
    for (family, wanted) in references {
        let path = format!("/status/{}", family.status_field());
        let recorded = tree::value_at(machine, &format!("status.{}", family.status_field()))?;
        match wanted.map(|wanted| wanted.to_json()) {
            Some(wanted) if recorded != Some(&wanted) => {
                operations.push(json!({"op": "add", "path": path, "value": wanted}));
            }
            None if recorded.is_some() => operations.push(json!({"op": "remove", "path": path})),
            _ => {}
        }
    }
    if operations.is_empty() {
        return Ok(None);
    }
    // An `add` needs the parent.
    if tree::object_at(machine, "status")?.is_none() {
        operations.insert(0, json!({"op": "add", "path": "/status", "value": {}}));
    }
    Ok(Some(operations.into()))
}

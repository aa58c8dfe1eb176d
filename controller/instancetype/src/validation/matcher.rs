//! Validation of `spec.instancetype` and `spec.preference`.

use crate::fields::{MachineLocation, StatusCause};
use crate::model::{TypeFamily, TypeMatcher};

/// Validates a matcher. `old` is the matcher before an update; `None` for a new machine or a new matcher.
///
/// An unknown kind is not reported: it is an error when the object is looked up.
pub fn validate_matcher(
    family: TypeFamily,
    new: &TypeMatcher,
    old: Option<&TypeMatcher>,
    location: MachineLocation,
) -> Vec<StatusCause> {
    let field = |name| location.matcher_field(family, name);
    let noun = family.noun();
    let mut causes = Vec::new();
    if new.infer_from_volume.is_empty() {
        if new.name.is_empty() {
            let message = format!("name the {noun} in name, or a volume to infer it from in inferFromVolume");
            causes.push(StatusCause::not_found(field(""), message));
        }
    } else {
        for (name, value) in [("name", &new.name), ("kind", &new.kind)] {
            if !value.is_empty() {
                let message =
                    format!("{name} is inferred together with inferFromVolume; remove one of the two");
                causes.push(StatusCause::not_supported(field(name), message));
            }
        }
    }
    if new.failure_policy().is_none() {
        let message = format!(
            "unknown failure policy {:?}; use Reject or Ignore",
            new.infer_from_volume_failure_policy
        );
        causes.push(StatusCause::invalid(field("inferFromVolumeFailurePolicy"), message));
    }
    if let Some(old) = old {
        let pinned = !new.revision_name.is_empty() && new.revision_name == old.revision_name;
        if pinned && new.name != old.name {
            let message =
                format!("the revision belongs to {:?}; change or remove it together with the name", old.name);
            causes.push(StatusCause::invalid(field("revisionName"), message));
        }
    }
    causes
}

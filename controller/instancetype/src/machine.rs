//! Admission of machines: the parts that concern instance types and preferences.

use serde_json::Value;

use crate::expand::check_expansion;
use crate::fields::{MachineLocation, StatusCause};
use crate::model::{InstanceTypeAndPreference, TypeFamily, TypeMatcher};
use crate::start::InstanceSettings;
use crate::tree::Malformed;
use crate::validation::{self, ValidationReport, bypasses_admission};

#[cfg(test)]
mod tests;

/// What is known of the objects that a machine names.
#[derive(Debug, Clone, Default)]
pub struct NamedTypes {
    /// The objects that were found.
    pub types: InstanceTypeAndPreference,
    /// Why an object cannot be used for the validation, or was not read.
    pub unusable: Vec<(TypeFamily, String)>,
}

/// Validates a machine on creation (`old` is `None`) or update. The machine is an object with a `spec`.
///
/// A missing object gives a warning, because the controller reports it and uses it as soon as it exists. An
/// update that changes neither the matchers nor the instance template is accepted without a look at the
/// objects: they may have changed since, and a user must be able to stop the machine.
pub fn validate_machine(
    new: &Value,
    old: Option<&Value>,
    named: &NamedTypes,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> ValidationReport {
    let mut report = ValidationReport::default();
    if !needs_validation(new, old) {
        return report;
    }
    for family in [TypeFamily::Instancetype, TypeFamily::Preference] {
        if let Err(error) = validate_machine_matcher(new, old, family, named, location, &mut report) {
            report.causes.push(location.in_machine(error).into());
        }
    }
    let found = named.types.instancetype.is_some() || named.types.preference.is_some();
    if found
        && report.causes.is_empty()
        && let Err(error) = check_expansion(new, &named.types, settings, location)
    {
        report.causes = error.causes(location);
    }
    report
}

/// Whether the validation of a machine depends on the objects that it names.
pub fn needs_validation(new: &Value, old: Option<&Value>) -> bool {
    let part = |machine: &Value, field: &str| machine.get("spec").and_then(|spec| spec.get(field)).cloned();
    let is_same = |old: &Value| {
        ["instancetype", "preference", "template"].iter().all(|field| part(new, field) == part(old, field))
    };
    !bypasses_admission(new) && !old.is_some_and(is_same)
}

fn validate_machine_matcher(
    new: &Value,
    old: Option<&Value>,
    family: TypeFamily,
    named: &NamedTypes,
    location: MachineLocation,
    report: &mut ValidationReport,
) -> Result<(), Malformed> {
    let Some(matcher) = TypeMatcher::of_machine(new, family)? else { return Ok(()) };
    // A stored machine that cannot be read has no matcher to compare with.
    let old = old.and_then(|old| TypeMatcher::of_machine(old, family).ok().flatten());
    let causes: Vec<StatusCause> = validation::validate_matcher(family, &matcher, old.as_ref(), location);
    if causes.is_empty() && !matcher.name.is_empty() && named.types.object(family).is_none() {
        let (noun, name) = (family.noun(), &matcher.name);
        let reason = named.unusable.iter().find(|(unusable, _)| *unusable == family);
        report.warnings.push(match reason {
            Some((_, reason)) => format!("the {noun} {name:?} was not checked: {reason}"),
            None => format!("the {noun} {name:?} was not found; the machine cannot start until it exists"),
        });
    }
    report.causes.extend(causes);
    Ok(())
}

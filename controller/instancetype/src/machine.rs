//! Admission of machines: the parts that concern instance types and preferences.

use serde_json::Value;

use crate::expand::check;
use crate::fields::{Cause, Location};
use crate::model::{Family, Matcher, Types};
use crate::start::Settings;
use crate::tree::Malformed;
use crate::validation::{self, Report, bypasses_admission};

#[cfg(test)]
mod tests;

/// What is known of the objects that a machine names.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// The objects that were found.
    pub types: Types,
    /// Why an object cannot be used for the validation, or was not read.
    pub unusable: Vec<(Family, String)>,
}

/// Validates a machine on creation (`old` is `None`) or update. The machine is an object with a `spec`.
///
/// A missing object gives a warning, because the controller reports it and uses it as soon as it exists. An update that
/// changes neither the matchers nor the instance template is accepted without a look at the objects: they may have
/// changed since, and a user must be able to stop the machine.
pub fn validate(
    new: &Value,
    old: Option<&Value>,
    named: &Named,
    settings: &Settings,
    location: Location,
) -> Report {
    let mut report = Report::default();
    if !needs_validation(new, old) {
        return report;
    }
    for family in [Family::Instancetype, Family::Preference] {
        if let Err(error) = matcher(new, old, family, named, location, &mut report) {
            report.causes.push(location.in_machine(error).into());
        }
    }
    let found = named.types.instancetype.is_some() || named.types.preference.is_some();
    if found
        && report.causes.is_empty()
        && let Err(error) = check(new, &named.types, settings, location)
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

fn matcher(
    new: &Value,
    old: Option<&Value>,
    family: Family,
    named: &Named,
    location: Location,
    report: &mut Report,
) -> Result<(), Malformed> {
    let Some(matcher) = Matcher::of_machine(new, family)? else { return Ok(()) };
    // A stored machine that cannot be read has no matcher to compare with.
    let old = old.and_then(|old| Matcher::of_machine(old, family).ok().flatten());
    let causes: Vec<Cause> = validation::matcher(family, &matcher, old.as_ref(), location);
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

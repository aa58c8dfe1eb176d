//! Admission of machines: the parts that concern instance types and preferences.

use serde_json::Value;

use crate::expand::check;
use crate::fields::{Cause, Location};
use crate::model::{Family, Matcher, PreferenceSpec, Types};
use crate::start::Settings;
use crate::tree::{self, Malformed};
use crate::validation::{self, Report};

#[cfg(test)]
mod tests;

/// Whether a machine bypasses all validation and inference: it is being deleted.
///
/// Removing a finalizer is an update. By then the stash may be gone, and a refusal would block the deletion of the
/// namespace.
pub fn bypasses_admission(machine: &Value) -> bool {
    machine.pointer("/metadata/deletionTimestamp").is_some_and(|timestamp| !timestamp.is_null())
}

/// Fills what the preference prefers and what must be known before an instance exists: architecture, machine type, and the
/// storage class of each DataVolume template.
///
/// # Errors
/// A field of the machine has the wrong type; the machine may be changed in part.
pub fn fill(machine: &mut Value, preference: &PreferenceSpec, location: Location) -> Result<(), Malformed> {
    let mut fill = || {
        let spec = "spec.template.spec";
        tree::set_default_text(machine, &format!("{spec}.architecture"), preference.architecture.as_deref())?;
        tree::set_default_text(
            machine,
            &format!("{spec}.domain.machine.type"),
            preference.machine_type.as_deref(),
        )?;
        tree::each(machine, "spec.dataVolumeTemplates", |template| {
            for claim in ["spec.pvc", "spec.storage"] {
                if tree::object(template, claim)?.is_some() {
                    // An empty storage class is a choice: it disables dynamic provisioning.
                    let class = preference.storage_class_name.as_deref();
                    tree::set_default(template, &format!("{claim}.storageClassName"), class)?;
                }
            }
            Ok(())
        })
    };
    fill().map_err(|error| location.in_machine(error))
}

/// Validates a machine on creation (`old` is `None`) or update. The machine is an object with a `spec`.
///
/// `types` are the objects that the matchers name, as far as they exist: a missing object gives a warning, because the
/// controller reports it and uses it as soon as it exists.
pub fn validate(
    new: &Value,
    old: Option<&Value>,
    types: &Types,
    settings: &Settings,
    location: Location,
) -> Report {
    let mut report = Report::default();
    if bypasses_admission(new) {
        return report;
    }
    for family in [Family::Instancetype, Family::Preference] {
        if let Err(error) = matcher(new, old, family, types, location, &mut report) {
            report.causes.push(location.in_machine(error).into());
        }
    }
    let found = types.instancetype.is_some() || types.preference.is_some();
    if found
        && report.causes.is_empty()
        && let Err(error) = check(new, types, settings, location)
    {
        report.causes = error.causes(location);
    }
    report
}

fn matcher(
    new: &Value,
    old: Option<&Value>,
    family: Family,
    types: &Types,
    location: Location,
    report: &mut Report,
) -> Result<(), Malformed> {
    let Some(matcher) = Matcher::of_machine(new, family)? else { return Ok(()) };
    // A stored machine that cannot be read has no matcher to compare with.
    let old = old.and_then(|old| Matcher::of_machine(old, family).ok().flatten());
    let causes: Vec<Cause> = validation::matcher(family, &matcher, old.as_ref(), location);
    if causes.is_empty() && !matcher.name.is_empty() && types.object(family).is_none() {
        let (noun, name) = (family.noun(), &matcher.name);
        report
            .warnings
            .push(format!("the {noun} {name:?} was not found; the machine cannot start until it exists"));
    }
    report.causes.extend(causes);
    Ok(())
}

//! Expansion: a machine in which instance type and preference are written out.
//!
//! An expanded machine has no matchers and starts the same instance, except for the annotations with the
//! names. Expanding an expanded machine changes nothing.

use serde_json::Value;

use crate::apply::ApplyError;
use crate::fields::{MachineLocation, StatusCause};
use crate::fill::fill_machine_from_preference;
use crate::model::{InstanceTemplate, InstanceTypeAndPreference, TypeFamily, TypeMatcher, UnknownKind};
use crate::requirements;
use crate::start::{InstanceSettings, prepare_instance};
use crate::tree::{self, Malformed};
use crate::validation;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written;

/// Why a machine cannot be expanded, or is refused by admission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A matcher is not valid.
    #[error("the machine has an invalid matcher: {}", join_causes(.0))]
    InvalidMatcher(Vec<StatusCause>),
    /// A matcher names a volume, but nothing was inferred from it yet.
    #[error("the {noun} of the machine must be inferred from the volume {volume:?} first", noun = family.noun())]
    NotInferred {
        /// Which matcher.
        family: TypeFamily,
        /// The volume.
        volume: String,
    },
    /// A matcher has a kind that does not exist.
    #[error(transparent)]
    UnknownKind(#[from] UnknownKind),
    /// The object that a matcher names was not given, or another one was.
    #[error("the {noun} {name:?} of the machine was not found", noun = family.noun())]
    NotFound {
        /// Which matcher.
        family: TypeFamily,
        /// The name in the matcher.
        name: String,
    },
    /// An object was given although the machine has no matcher for it.
    #[error("the machine names no {noun}, but {name:?} was given", noun = family.noun())]
    NotNamed {
        /// Which matcher is missing.
        family: TypeFamily,
        /// The name of the object.
        name: String,
    },
    /// Instance type and preference cannot be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The machine does not meet the requirements of its preference.
    #[error("the machine does not meet the requirements of its preference: {}", join_causes(.0))]
    Requirements(Vec<StatusCause>),
}

fn join_causes(causes: &[StatusCause]) -> String {
    let causes: Vec<_> = causes.iter().map(ToString::to_string).collect();
    causes.join("; ")
}

impl ExpandError {
    /// The causes for a response.
    pub fn causes(&self, location: MachineLocation) -> Vec<StatusCause> {
        match self {
            Self::InvalidMatcher(causes) | Self::Requirements(causes) => causes.clone(),
            Self::NotInferred { family, .. } => {
                vec![StatusCause::invalid(
                    location.matcher_field(*family, "inferFromVolume"),
                    self.to_string(),
                )]
            }
            Self::UnknownKind(error) => {
                vec![StatusCause::invalid(location.matcher_field(error.family, "kind"), self.to_string())]
            }
            Self::NotFound { family, .. } | Self::NotNamed { family, .. } => {
                vec![StatusCause::not_found(location.matcher_field(*family, "name"), self.to_string())]
            }
            Self::Apply(error) => error.causes(),
        }
    }
}

impl From<Malformed> for ExpandError {
    fn from(error: Malformed) -> Self {
        Self::Apply(error.into())
    }
}

/// Checks that instance type and preference can be applied to a machine and that it meets the requirements.
/// The result is the instance template as it is after general defaults.
///
/// `machine` is an object with a `spec`: a VirtualMachine, or `spec.virtualMachineTemplate` of a pool. Its
/// matchers are not examined: what is in `types` is applied.
///
/// # Errors
/// [`ExpandError::Apply`] and [`ExpandError::Requirements`].
pub fn check_expansion(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<InstanceTemplate, ExpandError> {
    let template = machine_instance_template(machine).map_err(|error| location.in_machine(error))?;
    let prepared = prepare_instance(&template, types, settings, location)?;
    if let Some(preference) = types.preference_spec() {
        let causes = requirements::unmet_requirements(
            &template,
            &prepared,
            types.instancetype_spec(),
            preference,
            location,
        )?;
        if !causes.is_empty() {
            return Err(ExpandError::Requirements(causes));
        }
    }
    Ok(prepared)
}

/// Expands a copy of a machine, given as for [`check_expansion`]. A machine without matchers is returned
/// unchanged, and without defaults. `types` are the objects that the matchers name, live or from their
/// copies.
///
/// # Errors
/// See [`ExpandError`].
pub fn expand_machine(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<Value, ExpandError> {
    if !needs_expansion(machine, types, location)? {
        return Ok(machine.clone());
    }
    let prepared = check_expansion(machine, types, settings, location)?;
    // Admission fills in what a machine gets from the preference that it names, and the expanded machine
    // names none.
    let mut filled = machine.clone();
    if let Some(preference) = types.preference_spec() {
        fill_machine_from_preference(&mut filled, preference, location)?;
    }
    replace_template(&filled, prepared, location)
}

/// Whether a machine names an instance type or a preference, which are to be written out. `types` must be the
/// objects that it names.
///
/// # Errors
/// A matcher is invalid, or names another object.
pub(crate) fn needs_expansion(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    location: MachineLocation,
) -> Result<bool, ExpandError> {
    let has_matcher = has_matcher(machine, location)?;
    if has_matcher {
        check_matched_objects(machine, types, location)?;
    }
    Ok(has_matcher)
}

fn has_matcher(machine: &Value, location: MachineLocation) -> Result<bool, ExpandError> {
    let matcher =
        |family| TypeMatcher::of_machine(machine, family).map_err(|error| location.in_machine(error));
    Ok(matcher(TypeFamily::Instancetype)?.is_some() || matcher(TypeFamily::Preference)?.is_some())
}

/// A copy of a machine with another template for its instance, and without matchers.
pub(crate) fn replace_template(
    machine: &Value,
    template: InstanceTemplate,
    location: MachineLocation,
) -> Result<Value, ExpandError> {
    let mut expanded = machine.clone();
    let write = |expanded: &mut Value| {
        tree::set_value(expanded, "spec.template", template.into_value())?;
        for family in [TypeFamily::Instancetype, TypeFamily::Preference] {
            tree::remove_field(expanded, &format!("spec.{}", family.field()))?;
            tree::remove_field(expanded, &format!("status.{}", family.status_field()))?;
        }
        Ok(())
    };
    write(&mut expanded).map_err(|error| location.in_machine(error))?;
    Ok(expanded)
}

/// The instance template of a machine. An absent template is an empty one.
pub(crate) fn machine_instance_template(machine: &Value) -> Result<InstanceTemplate, Malformed> {
    let template = tree::object_at(machine, "spec.template")?.cloned().unwrap_or(Value::Null);
    InstanceTemplate::new(template).map_err(|error| error.below("spec.template"))
}

/// Checks that both matchers are valid and that the given objects are those that they name.
fn check_matched_objects(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    location: MachineLocation,
) -> Result<(), ExpandError> {
    [TypeFamily::Instancetype, TypeFamily::Preference]
        .into_iter()
        .try_for_each(|family| check_matched_object(machine, family, types, location))
}

fn check_matched_object(
    machine: &Value,
    family: TypeFamily,
    types: &InstanceTypeAndPreference,
    location: MachineLocation,
) -> Result<(), ExpandError> {
    let object = types.object(family);
    let matcher = TypeMatcher::of_machine(machine, family).map_err(|error| location.in_machine(error))?;
    let Some(matcher) = matcher else {
        return object.map_or(Ok(()), |object| {
            Err(ExpandError::NotNamed { family, name: object.identity.name.clone() })
        });
    };
    let causes = validation::validate_matcher(family, &matcher, None, location);
    if !causes.is_empty() {
        return Err(ExpandError::InvalidMatcher(causes));
    }
    if matcher.name.is_empty() {
        return Err(ExpandError::NotInferred { family, volume: matcher.infer_from_volume });
    }
    let kind = matcher.kind(family)?;
    let found = object.is_some_and(|object| object.kind == kind && object.identity.name == matcher.name);
    if found { Ok(()) } else { Err(ExpandError::NotFound { family, name: matcher.name }) }
}

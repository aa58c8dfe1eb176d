//! Applying an instance type and a preference to an instance.
//!
//! The instance type is applied first and wins; the preference then fills what is still empty. Applying fails
//! as a whole or not at all: the functions return a changed copy.

mod instancetype;
mod preference;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

pub(crate) use preference::fill_autoattach_settings;

use crate::conflict::{FieldConflicts, find_conflicts};
use crate::fields::{MachineLocation, StatusCause};
use crate::model::{
    InstanceTemplate, InstanceTypeAndPreference, InstancetypeSpec, PreferenceSpec, TypeFamily,
};
use crate::topology::{Topology, TopologyError};
use crate::tree::Malformed;

/// Why instance type and preference cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The vCPUs of the instance type do not fit the topology of the preference.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The machine sets fields that the instance type sets.
    #[error(transparent)]
    Conflicts(#[from] FieldConflicts),
    /// A field of the machine has the wrong type. The path starts at the root of the request's object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl ApplyError {
    /// The causes for a response.
    pub fn causes(&self) -> Vec<StatusCause> {
        match self {
            Self::Topology(error) => vec![error.cause()],
            Self::Conflicts(conflicts) => conflicts.causes(),
            Self::Malformed(error) => vec![error.clone().into()],
        }
    }
}

/// Applies instance type and preference to a copy of an instance. Annotations of both are added to its
/// metadata.
///
/// A spread that is not even fails here too, and not in admission only: instance type and preference may have
/// changed since.
///
/// # Errors
/// See [`ApplyError`]. The instance is unchanged, and nothing of the preference was applied.
pub fn apply_instancetype_and_preference(
    template: &InstanceTemplate,
    instancetype: Option<&InstancetypeSpec>,
    preference: Option<&PreferenceSpec>,
    location: MachineLocation,
) -> Result<InstanceTemplate, ApplyError> {
    if let Some(instancetype) = instancetype {
        Topology::preferred(preference)?.check(instancetype.cpu.guest)?;
    }
    apply_with_uneven_spread(template, instancetype, preference, location)
}

/// As [`apply_instancetype_and_preference`], but a spread may be uneven: the guest then has fewer vCPUs.
/// KubeVirt checks the spread only at admission.
///
/// # Errors
/// See [`ApplyError`].
pub(crate) fn apply_with_uneven_spread(
    template: &InstanceTemplate,
    instancetype: Option<&InstancetypeSpec>,
    preference: Option<&PreferenceSpec>,
    location: MachineLocation,
) -> Result<InstanceTemplate, ApplyError> {
    let mut applied = template.clone();
    if let Some(instancetype) = instancetype {
        let topology = Topology::preferred(preference)?;
        if let Some(conflicts) = find_conflicts(instancetype, template, location)? {
            return Err(conflicts.into());
        }
        instancetype::apply_instancetype(instancetype, topology, &mut applied)
            .map_err(|error| location.in_template(error))?;
    }
    if let Some(preference) = preference {
        preference::apply_preference(preference, &mut applied)
            .map_err(|error| location.in_template(error))?;
    }
    Ok(applied)
}

/// Adds the annotations that name the instance type and the preference that an instance is made with.
///
/// # Errors
/// The annotations have the wrong type.
pub fn add_name_annotations(
    template: &mut InstanceTemplate,
    types: &InstanceTypeAndPreference,
) -> Result<(), Malformed> {
    for family in [TypeFamily::Instancetype, TypeFamily::Preference] {
        if let Some(object) = types.object(family) {
            let name = object.identity.name.clone().into();
            template.annotations_mut()?.insert(object.kind.name_annotation().to_owned(), name);
        }
    }
    Ok(())
}

//! Expansion with the steps of KubeVirt's own request `expand-vm-spec`.
//!
//! ```text
//!  disks for volumes ─> default interface ─> instance type and preference ─> defaults of expansions
//! ```
//!
//! The result lacks what KubeVirt adds only when it starts the machine: input devices and their bus, and the
//! rest of a topology that the machine sets in part. Requirements of the preference are not checked. See
//! [`expand_machine`](crate::expand::expand_machine) for the machine as it starts.

use serde_json::Value;

use crate::apply::apply_with_uneven_spread;
use crate::expand::{ExpandError, machine_instance_template, needs_expansion, replace_template};
use crate::fields::MachineLocation;
use crate::model::{InstanceTemplate, InstanceTypeAndPreference, InstanceTypeObject, TypeFamily};
use crate::start::{InstanceSettings, add_default_devices, name_conflict_source};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// Expands a copy of a machine as KubeVirt does. A machine without matchers is returned unchanged.
///
/// # Errors
/// As those of [`expand_machine`](crate::expand::expand_machine), without
/// [`ExpandError::Requirements`] and without an uneven spread.
pub fn expand_machine_as_kubevirt(
    machine: &Value,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<Value, ExpandError> {
    if !needs_expansion(machine, types, location)? {
        return Ok(machine.clone());
    }
    let template = machine_instance_template(machine).map_err(|error| location.in_machine(error))?;
    let expanded = expand_template(&template, types, settings, location)?;
    replace_template(machine, expanded, location)
}

fn expand_template(
    template: &InstanceTemplate,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<InstanceTemplate, ExpandError> {
    let in_spec = |error: Malformed| location.in_template(error.below("spec"));
    let mut prepared = template.clone();
    add_default_devices(prepared.spec_mut(), settings).map_err(in_spec)?;
    let (instancetype, preference) = (types.instancetype_spec(), types.preference_spec());
    let applied = apply_with_uneven_spread(&prepared, instancetype, preference, location);
    let mut applied = applied.map_err(|error| name_conflict_source(error, types))?;
    write_overcommit(applied.spec_mut(), types).map_err(in_spec)?;
    create_preferred_objects(applied.spec_mut(), types).map_err(in_spec)?;
    settings.defaults.clone().unwrap_or_default().fill_as_kubevirt(applied.spec_mut()).map_err(in_spec)?;
    Ok(applied)
}

/// Replaces the memory request of an instance type with overcommit by that of KubeVirt's arithmetic.
fn write_overcommit(spec: &mut Value, types: &InstanceTypeAndPreference) -> Result<(), Malformed> {
    let Some(memory) = types.instancetype_spec().map(|instancetype| &instancetype.memory) else {
        return Ok(());
    };
    match memory.overcommit() {
        0 => Ok(()),
        percent => {
            let request = memory.guest.lowered_in_single_precision(percent);
            tree::set_value(spec, "domain.resources.requests.memory", &request)
        }
    }
}

/// The objects that KubeVirt creates in an instance if the preference has its counterpart, even one without
/// effect.
const CREATED: [(&str, &str); 4] = [
    ("clock", "domain.clock"),
    ("features", "domain.features"),
    ("features.preferredHyperv", "domain.features.hyperv"),
    ("firmware", "domain.firmware.bootloader"),
];

fn create_preferred_objects(spec: &mut Value, types: &InstanceTypeAndPreference) -> Result<(), Malformed> {
    let Some(preference) = types.object(TypeFamily::Preference).map(InstanceTypeObject::spec) else {
        return Ok(());
    };
    for (preferred, path) in CREATED {
        if tree::object_at(preference, preferred)?.is_some() {
            tree::object_mut(spec, path)?;
        }
    }
    Ok(())
}

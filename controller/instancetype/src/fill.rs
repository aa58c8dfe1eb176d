//! What a machine itself gets from its preference, and not only its instance.

use serde_json::Value;

use crate::fields::MachineLocation;
use crate::model::PreferenceSpec;
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// Fills what the preference prefers and what must be known before an instance exists: architecture, machine
/// type, and the storage class of each DataVolume template.
///
/// # Errors
/// A field of the machine has the wrong type; the machine may be changed in part.
pub fn fill_machine_from_preference(
    machine: &mut Value,
    preference: &PreferenceSpec,
    location: MachineLocation,
) -> Result<(), Malformed> {
    let mut fill = || {
        let spec = "spec.template.spec";
        tree::set_default_text(machine, &format!("{spec}.architecture"), preference.architecture.as_deref())?;
        tree::set_default_text(
            machine,
            &format!("{spec}.domain.machine.type"),
            preference.machine_type.as_deref(),
        )?;
        tree::for_each_item(machine, "spec.dataVolumeTemplates", |template| {
            for claim in ["spec.pvc", "spec.storage"] {
                if tree::object_at(template, claim)?.is_some() {
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

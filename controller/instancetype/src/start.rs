//! From the template of a machine to the instance that is started.
//!
//! ```text
//!  auto-attach preferences ─> input device ─> disks for volumes ─> default interface
//!                          ─> instance type and preference ─> general defaults ─> annotations with the names
//! ```
//!
//! The order matters. A preference decides first whether a device is added, and its other defaults then reach
//! the added device. Expansion takes the same steps, except for the annotations, so that an expanded machine
//! starts the same instance.

use serde_json::{Map, Value, json};

use crate::apply::{self, ApplyError, apply_instancetype_and_preference};
use crate::defaults::InstanceDefaults;
use crate::fields::MachineLocation;
use crate::model::{InstanceTemplate, InstanceTypeAndPreference};
use crate::tree::{self, Malformed};

#[cfg(test)]
mod tests;

/// How the default interface is connected to the pod network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// By network address translation.
    Masquerade,
    /// By a bridge.
    Bridge,
}

impl Binding {
    /// The field of an interface with this binding.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Masquerade => "masquerade",
            Self::Bridge => "bridge",
        }
    }
}

/// What the cluster's configuration adds to an instance.
#[derive(Debug, Clone, Default)]
pub struct InstanceSettings {
    /// The binding of the interface that an instance without interfaces and networks gets. `None` adds no
    /// interface.
    pub interface: Option<Binding>,
    /// The general defaults. `None` adds none: a pool that stores expanded templates leaves them to the
    /// component that owns the configuration.
    pub defaults: Option<InstanceDefaults>,
}

/// The name of the input device that an instance gets.
const INPUT: &str = "default-0";

/// The name of the default interface and of its network.
const NETWORK: &str = "default";

/// Takes all steps except for the annotations with the names.
///
/// # Errors
/// See [`ApplyError`].
pub fn prepare_instance(
    template: &InstanceTemplate,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<InstanceTemplate, ApplyError> {
    let mut prepared = template.clone();
    add_missing_devices(prepared.spec_mut(), types, settings)
        .map_err(|error| location.in_template(error.below("spec")))?;
    let applied = apply_instancetype_and_preference(
        &prepared,
        types.instancetype_spec(),
        types.preference_spec(),
        location,
    );
    let mut prepared = applied.map_err(|error| name_conflict_source(error, types))?;
    if let Some(defaults) = &settings.defaults {
        let filled = defaults.fill(prepared.spec_mut());
        filled.map_err(|error| location.in_template(error.below("spec")))?;
    }
    Ok(prepared)
}

/// The error with the name of the instance type, if it is about conflicts.
pub(crate) fn name_conflict_source(error: ApplyError, types: &InstanceTypeAndPreference) -> ApplyError {
    match (error, &types.instancetype) {
        (ApplyError::Conflicts(conflicts), Some(source)) => conflicts.with(&source.object).into(),
        (error, _) => error,
    }
}

/// The instance that a machine starts, given the machine's `spec.template`: all steps. Name, owner and labels
/// of the instance are the caller's.
///
/// # Errors
/// See [`ApplyError`].
pub fn build_instance(
    template: &InstanceTemplate,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
    location: MachineLocation,
) -> Result<InstanceTemplate, ApplyError> {
    let mut instance = prepare_instance(template, types, settings, location)?;
    apply::add_name_annotations(&mut instance, types).map_err(|error| location.in_template(error))?;
    Ok(instance)
}

/// Adds devices that the template does not list.
fn add_missing_devices(
    spec: &mut Value,
    types: &InstanceTypeAndPreference,
    settings: &InstanceSettings,
) -> Result<(), Malformed> {
    if let Some(preferred) = types.preference_spec().and_then(|preference| preference.devices.as_ref()) {
        apply::fill_autoattach_settings(preferred, spec)?;
    }
    add_input_device(spec)?;
    add_default_devices(spec, settings)
}

/// Adds disks and the interface that the template does not list.
pub(crate) fn add_default_devices(spec: &mut Value, settings: &InstanceSettings) -> Result<(), Malformed> {
    add_volume_disks(spec)?;
    settings.interface.map_or(Ok(()), |binding| add_default_interface(spec, binding))
}

fn add_input_device(spec: &mut Value) -> Result<(), Malformed> {
    let wanted = tree::flag_at(spec, "domain.devices.autoattachInputDevice")? == Some(true);
    if wanted && tree::items_at(spec, "domain.devices.inputs")?.is_empty() {
        tree::items_mut(spec, "domain.devices.inputs")?.push(json!({ "name": INPUT }));
    }
    Ok(())
}

/// Adds a disk for each volume that neither a disk nor a filesystem uses.
fn add_volume_disks(spec: &mut Value) -> Result<(), Malformed> {
    for volume in item_names(spec, "volumes")? {
        let used =
            [item_names(spec, "domain.devices.disks")?, item_names(spec, "domain.devices.filesystems")?]
                .concat();
        if !used.contains(&volume) {
            tree::items_mut(spec, "domain.devices.disks")?.push(json!({ "name": volume }));
        }
    }
    Ok(())
}

/// The names of the items of a list.
fn item_names(spec: &Value, path: &str) -> Result<Vec<Value>, Malformed> {
    Ok(tree::items_at(spec, path)?.iter().filter_map(|item| item.get("name").cloned()).collect())
}

fn add_default_interface(spec: &mut Value, binding: Binding) -> Result<(), Malformed> {
    let refused = tree::flag_at(spec, "domain.devices.autoattachPodInterface")? == Some(false);
    let listed = !tree::items_at(spec, "networks")?.is_empty()
        || !tree::items_at(spec, "domain.devices.interfaces")?.is_empty();
    if refused || listed {
        return Ok(());
    }
    let mut interface = Map::new();
    interface.insert("name".to_owned(), NETWORK.into());
    interface.insert(binding.field().to_owned(), Value::Object(Map::new()));
    tree::set_value(spec, "domain.devices.interfaces", vec![Value::Object(interface)])?;
    tree::set_value(spec, "networks", vec![json!({ "name": NETWORK, "pod": {} })])
}

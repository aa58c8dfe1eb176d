//! Applying a preference: defaults for what the user and the instance type left empty.
//!
//! Three settings apply against the user's value, or without one, as in KubeVirt: `disableHotplug` and
//! `features.acpi` are overwritten, because KubeVirt's types cannot tell "unset" from the default, and a disk
//! without a target becomes a target of type `disk`.

mod devices;
mod disks;
mod firmware;

use serde_json::Value;

pub(crate) use devices::fill_autoattach_settings;

use crate::model::{ClockPreferences, CpuPreferences, FeaturePreferences, InstanceTemplate, PreferenceSpec};
use crate::tree::{self, Malformed};

/// Fills the fields of the preference. Errors have paths relative to the template.
pub(super) fn apply_preference(
    preference: &PreferenceSpec,
    template: &mut InstanceTemplate,
) -> Result<(), Malformed> {
    fill_preference_fields(preference, template.spec_mut()).map_err(|error| error.below("spec"))?;
    for (key, value) in &preference.annotations {
        template.annotations_mut()?.entry(key).or_insert_with(|| value.clone().into());
    }
    Ok(())
}

fn fill_preference_fields(preference: &PreferenceSpec, spec: &mut Value) -> Result<(), Malformed> {
    cpu_features(&preference.cpu, spec)?;
    if let Some(preferred) = &preference.devices {
        devices::apply_device_preferences(preferred, spec)?;
        disks::apply_disk_preferences(preferred, spec)?;
    }
    fill_features(&preference.features, spec)?;
    firmware::apply_firmware_preferences(&preference.firmware, spec)?;
    tree::set_default_text(spec, "domain.machine.type", preference.machine_type.as_deref())?;
    fill_clock(&preference.clock, spec)?;
    tree::set_default_text(spec, "subdomain", preference.subdomain.as_deref())?;
    let period = preference.termination_grace_period_seconds;
    tree::set_default(spec, "terminationGracePeriodSeconds", period)?;
    tree::set_default_text(spec, "architecture", preference.architecture.as_deref())?;
    tree::set_default(spec, "domain.launchSecurity", preference.launch_security.clone())
}

/// Appends the features that the machine does not list. A feature is identified by its name.
fn cpu_features(preferred: &CpuPreferences, spec: &mut Value) -> Result<(), Malformed> {
    let path = "domain.cpu.features";
    for feature in &preferred.features {
        let listed = tree::items_at(spec, path)?;
        if !listed.iter().any(|listed| listed.get("name") == feature.get("name")) {
            tree::items_mut(spec, path)?.push(feature.clone());
        }
    }
    Ok(())
}

fn fill_features(preferred: &FeaturePreferences, spec: &mut Value) -> Result<(), Malformed> {
    tree::set_given(spec, "domain.features.acpi", preferred.acpi.clone())?;
    for (feature, value) in &preferred.others {
        tree::set_default(spec, &format!("domain.features.{feature}"), Some(value.clone()))?;
    }
    for (enlightenment, value) in preferred.hyperv.iter().filter(|(_, value)| !value.is_null()) {
        let enlightenments = tree::object_mut(spec, "domain.features.hyperv")?;
        if enlightenments.get(enlightenment).is_none_or(Value::is_null) {
            enlightenments.insert(enlightenment.clone(), value.clone());
        }
    }
    Ok(())
}

fn fill_clock(preferred: &ClockPreferences, spec: &mut Value) -> Result<(), Malformed> {
    let chosen = tree::value_at(spec, "domain.clock.utc")?.is_some()
        || tree::text_at(spec, "domain.clock.timezone")?.is_some();
    if let Some(offset) = preferred.offset.as_ref().filter(|_| !chosen) {
        for field in ["utc", "timezone"] {
            tree::set_given(spec, &format!("domain.clock.{field}"), tree::value_at(offset, field)?.cloned())?;
        }
    }
    // Timers of the user and of the preference are not mixed.
    tree::set_default(spec, "domain.clock.timer", preferred.timer.clone())
}

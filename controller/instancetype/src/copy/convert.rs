//! Conversion of specs of the alpha versions to the current version.

use serde_json::Value;

use crate::model::TypeFamily;
use crate::tree::{self, Malformed};

/// Fields of the first stored preferences. Only the names matter: they tell the two families apart.
const PREFERENCE: [&str; 14] = [
    "annotations",
    "clock",
    "cpu",
    "devices",
    "features",
    "firmware",
    "machine",
    "preferSpreadSocketToCoreRatio",
    "preferredArchitecture",
    "preferredLaunchSecurity",
    "preferredSubdomain",
    "preferredTerminationGracePeriodSeconds",
    "requirements",
    "volumes",
];

/// Fields of `cpu` of a preference.
const PREFERENCE_CPU: [&str; 3] = ["preferredCPUFeatures", "preferredCPUTopology", "spreadOptions"];

/// Fields of the first stored instance types.
const INSTANCETYPE: [&str; 6] = ["cpu", "gpus", "hostDevices", "ioThreadsPolicy", "launchSecurity", "memory"];

/// Fields of `cpu` of an instance type.
const INSTANCETYPE_CPU: [&str; 6] =
    ["dedicatedCPUPlacement", "guest", "isolateEmulatorThread", "model", "numa", "realtime"];

/// Which family a spec without a kind belongs to: it must have no field of another one.
pub(super) fn family_of(spec: &Value) -> Option<TypeFamily> {
    let only = |path: &str, known: &[&str]| match tree::value_at(spec, path) {
        Ok(None) => true,
        Ok(Some(Value::Object(fields))) => fields.keys().all(|key| known.contains(&key.as_str())),
        _ => false,
    };
    if only("", &PREFERENCE) && only("cpu", &PREFERENCE_CPU) {
        return Some(TypeFamily::Preference);
    }
    (only("", &INSTANCETYPE) && only("cpu", &INSTANCETYPE_CPU)).then_some(TypeFamily::Instancetype)
}

/// Converts the spec of an object. The alpha versions had plain fields where the current version has optional
/// ones, so empty and false meant "not set". All other fields keep their names, the deprecated ones for EFI
/// too.
pub(super) fn convert_alpha_spec(family: TypeFamily, object: &mut Value) -> Result<(), Malformed> {
    match family {
        TypeFamily::Instancetype => {
            if tree::text_at(object, "spec.cpu.model")?.is_none() {
                tree::remove_field(object, "spec.cpu.model")?;
            }
            for flag in ["spec.cpu.dedicatedCPUPlacement", "spec.cpu.isolateEmulatorThread"] {
                if tree::flag_at(object, flag)? == Some(false) {
                    tree::remove_field(object, flag)?;
                }
            }
        }
        TypeFamily::Preference => {
            if tree::text_at(object, "spec.cpu.preferredCPUTopology")?.is_none() {
                tree::remove_field(object, "spec.cpu.preferredCPUTopology")?;
            }
        }
    }
    Ok(())
}

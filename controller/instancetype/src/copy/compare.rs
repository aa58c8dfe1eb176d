//! Comparing a copy with an object by what their specs mean.

use serde_json::Value;

use crate::encoding::FieldEncoding::{OptionalQuantity, OptionalText, Quantity, Scalar, TextMap};
use crate::encoding::FieldEncodings;
use crate::model::InstanceTypeObject;

/// The fields of instance types and preferences. No path means different types in the two, except `cpu`,
/// which is a struct in instance types and a pointer in preferences. It is none of these fields, nor is
/// `memory`, because each instance type has both.
///
/// Source: the Go types of `instancetype.kubevirt.io/v1beta1` in KubeVirt 1.9.0.
const SPEC: FieldEncodings = FieldEncodings {
    fields: &[
        // Both.
        ("annotations", TextMap),
        // Instance types.
        ("nodeSelector", TextMap),
        ("cpu.guest", Scalar),
        ("cpu.model", OptionalText),
        ("ioThreadsPolicy", OptionalText),
        ("memory.guest", Quantity),
        ("memory.maxGuest", OptionalQuantity),
        ("memory.overcommitPercent", Scalar),
        // Preferences.
        ("clock.preferredClockOffset.timezone", OptionalText),
        ("cpu.preferredCPUTopology", OptionalText),
        ("cpu.spreadOptions.across", OptionalText),
        ("devices.preferredDiskBlockSize.custom.logical", Scalar),
        ("devices.preferredDiskBlockSize.custom.physical", Scalar),
        ("devices.preferredPanicDeviceModel", OptionalText),
        ("devices.preferredVideoType", OptionalText),
        ("features.preferredApic.endOfInterrupt", Scalar),
        ("features.preferredKvm.hidden", Scalar),
        ("preferSpreadSocketToCoreRatio", Scalar),
        ("preferredArchitecture", OptionalText),
        ("preferredSubdomain", OptionalText),
        ("requirements.architecture", OptionalText),
        ("requirements.cpu.guest", Scalar),
        ("requirements.memory.guest", Quantity),
    ],
    embedded: &[],
};

/// Whether two specs mean the same: KubeVirt reads them as equal values.
pub fn same_spec(left: &Value, right: &Value) -> bool {
    SPEC.canonical("", left) == SPEC.canonical("", right)
}

/// How the live object differs from a copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outdated {
    /// It has another spec.
    SpecChanged,
    /// It no longer exists.
    Deleted,
    /// It was deleted and created again with another spec.
    Recreated,
}

impl Outdated {
    /// The reason in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpecChanged => "SpecChanged",
            Self::Deleted => "Deleted",
            Self::Recreated => "Recreated",
        }
    }
}

/// Compares the object in a copy with the live object. `None` if the live object has the same spec.
pub fn outdated_reason(copied: &InstanceTypeObject, live: Option<&InstanceTypeObject>) -> Option<Outdated> {
    let Some(live) = live else { return Some(Outdated::Deleted) };
    if same_spec(copied.spec(), live.spec()) {
        return None;
    }
    let recreated = copied.identity.uid.is_some() && copied.identity.uid != live.identity.uid;
    Some(if recreated { Outdated::Recreated } else { Outdated::SpecChanged })
}

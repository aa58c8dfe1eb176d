//! The four kinds, their specs as small typed views, and the matchers that name them.

mod instance;
mod instancetype;
mod kind;
mod matcher;
mod object;
mod preference;

pub use instance::InstanceTemplate;
pub(crate) use instancetype::amount_at;
pub use instancetype::{InstanceTypeCpu, InstanceTypeMemory, InstancetypeSpec};
pub use kind::{InstanceTypeKind, TypeFamily, UnknownKind};
pub use matcher::{FailurePolicy, TypeMatcher};
pub(crate) use object::kind_of;
pub use object::{
    GROUP, InstanceTypeAndPreference, InstanceTypeObject, Instancetype, ObjectError, ObjectIdentity,
    Preference, VERSION,
};
pub use preference::{
    ClockPreferences, CpuPreferences, DevicePreferences, FeaturePreferences, FirmwarePreferences,
    PreferenceSpec, Requirements,
};

#[cfg(test)]
mod tests;

//! The four kinds, their specs as small typed views, and the matchers that name them.

mod instance;
mod instancetype;
mod kind;
mod matcher;
mod object;
mod preference;

pub use instance::InstanceTemplate;
pub(crate) use instancetype::amount;
pub use instancetype::{Cpu, InstancetypeSpec, Memory};
pub use kind::{Family, Kind, UnknownKind};
pub use matcher::{FailurePolicy, Matcher};
pub(crate) use object::kind_of;
pub use object::{GROUP, Identity, Instancetype, Object, ObjectError, Preference, Types, VERSION};
pub use preference::{
    ClockPreferences, CpuPreferences, DevicePreferences, FeaturePreferences, FirmwarePreferences,
    PreferenceSpec, Requirements,
};

#[cfg(test)]
mod tests;

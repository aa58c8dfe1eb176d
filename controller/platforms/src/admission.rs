//! The admission rules of all platforms, for programs.

use std::sync::Arc;

use vmpool_engine::admission::Rules;
pub use vmpool_platform::admission::{AdmissionSettings, CapabilityState, ClusterCapabilities};

use crate::registry::PlatformName;
use crate::{RegisteredPlatform as _, with_platform};

/// The rules of each platform.
pub fn admission_rules(settings: &AdmissionSettings) -> Vec<Arc<dyn Rules>> {
    let rules = |name| with_platform!(name, P => P::admission_rules(settings));
    PlatformName::ALL.into_iter().map(rules).collect()
}

//! The admission rules of all platforms, for programs.

use std::sync::Arc;

use vmpool_engine::admission::Rules;

use crate::dvp::admission::DvpRules;
pub use crate::dvp::admission::{AdmissionSettings, CapabilityState, ClusterCapabilities};
use crate::kubevirt::admission::KubevirtRules;

/// The rules of each platform.
pub fn admission_rules(settings: AdmissionSettings) -> Vec<Arc<dyn Rules>> {
    let users = settings.users.clone();
    vec![Arc::new(DvpRules(settings)), Arc::new(KubevirtRules { users })]
}

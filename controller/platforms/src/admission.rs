//! The admission rules of all platforms, for programs.

use std::sync::Arc;

use vmpool_engine::admission::Rules;

use crate::dvp::admission::DvpRules;
pub use crate::dvp::admission::{Cluster, Known, Settings};

/// The rules of each platform.
pub fn rules(settings: Settings) -> Vec<Arc<dyn Rules>> {
    vec![Arc::new(DvpRules(settings))]
}

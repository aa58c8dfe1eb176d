//! What programs select and serve for this platform.

use std::sync::Arc;

use vmpool_engine::admission::Rules;
use vmpool_platform::RegisteredPlatform;
use vmpool_platform::admission::AdmissionSettings;
use vmpool_platform::removal_api::RemovalApi;

use super::Dvp;
use super::admission::DvpRules;
use super::removal::{REFERENCE, VMPOOL};

impl RegisteredPlatform for Dvp {
    const PRODUCT: &'static str = "Deckhouse DVP";
    const RECONCILED: &'static str = "Deckhouse DVP: pools of virtualization.deckhouse.io";
    const REMOVAL_APIS: &'static [RemovalApi] = &[REFERENCE, VMPOOL];

    fn admission_rules(settings: &AdmissionSettings) -> Arc<dyn Rules> {
        Arc::new(DvpRules(settings.clone()))
    }
}

//! What programs select and serve for this platform.

use std::sync::Arc;

use vmpool_engine::admission::Rules;
use vmpool_platform::RegisteredPlatform;
use vmpool_platform::admission::AdmissionSettings;
use vmpool_platform::removal_api::{ExpansionApi, ReferenceApis, RemovalApi};

use super::admission::KubevirtRules;
use super::platform::KubeVirt;
use super::removal::{EXPANSION, REFERENCE, VMPOOL};

impl RegisteredPlatform for KubeVirt {
    const PRODUCT: &'static str = "KubeVirt";
    const RECONCILED: &'static str =
        "KubeVirt: pools of pool.kubevirt.io, while the pool loop of KubeVirt's own controller is off";
    const REMOVAL_APIS: &'static [RemovalApi] = &[VMPOOL];
    const EXPANSION_APIS: &'static [ExpansionApi] = &[EXPANSION];
    const REFERENCE_APIS: Option<ReferenceApis> = Some(REFERENCE);

    fn admission_rules(settings: &AdmissionSettings) -> Arc<dyn Rules> {
        Arc::new(KubevirtRules { users: settings.users.clone() })
    }
}

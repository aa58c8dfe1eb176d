//! The platforms whose pools the soak test can have.

use vmpool_invariants::platform::TestedPlatform;

use crate::design::SoakPlatform;
use crate::dvp::DvpSoakPlatform;
use crate::kubevirt::KubeVirtSoakPlatform;

/// The spelling of a platform.
pub(crate) fn soak_platform(platform: TestedPlatform) -> &'static dyn SoakPlatform {
    match platform {
        TestedPlatform::Dvp => &DvpSoakPlatform,
        TestedPlatform::KubeVirt => &KubeVirtSoakPlatform,
    }
}

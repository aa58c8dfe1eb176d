//! The platforms whose pools the soak test can have.

use vmpool_invariants::platform::PlatformName;

use crate::design::Spelling;
use crate::dvp::Dvp;
use crate::kubevirt::KubeVirt;

/// The spelling of a platform.
pub(crate) fn spelling(platform: PlatformName) -> &'static dyn Spelling {
    match platform {
        PlatformName::Dvp => &Dvp,
        PlatformName::KubeVirt => &KubeVirt,
    }
}

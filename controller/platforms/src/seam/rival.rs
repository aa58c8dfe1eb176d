//! Another controller of the pools of a platform, which must be off.

use super::{ApiObject, NoObject};

/// The installation of another controller: two controllers of one pool would delete each other's machines.
pub trait Rival: Send + Sync + 'static {
    /// Whether the platform has such a controller. If not, the controller requests no installations.
    const EXISTS: bool = true;

    /// The object that configures it, in any namespace.
    type Installation: ApiObject;

    /// Why the other controller may reconcile pools, and what to change; `None` if it does not.
    fn blocker(installations: &[Self::Installation]) -> Option<String>;

    /// Whether the platform applies changed [live parts](vmpool_engine::revision::LiveParts) of a template to running
    /// instances.
    fn updates_live(_: &[Self::Installation]) -> bool {
        false
    }
}

/// For platforms where the switch between the controllers is not visible in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct NoRival;

impl Rival for NoRival {
    const EXISTS: bool = false;

    type Installation = NoObject;

    fn blocker(_: &[NoObject]) -> Option<String> {
        None
    }
}

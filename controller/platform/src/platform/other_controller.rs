//! Another controller of the pools of a platform, which must be off.

use std::sync::Arc;

use super::{ApiObject, NoObject};

/// The installation of another controller: two controllers of one pool would delete each other's machines.
pub trait OtherController: Send + Sync + 'static {
    /// Whether the platform has such a controller. If not, the controller requests no installations.
    const EXISTS: bool = true;

    /// The object that configures it, in any namespace.
    type Installation: ApiObject;

    /// Why the other controller may reconcile pools, and what to change; `None` if it does not.
    fn blocker(installations: &[Self::Installation]) -> Option<String>;

    /// Whether the other controller is set to reconcile pools, also while that is not applied yet.
    fn is_set_to_run(_: &[Self::Installation]) -> bool {
        false
    }

    /// What the installations configure.
    fn configuration(_: &[Self::Installation]) -> Configuration {
        Configuration::default()
    }
}

/// The configuration of a platform, as far as its pools depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Whether the platform applies changed [live parts](vmpool_engine::revisions::LiveParts) of a template
    /// to running instances.
    pub updates_live: bool,
    /// Whether the platform replaces the references of machines to copies of objects by the contents of
    /// these, so that machines cannot share a copy.
    pub expands_references: bool,
    /// The interface that the platform adds to a machine that lists none.
    pub interface: DefaultInterface,
    /// The architecture that the platform gives to a machine that chooses none; `None` if it is not known.
    pub architecture: Option<Arc<str>>,
}

/// How the interface that a platform adds is connected to the network of the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultInterface {
    /// By a bridge.
    #[default]
    Bridge,
    /// By network address translation.
    Masquerade,
    /// In a way that vmpool does not know.
    Other,
}

/// For platforms where the switch between the controllers is not visible in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct NoOtherController;

impl OtherController for NoOtherController {
    const EXISTS: bool = false;

    type Installation = NoObject;

    fn blocker(_: &[NoObject]) -> Option<String> {
        None
    }
}

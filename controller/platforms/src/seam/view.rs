//! What clients of users need to show pools and machines, and to change them on behalf of a user.

use serde_json::Value;

use super::Platform;
use crate::removal_api::RemovalApi;

/// What a user wants to see of a machine in addition to the facts of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineView {
    /// The state, in the words of the platform; empty if the platform has not reported it.
    pub state: String,
    /// The node that it runs on.
    pub node: Option<String>,
    /// The addresses of the guest.
    pub addresses: Vec<String>,
}

/// What clients of users need from a platform, in addition to [`Platform`].
pub trait View: Platform {
    /// The name of the platform for users.
    const TITLE: &'static str;

    /// The group of targeted removal that vmpool always serves.
    const REMOVAL: &'static RemovalApi;

    /// What [`View::pause`] pauses, for messages.
    const PAUSES: &'static str;

    /// Reads what a user wants to see of a machine. `instance` is the instance of the machine, if the platform has
    /// instances.
    fn machine_view(machine: &Value, instance: Option<&Value>) -> MachineView;

    /// Merge patches of a pool that pause or resume it, in the order in which to try them. If the cluster's definition
    /// of pools drops the field of one, the next one has the same effect.
    fn pause(paused: bool) -> Vec<Value>;

    /// Whether the pool is paused in the sense of [`View::pause`].
    fn is_paused(pool: &vmpool_engine::ParsedPool) -> bool;

    /// The machine template in the content of a stored revision, as `spec.virtualMachineTemplate` of a pool contains it;
    /// `None` if the content has none.
    fn stored_template(content: &Value) -> Option<Value>;

    /// The copies of objects that machines from the content of a stored revision refer to, each with its object.
    fn copies(content: &Value) -> Vec<String>;

    /// JSON pointers to the fields that pin a pool to a stored revision, which replaces the template. A rollback removes
    /// them.
    fn pins() -> &'static [&'static str];

    /// The object whose creation restarts this machine; `None` if the platform has none and
    /// [`Instances::restart`](super::Instances::restart) says how to restart it.
    fn restart(machine: &str) -> Option<Value>;

    /// The result of such an object: `Err` with the reason if the restart failed; `None` while it is in progress.
    fn restart_result(operation: &Value) -> Option<Result<(), String>>;
}

//! What clients of users need to show pools and machines, and to change them on behalf of a user.

use serde_json::Value;
use vmpool_engine::Uid;

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

/// Why a restart failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartFailure {
    /// The platform gives this reason.
    #[error("{0}")]
    Explained(String),
    /// The platform gives no reason.
    #[error("the platform gives no reason")]
    Unexplained,
}

/// A kind of objects that belong to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolPart {
    /// Machines.
    Machine,
    /// Disks that are objects of the pool or of its machines.
    Disk,
    /// ControllerRevisions: stored templates, and copies of instance types and preferences.
    Revision,
}

/// What a change of the machine template takes to be in effect on a running machine. Each has the changed
/// fields of the machine's spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateEffect {
    /// Hot: the platform applies all of them without a restart.
    Hot(Vec<String>),
    /// The platform applies them without a restart if its settings, its edition and the machine permit it.
    Either(Vec<String>),
    /// Cold: these fields need a restart. Others may have changed, too.
    Cold(Vec<String>),
}

/// What clients of users need from a platform, in addition to [`Platform`].
pub trait ClientPlatform: Platform {
    /// The name of the platform for users.
    const TITLE: &'static str;

    /// The group of targeted removal that vmpool always serves.
    const REMOVAL: &'static RemovalApi;

    /// What [`ClientPlatform::pause`] pauses, for messages.
    const PAUSES: &'static str;

    /// Reads what a user wants to see of a machine. `instance` is the instance of the machine, if the
    /// platform has instances.
    fn machine_view(machine: &Value, instance: Option<&Value>) -> MachineView;

    /// A pool without machines that the definition of pools accepts, as small as that allows. Clients send it
    /// as a dry run, to see what admission answers.
    fn smallest_pool(name: &str) -> Value;

    /// Merge patches of a pool that pause or resume it, in the order in which to try them. If the cluster's
    /// definition of pools drops the field of one, the next one has the same effect.
    fn pause(paused: bool) -> Vec<Value>;

    /// Whether the pool is paused in the sense of [`ClientPlatform::pause`].
    fn is_paused(pool: &vmpool_engine::ParsedPool) -> bool;

    /// The machine template in the content of a stored revision, as `spec.virtualMachineTemplate` of a pool
    /// contains it; `None` if the content has none.
    fn stored_template(content: &Value) -> Option<Value>;

    /// What a change of the template takes, for platforms that decide it themselves. `None` if nothing
    /// changes but labels and annotations, or if [`RevisionObjects::parts`](super::RevisionObjects::parts)
    /// says it.
    fn effect_of_change(_from: &Value, _to: &Value) -> Option<TemplateEffect> {
        None
    }

    /// The copies of objects that machines from the content of a stored revision refer to, each with its
    /// object.
    fn copies(content: &Value) -> Vec<String>;

    /// JSON pointers to the fields that pin a pool to a stored revision, which replaces the template. A
    /// rollback removes them.
    fn pinned_revision_pointers() -> &'static [&'static str];

    /// The object whose creation restarts this machine; `None` if the platform has none and
    /// [`Instances::restart`](super::Instances::restart) says how to restart it.
    fn restart(machine: &str) -> Option<Value>;

    /// Whether an object without an owner was one of the pool with UID `former`, of which `pool` is a
    /// [copy](vmpool_engine::copied_pool): by its labels and its name, which a backup keeps.
    fn belonged_to_former_pool(
        pool: &vmpool_engine::ParsedPool,
        former: &Uid,
        part: PoolPart,
        object: &Value,
    ) -> bool;

    /// The result of such an object; `None` while it is in progress.
    fn restart_result(operation: &Value) -> Option<Result<(), RestartFailure>>;
}

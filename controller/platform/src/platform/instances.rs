//! Instances of machines that are objects of their own.

use serde_json::Value;
use vmpool_engine::model::Instance;
use vmpool_engine::revisions::RevisionId;

use super::{ApiObject, NoObject};

/// How the controller requests a restart.
#[derive(Clone, Debug, PartialEq)]
pub enum RestartRequest {
    /// It deletes the instance, and the platform starts another one.
    DeleteInstance,
    /// It sends this merge patch, which contains UID and version, to the status of the machine, because the
    /// platform would not start another instance.
    PatchMachineStatus(Value),
    /// It requests none, because a restart is in progress.
    InProgress,
    /// It requests none, because the platform restarts the machine in no way that the controller knows.
    Impossible,
}

/// Instances as objects: how to read them, and how the controller restarts them.
pub trait Instances<Machine>: Send + Sync + 'static {
    /// Whether the platform has them. If not, the controller requests none.
    const EXIST: bool = true;

    /// The instance. It has the name of its machine.
    type Instance: ApiObject;

    /// Translates a stored instance.
    fn read(instance: &Self::Instance) -> Instance;

    /// How to restart `instance`, the instance of `machine`.
    fn restart(machine: &Machine, instance: &Self::Instance) -> RestartRequest;

    /// The JSON patch that records on an instance that it has the template of `revision`; `None` if the
    /// instance records it, or no revision. It fails if the instance has changed.
    fn record_revision(instance: &Self::Instance, revision: &RevisionId) -> Option<Value>;
}

/// For platforms where an instance is part of its machine.
#[derive(Clone, Copy, Debug)]
pub struct NoInstances;

impl<Machine> Instances<Machine> for NoInstances {
    const EXIST: bool = false;

    type Instance = NoObject;

    fn read(instance: &NoObject) -> Instance {
        match *instance {}
    }
    fn restart(_: &Machine, instance: &NoObject) -> RestartRequest {
        match *instance {}
    }
    fn record_revision(instance: &NoObject, _: &RevisionId) -> Option<Value> {
        match *instance {}
    }
}

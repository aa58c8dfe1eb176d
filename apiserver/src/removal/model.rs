//! The types that the steps of a removal share.

use std::sync::Weak;
use std::time::Duration;

use futures::channel::oneshot;
use vmpool_engine::ObjectId;
use vmpool_engine::draining::Draining;
use vmpool_platforms::removal::StoredApi;

use crate::body::RequestedTarget;
use crate::cluster::MachineFields;
use crate::error::Error;

/// The time from the arrival of a request to its response.
pub(crate) const DEADLINE: Duration = Duration::from_secs(28);

/// Resource, namespace and name of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolName {
    pub(crate) stored: &'static StoredApi,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A request in the queue of its pool.
pub(super) struct RemovalJob {
    /// The name of the caller, for the removal record.
    pub(super) user: String,
    pub(super) targets: Vec<RequestedTarget>,
    /// The UID that the pool must have.
    pub(super) pool_uid: Option<String>,
    /// Whether protected machines are removed as well.
    pub(super) force: bool,
    /// Cannot be upgraded any more when the caller has disconnected.
    pub(super) caller: Weak<()>,
    pub(super) reply: oneshot::Sender<Result<Accepted, Error>>,
}

impl RemovalJob {
    /// Whether the caller still waits for the response.
    pub(super) fn has_caller(&self) -> bool {
        self.caller.strong_count() > 0
    }

    /// Ends the job with its result.
    pub(super) fn finish(self, result: Result<Accepted, Error>) {
        // Sending fails only if the task of the request is gone, which means that the process exits.
        let _ = self.reply.send(result);
    }
}

/// An accepted removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) pool_uid: String,
    /// `replicas` after the removal, if this request changed it.
    pub(crate) replicas: Option<i64>,
    pub(crate) targets: Vec<RemovalTarget>,
}

/// A target of a removal, as the API server observed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemovalTarget {
    pub(crate) id: ObjectId,
    /// An earlier request removed the machine, so this request does not count it.
    pub(crate) already_removed: bool,
    /// The machine is being deleted or is gone, so it needs no delete request.
    pub(crate) deleted: bool,
    /// How its delete request is sent.
    pub(crate) deletion: TargetDeletion,
}

/// How the delete request of a target is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetDeletion {
    /// In any state of the machine: the removal is forced.
    AnyState,
    /// At this version of the machine, which has no hooks.
    AtVersion(String),
    /// Not at all: the machine has hooks, so the controller drains and deletes it.
    ByController,
}

impl TargetDeletion {
    /// That of a target with this machine.
    pub(super) fn of(machine: &MachineFields, force: bool) -> Self {
        let has_hooks = Draining::read(Some(&machine.metadata.annotations))
            .is_some_and(|draining| !draining.hooks.is_empty());
        match (force, has_hooks) {
            (true, _) => Self::AnyState,
            (false, true) => Self::ByController,
            (false, false) => Self::AtVersion(machine.metadata.resource_version.clone()),
        }
    }
}

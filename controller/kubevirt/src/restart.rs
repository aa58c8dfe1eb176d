//! Restarts: the requests that make a guest run with the template of its machine.

use serde_json::{Value, json};
use vmpool_api::kubevirt::values::RunStrategy;

use super::keys::REVISION_LABEL;
use super::objects::{InstanceObject, KubeVirtMachineObject};

/// How a guest is restarted.
#[derive(Clone, Debug, PartialEq)]
pub enum GuestRestart {
    /// Delete the VirtualMachineInstance with this UID. KubeVirt starts the machine again.
    DeleteInstance {
        /// The precondition of the delete.
        uid: String,
    },
    /// Send this merge patch to the status of the machine: it requests a stop and then a start. If KubeVirt
    /// would not start the machine again, deleting its VirtualMachineInstance would only stop it.
    Request(Value),
    /// A requested stop or start is not done yet, so that a further request would be rejected.
    InProgress,
    /// The machine is off on purpose, or its run strategy is unknown, so the controller does not restart it.
    /// It gets its template when it is started.
    NotRestarted,
}

/// How the guest of a machine is restarted.
pub fn restart_guest(machine: &KubeVirtMachineObject, instance: &InstanceObject) -> GuestRestart {
    let uid = instance.metadata.uid.as_deref().unwrap_or_default();
    match machine.run_strategy {
        _ if instance.metadata.deletion_timestamp.is_some() => GuestRestart::InProgress,
        Some(strategy) if strategy.restarts() => GuestRestart::DeleteInstance { uid: uid.to_owned() },
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure) if machine.status.state_change_requested => {
            GuestRestart::InProgress
        }
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure) => GuestRestart::Request(json!({
            // The version guards requests of other clients, because a merge patch replaces the list.
            "metadata": {
                "uid": machine.metadata.uid.as_deref().unwrap_or_default(),
                "resourceVersion": machine.metadata.resource_version.as_deref().unwrap_or_default(),
            },
            "status": { "stateChangeRequests": [
                { "action": "Stop", "uid": uid },
                { "action": "Start" },
            ] },
        })),
        Some(_) | None => GuestRestart::NotRestarted,
    }
}

/// Whether the controller can restart the guest of a machine with this run strategy.
pub fn is_restart_possible(strategy: RunStrategy) -> bool {
    strategy.restarts() || matches!(strategy, RunStrategy::Manual | RunStrategy::RerunOnFailure)
}

/// The JSON patch that writes the revision label to a VirtualMachineInstance; `None` if it has this label, or
/// has no such label, which requires a restart.
pub fn record_instance_revision(instance: &InstanceObject, revision: &str) -> Option<Value> {
    let current = instance.revision.as_deref().filter(|current| *current != revision)?;
    let path = format!("/metadata/labels/{}", REVISION_LABEL.replace('~', "~0").replace('/', "~1"));
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": instance.metadata.uid.as_deref().unwrap_or_default() },
        { "op": "test", "path": path, "value": current },
        { "op": "replace", "path": path, "value": revision },
    ]))
}

#[cfg(test)]
mod tests;

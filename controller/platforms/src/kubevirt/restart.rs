//! Restarts: what a machine that already has the wanted template needs so that its guest runs with it.

use serde_json::{Value, json};
use vmpool_api::kubevirt::values::RunStrategy;

use super::keys::REVISION_LABEL;
use super::read::{InstanceFacts, MachineFacts};
use super::template::{Difference, difference};

/// What the controller does with a machine whose VirtualMachine has the wanted template and whose
/// VirtualMachineInstance exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the guest runs with the template of its machine, or its revision is not known yet.
    None,
    /// Write the revision label to the VirtualMachineInstance. This disrupts nothing.
    Label,
    /// Wait for KubeVirt to update the running guest, and then write the label. If KubeVirt reports that a restart is
    /// required, or does not update running guests, restart.
    LiveUpdate,
    /// Restart the guest.
    Restart,
    /// Delete the VirtualMachine in the foreground, with its storage, and create the ordinal again.
    Recreate,
}

impl Step {
    /// Whether it disrupts the guest and counts against the disruption budget.
    pub fn disrupts(self) -> bool {
        matches!(self, Self::Restart | Self::Recreate)
    }
}

/// The step for a machine. Each template is `virtualMachineTemplate` of the revision with that label, and `None` if that
/// revision does not exist.
pub fn step(
    machine_label: Option<&str>,
    instance_label: Option<&str>,
    machine_template: Option<&Value>,
    instance_template: Option<&Value>,
) -> Step {
    if instance_label.is_none() {
        return Step::Restart;
    }
    if instance_label == machine_label {
        return Step::None;
    }
    match (machine_template, instance_template) {
        (None, _) => Step::None,
        (Some(_), None) => Step::Restart,
        (Some(to), Some(from)) => match difference(from, to) {
            Difference::Storage => Step::Recreate,
            Difference::Instance => Step::Restart,
            Difference::LiveUpdatable => Step::LiveUpdate,
            Difference::Outside | Difference::None => Step::Label,
        },
    }
}

/// How a guest is restarted.
#[derive(Clone, Debug, PartialEq)]
pub enum Restart {
    /// Delete the VirtualMachineInstance with this UID. KubeVirt starts the machine again.
    DeleteInstance {
        /// The precondition of the delete.
        uid: String,
    },
    /// Send this merge patch to the status of the machine: it requests a stop and then a start. If KubeVirt would not
    /// start the machine again, deleting its VirtualMachineInstance would only stop it.
    Request(Value),
    /// A requested stop or start is not done yet, so that a further request would be rejected.
    InProgress,
    /// The machine is off on purpose, or its run strategy is unknown, so the controller does not restart it. It gets its
    /// template when it is started.
    NotRestarted,
}

/// How the guest of a machine is restarted. `resource_version` is the version of the machine in `machine`.
pub fn restart(machine: &MachineFacts, resource_version: &str, instance: &InstanceFacts) -> Restart {
    match machine.run_strategy {
        _ if instance.terminating => Restart::InProgress,
        Some(strategy) if strategy.restarts() => {
            Restart::DeleteInstance { uid: instance.id.uid.as_str().to_owned() }
        }
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure) if machine.state_change_requested => {
            Restart::InProgress
        }
        Some(RunStrategy::Manual | RunStrategy::RerunOnFailure) => Restart::Request(json!({
            // The version guards requests of other clients, because a merge patch replaces the list.
            "metadata": { "uid": machine.id.uid.as_str(), "resourceVersion": resource_version },
            "status": { "stateChangeRequests": [
                { "action": "Stop", "uid": instance.id.uid.as_str() },
                { "action": "Start" },
            ] },
        })),
        Some(_) | None => Restart::NotRestarted,
    }
}

/// The JSON patch that writes the revision label to a VirtualMachineInstance; `None` if it has this label, or has no such
/// label, which requires a restart.
pub fn label(instance: &InstanceFacts, revision: &str) -> Option<Value> {
    let current = instance.revision.as_deref().filter(|current| *current != revision)?;
    let path = format!("/metadata/labels/{}", REVISION_LABEL.replace('~', "~0").replace('/', "~1"));
    Some(json!([
        { "op": "test", "path": "/metadata/uid", "value": instance.id.uid.as_str() },
        { "op": "test", "path": path, "value": current },
        { "op": "replace", "path": path, "value": revision },
    ]))
}

#[cfg(test)]
mod tests;

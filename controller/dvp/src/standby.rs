//! Standby machines of DVP.
//!
//! The platform copies the labels of a machine to its Pods. A standby machine therefore lacks the labels of
//! its template and those of its pool, so that no Service and no PodDisruptionBudget selects its Pods.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vmpool_api::enums::RunPolicy;
use vmpool_api::labels;
use vmpool_engine::model::ObjectId;
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::standby::{ACTIVATED_AT, STANDBY, StandbyPhase};

use super::names::API_VERSION;
use super::objects::{DvpMachineObject, DvpMachineStatus, DvpPoolObject, PhaseTransition};
use super::{update, write};

const RUN_POLICY: &str = "runPolicy";
/// The run policy that keeps a machine off.
const OFF: &str = "AlwaysOff";

/// Makes the object of a new machine that of a standby machine.
pub(super) fn mark_standby(machine: &mut Value, phase: StandbyPhase) {
    let revision = machine["metadata"]["labels"][labels::TEMPLATE_HASH].clone();
    machine["metadata"]["labels"] = json!({ STANDBY: phase.as_str(), labels::TEMPLATE_HASH: revision });
    if phase == StandbyPhase::Stopped {
        machine["spec"][RUN_POLICY] = OFF.into();
    }
}

pub(super) fn stop_standby() -> Value {
    json!({
        "metadata": { "labels": { STANDBY: StandbyPhase::Stopped.as_str() } },
        "spec": { RUN_POLICY: OFF },
    })
}

/// The labels and the run policy of an active machine.
pub(super) fn activate_standby(pool: &DvpPoolObject, revision: &RevisionId, to: &Value, at: &str) -> Value {
    let mut wanted: Map<String, Value> = update::settable_entries(&to["metadata"]["labels"]);
    wanted.extend(write::managed_labels(pool));
    wanted.insert(labels::TEMPLATE_HASH.to_owned(), revision.as_str().into());
    wanted.insert(STANDBY.to_owned(), Value::Null);
    json!({
        "metadata": { "labels": wanted, "annotations": { ACTIVATED_AT: at } },
        // Without a policy in the template, the platform sets its default.
        "spec": { RUN_POLICY: to["spec"][RUN_POLICY].clone() },
    })
}

/// The operation that starts an activated machine. Its name exists once for each machine.
pub(super) fn start_operation(namespace: &str, machine: &ObjectId) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "VirtualMachineOperation",
        "metadata": {
            "name": &*machine.name,
            "namespace": namespace,
            "ownerReferences": [{
                "apiVersion": API_VERSION,
                "kind": "VirtualMachine",
                "name": &*machine.name,
                "uid": machine.uid.as_str(),
            }],
        },
        "spec": { "type": "Start", "virtualMachineName": &*machine.name },
    })
}

/// Whether the spec keeps the machine off.
pub(super) fn is_kept_off(run_policy: &str) -> bool {
    run_policy == OFF
}

/// Since when the guest runs.
pub(super) fn find_ready_since(status: &DvpMachineStatus) -> Option<Timestamp> {
    if status.phase != "Running" {
        return None;
    }
    let transitions = status.stats.phases_transitions.iter();
    transitions
        .filter(|transition| transition.phase == "Running")
        .filter_map(|transition| transition.timestamp)
        .max()
}

/// Whether the platform does not start an activated machine: with this policy, only an operation starts a
/// machine that stopped before the activation.
pub(super) fn awaits_start(object: &DvpMachineObject, activated: Option<Timestamp>) -> bool {
    let policy = object.spec.run_policy.as_str();
    let is_manual = policy.is_empty() || policy == RunPolicy::AlwaysOnUnlessStoppedManually.as_str();
    is_manual && is_stopped_since_activation(object, activated)
}

/// Whether an activated machine is stopped only because it has not started yet: with these policies, the
/// platform or an operation of the controller starts it. Without its last phases, this is not known.
pub(super) fn is_starting(object: &DvpMachineObject, activated: Option<Timestamp>) -> bool {
    let starts = match object.spec.run_policy.parse() {
        Ok(RunPolicy::AlwaysOff | RunPolicy::Manual) => false,
        Ok(RunPolicy::AlwaysOn | RunPolicy::AlwaysOnUnlessStoppedManually) => true,
        // The default of the platform.
        Err(_) => object.spec.run_policy.is_empty(),
    };
    starts
        && !object.status.stats.phases_transitions.is_empty()
        && is_stopped_since_activation(object, activated)
}

fn is_stopped_since_activation(object: &DvpMachineObject, activated: Option<Timestamp>) -> bool {
    let Some(activated) = activated.filter(|_| object.status.phase == "Stopped") else { return false };
    let has_run_since = |transition: &PhaseTransition| {
        transition.phase != "Stopped" && transition.timestamp.is_some_and(|begun| begun > activated)
    };
    !object.status.stats.phases_transitions.iter().any(has_run_since)
}

/// Why a pool with this run policy can have no standby machines; `None` if it can.
pub(super) fn find_start_obstacle(template: &Value) -> Option<&'static str> {
    match template[RUN_POLICY].as_str()?.parse::<RunPolicy>().ok()? {
        RunPolicy::AlwaysOff | RunPolicy::Manual => {
            Some("the runPolicy of the template does not start a machine by itself")
        }
        RunPolicy::AlwaysOn | RunPolicy::AlwaysOnUnlessStoppedManually => None,
    }
}

#[cfg(test)]
mod tests;

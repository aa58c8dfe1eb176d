//! Standby machines of KubeVirt.
//!
//! KubeVirt copies the labels in `spec.template` of a machine to its instance and its Pods. A standby machine
//! has its own labels, which the selector of the pool selects, and lacks those in `spec.template`. No Service
//! and no PodDisruptionBudget therefore selects its Pods.

use serde_json::{Map, Value, json};
use vmpool_api::kubevirt::values::RunStrategy;
use vmpool_engine::standby::{ACTIVATED_AT, STANDBY, StandbyPhase};

use super::keys::REVISION_LABEL;

const STRATEGY: &str = "runStrategy";
const RUNNING: &str = "running";
/// The run strategy that keeps a machine off.
const OFF: &str = "Halted";

/// Makes the object of a new machine that of a standby machine.
pub(super) fn mark_standby(machine: &mut Value, phase: StandbyPhase) {
    machine["metadata"]["labels"][STANDBY] = phase.as_str().into();
    let spec = &mut machine["spec"];
    if let Some(labels) = spec.pointer_mut("/template/metadata/labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| key == REVISION_LABEL);
    }
    if phase == StandbyPhase::Stopped
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove(RUNNING);
        spec.insert(STRATEGY.to_owned(), OFF.into());
    }
}

pub(super) fn stop_standby(live: &Value) -> Value {
    let mut spec = json!({ STRATEGY: OFF });
    if !live["spec"][RUNNING].is_null() {
        spec[RUNNING] = Value::Null;
    }
    json!({ "metadata": { "labels": { STANDBY: StandbyPhase::Stopped.as_str() } }, "spec": spec })
}

/// The inner labels and the run strategy of an active machine with this template.
pub(super) fn activate(live: &Value, to: &Value, at: &str) -> Value {
    let inner = &to["spec"]["template"]["metadata"]["labels"];
    let labels: Map<String, Value> = inner.as_object().cloned().unwrap_or_default();
    let (set, other) =
        if to["spec"][STRATEGY].is_string() { (STRATEGY, RUNNING) } else { (RUNNING, STRATEGY) };
    let mut spec = json!({ set: to["spec"][set].clone(), "template": { "metadata": { "labels": labels } } });
    if !live["spec"][other].is_null() {
        spec[other] = Value::Null;
    }
    json!({
        "metadata": { "labels": { STANDBY: null }, "annotations": { ACTIVATED_AT: at } },
        "spec": spec,
    })
}

/// Why a pool with this template can have no standby machines; `None` if it can.
pub(super) fn find_start_obstacle(template: &Value) -> Option<&'static str> {
    let spec = &template["spec"];
    let strategy = RunStrategy::of(spec[STRATEGY].as_str(), spec[RUNNING].as_bool());
    match strategy {
        Some(RunStrategy::Always | RunStrategy::RerunOnFailure | RunStrategy::Once) => None,
        Some(RunStrategy::Halted | RunStrategy::Manual | RunStrategy::WaitAsReceiver) | None => {
            Some("the run strategy of the template does not start a machine by itself")
        }
    }
}

/// Whether the spec keeps the machine off.
pub(super) fn is_kept_off(strategy: Option<RunStrategy>) -> bool {
    strategy == Some(RunStrategy::Halted)
}

#[cfg(test)]
mod tests;

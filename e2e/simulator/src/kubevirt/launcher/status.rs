//! The status of a launcher Pod, which on a real node its kubelet writes.

use crate::{
    kubevirt::{
        model::{Guest, KubeVirtModel},
        objects::{
            InstancePhase, InstanceView, KubeVirtObjectId, KubeVirtObjectKind, LauncherView, PodCondition,
        },
    },
    objects::{NamespacedKey, format_seconds},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The content of a Pod's status.
#[derive(Debug, PartialEq, Eq)]
struct State {
    phase: &'static str,
    scheduled: bool,
    ready: bool,
    /// Why it is not ready.
    reason: Option<&'static str>,
    /// Why its container waits.
    waits: Option<String>,
}

impl KubeVirtModel {
    /// Writes the status of a Pod if it differs.
    pub(super) fn publish_pod(
        &mut self,
        key: &NamespacedKey,
        name: &NamespacedKey,
        instance: &InstanceView,
        guest: &Guest,
        pod: &LauncherView,
        now: Timestamp,
    ) {
        let knobs = self.knobs_of_instance(name, instance);
        let runs_in_cluster = knobs.is(|knobs| knobs.launcher_container.as_ref().map(|_| true));
        if pod.meta.deleting() || runs_in_cluster {
            return;
        }
        let Some(state) = self.pod_status(name, instance, guest) else { return };
        if !shows(pod, &state) {
            self.patch_status(
                &KubeVirtObjectId::new(KubeVirtObjectKind::Pod, key),
                &body(pod, &state, now),
                now,
            );
        }
    }

    /// The status that follows from a run; `None` if the Pod keeps what it has.
    fn pod_status(&self, name: &NamespacedKey, instance: &InstanceView, guest: &Guest) -> Option<State> {
        let knobs = self.knobs_of_instance(name, instance);
        let state = |phase, ready, reason| State { phase, scheduled: true, ready, reason, waits: None };
        Some(match guest.phase {
            InstancePhase::Scheduling if knobs.is(|knobs| knobs.unschedulable) => {
                State { scheduled: false, ..state("Pending", false, None) }
            }
            InstancePhase::Scheduling => {
                let waits = knobs.get(|knobs| knobs.image_pull_error.clone())?;
                State { waits: Some(waits), ..state("Pending", false, Some("ContainersNotReady")) }
            }
            InstancePhase::Succeeded => state("Succeeded", false, Some("PodCompleted")),
            InstancePhase::Failed => state("Failed", false, Some("PodFailed")),
            phase if phase.has_volumes_open() => {
                if knobs.is(|knobs| knobs.node_loss) {
                    state("Running", false, Some("NodeNotReady"))
                } else if knobs.is(|knobs| knobs.never_ready) {
                    state("Running", false, Some("ContainersNotReady"))
                } else {
                    state("Running", true, None)
                }
            }
            _ => return None,
        })
    }
}

/// Whether a Pod's status says that already.
fn shows(pod: &LauncherView, state: &State) -> bool {
    let ready = pod.condition("Ready");
    pod.phase == state.phase
        && ready.is_some_and(|ready| (ready.status == "True") == state.ready)
        && ready.and_then(|ready| ready.reason.as_deref()) == state.reason
        && pod.condition("PodScheduled").is_some_and(|found| (found.status == "True") == state.scheduled)
        && pod.waits == state.waits
}

fn body(pod: &LauncherView, state: &State, now: Timestamp) -> Value {
    let time = format_seconds(now);
    let next = |type_: &str, holds: bool, reason: Option<&str>| {
        let status = if holds { "True" } else { "False" };
        let known = pod.condition(type_).filter(|known| known.status == status);
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message: None,
            last_transition_time: known
                .map_or_else(|| Some(time.clone()), |known| known.last_transition_time.clone()),
        }
    };
    let unscheduled = (!state.scheduled).then_some("Unschedulable");
    let conditions = [
        next("PodScheduled", state.scheduled, unscheduled),
        next("Initialized", state.scheduled, None),
        next("ContainersReady", state.ready, state.reason),
        next("Ready", state.ready, state.reason),
    ];
    let container = match (&state.waits, state.phase) {
        (Some(reason), _) => json!({"waiting": {"reason": reason}}),
        (None, "Running") => json!({"running": {"startedAt": time}}),
        (None, "Succeeded" | "Failed") => {
            json!({"terminated": {"exitCode": i32::from(state.phase == "Failed"), "finishedAt": time}})
        }
        (None, _) => Value::Null,
    };
    let mut status = json!({"phase": state.phase, "conditions": conditions, "containerStatuses": null});
    if !container.is_null() {
        status["containerStatuses"] = json!([{
            "name": "compute",
            "image": "simulated",
            "imageID": "",
            "ready": state.ready,
            "started": state.phase == "Running",
            "restartCount": 0,
            "state": container,
        }]);
    }
    if state.phase == "Running" && pod.phase != "Running" {
        status["startTime"] = json!(time);
    }
    status
}

//! The status of an instance.

use super::{
    condition::new_condition,
    guest_size::{HOT_CPU, HOT_MEMORY},
    guest_state::is_of_knob,
    shown_guest::ShownGuest,
};
use crate::{
    kubevirt::{
        launcher::LauncherPodState,
        model::{Guest, KubeVirtModel},
        objects::{
            InstancePhase, InstancePhaseTransition, InstanceStatus, SimulatedKubeVirtCondition,
            find_condition,
        },
    },
    objects::format_seconds,
    shared::guest_address,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Conditions that the VMI controller owns. It keeps all others.
const OWNED: [&str; 5] = ["Ready", "PodScheduled", "Synchronized", HOT_CPU, HOT_MEMORY];

impl KubeVirtModel {
    /// The status that follows from a run.
    pub(super) fn instance_status(&self, shown: ShownGuest<'_>, now: Timestamp) -> InstanceStatus {
        let ShownGuest { instance, guest, .. } = shown;
        let observed = &instance.status;
        let is_owned =
            |known: &&SimulatedKubeVirtCondition| OWNED.contains(&&*known.type_) || is_of_knob(known);
        let mut conditions: Vec<_> =
            observed.conditions.iter().filter(|known| !is_owned(known)).cloned().collect();
        // A new instance gets its first phase before its conditions.
        if guest.phase != InstancePhase::Unset {
            let desired = [
                Some(self.ready_condition(guest, now)),
                self.scheduled_condition(shown, now),
                self.synchronized_condition(shown, now),
                self.paused_condition(shown, now),
            ];
            let hot_plugs = self.hot_plug_conditions(shown, now);
            for (place, next) in desired.into_iter().flatten().chain(hot_plugs).enumerate() {
                let known = find_condition(&observed.conditions, &next.type_);
                let same = known.filter(|known| known.status == next.status && known.reason == next.reason);
                conditions.insert(place, same.cloned().unwrap_or(next));
            }
        }
        let began = guest.phase >= InstancePhase::Scheduled;
        let pod = guest.pod.as_ref().and_then(|pod| self.pods.view(pod)).filter(|_| !guest.phase.is_final());
        InstanceStatus {
            phase: guest.phase,
            phase_transition_timestamps: transitions(observed, guest),
            conditions,
            node_name: if began { Some(guest.node.clone()) } else { observed.node_name.clone() },
            active_pods: match pod {
                Some(pod) => BTreeMap::from([(pod.meta.uid.to_string(), guest.node.clone())]),
                None => observed.active_pods.clone(),
            },
            interfaces: self.interfaces(shown),
            current_cpu_topology: guest.size.as_ref().map_or(Value::Null, |size| size.topology.clone()),
            memory: guest.size.as_ref().map_or(Value::Null, |size| size.memory.clone()),
            migration_state: self.migration_state(shown, now),
        }
    }

    /// A running guest has one address, on the network of its Pod.
    fn interfaces(&self, shown: ShownGuest<'_>) -> Vec<Value> {
        let ShownGuest { key, instance, .. } = shown;
        if !shown.runs() {
            return Vec::new();
        }
        let knob = self.knobs_of_instance(key, instance).get(|knobs| knobs.address.clone());
        let address = guest_address(knob, &instance.meta.uid);
        address
            .map(|address| json!({ "name": "default", "ipAddress": address, "ipAddresses": [address] }))
            .into_iter()
            .collect()
    }

    /// `Ready`: a copy of the Pod's condition while the guest runs, with no time of the last probe.
    fn ready_condition(&self, guest: &Guest, now: Timestamp) -> SimulatedKubeVirtCondition {
        let not_ready = |reason: &str, message: &str| SimulatedKubeVirtCondition {
            last_probe_time: Some(format_seconds(now)),
            last_heartbeat_time: None,
            ..new_condition("Ready", "False", reason, message.to_owned(), now)
        };
        let copy = |status: &str, reason: Option<String>, message, time| SimulatedKubeVirtCondition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            reason,
            message,
            last_probe_time: None,
            last_heartbeat_time: None,
            last_transition_time: time,
        };
        match self.pod_state(guest) {
            LauncherPodState::Terminating => not_ready("PodTerminating", "virt-launcher pod is terminating"),
            LauncherPodState::None | LauncherPodState::Requested | LauncherPodState::Gone => {
                not_ready("PodNotExists", "virt-launcher pod has not yet been scheduled")
            }
            LauncherPodState::Live if guest.phase != InstancePhase::Running => {
                not_ready("GuestNotRunning", "Guest VM is not reported as running")
            }
            LauncherPodState::Live if !self.settings.pods => {
                copy("True", None, None, Some(format_seconds(guest.since)))
            }
            LauncherPodState::Live => {
                let pod = guest.pod.as_ref().and_then(|pod| self.pods.view(pod));
                match pod.and_then(|pod| pod.condition("Ready")) {
                    Some(ready) => copy(
                        &ready.status,
                        ready.reason.clone(),
                        ready.message.clone(),
                        ready.last_transition_time.clone(),
                    ),
                    None => {
                        not_ready("PodConditionMissing", "virt-launcher pod is missing the Ready condition")
                    }
                }
            }
        }
    }

    /// `PodScheduled` exists only while no node takes the Pod.
    fn scheduled_condition(
        &self,
        shown: ShownGuest<'_>,
        now: Timestamp,
    ) -> Option<SimulatedKubeVirtCondition> {
        let ShownGuest { key, instance, guest } = shown;
        let held = guest.phase == InstancePhase::Scheduling
            && self.knobs_of_instance(key, instance).is(|knobs| knobs.unschedulable);
        let message = "0 nodes are available, as the knob unschedulable says";
        held.then(|| new_condition("PodScheduled", "False", "Unschedulable", message.to_owned(), now))
    }

    /// `Synchronized` exists only while a claim or the image of the launcher is missing.
    fn synchronized_condition(
        &self,
        shown: ShownGuest<'_>,
        now: Timestamp,
    ) -> Option<SimulatedKubeVirtCondition> {
        let ShownGuest { key, instance, guest } = shown;
        let failed = |reason: &str, message| new_condition("Synchronized", "False", reason, message, now);
        match guest.phase {
            InstancePhase::Pending if guest.pod.is_none() => {
                self.missing_volume(key, instance).map(|why| failed("FailedPvcNotFound", why))
            }
            InstancePhase::Scheduling => {
                let reason =
                    self.knobs_of_instance(key, instance).get(|knobs| knobs.image_pull_error.clone())?;
                Some(failed(&reason, "as the knob image-pull-error says".to_owned()))
            }
            _ => None,
        }
    }
}

/// The phases that the status shows already, then those that began since.
fn transitions(observed: &InstanceStatus, guest: &Guest) -> Vec<InstancePhaseTransition> {
    let mut all = observed.phase_transition_timestamps.clone();
    for (phase, at) in &guest.passed {
        if all.iter().all(|known| known.phase != *phase) {
            all.push(InstancePhaseTransition {
                phase: *phase,
                phase_transition_timestamp: format_seconds(*at),
            });
        }
    }
    all
}

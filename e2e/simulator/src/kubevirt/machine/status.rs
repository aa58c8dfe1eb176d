//! The status of a machine.

use super::{
    disks::MachineDiskState,
    facts::{MachineInstance, MachinePassFacts},
    run::{InstanceDecision, Rerun, backoff_over, decide_instance_action, is_done},
};
use crate::{
    knobs::Knobs,
    kubevirt::{
        json::merge_patch,
        model::KubeVirtModel,
        objects::{
            InstancePhase, InstanceView, KubeVirtMachineView, KubeVirtObjectId, KubeVirtObjectKind,
            SimulatedKubeVirtCondition, SimulatedKubeVirtMachineStatus, find_condition,
        },
        sizing::{self, StartBlocker},
    },
    objects::{NamespacedKey, format_seconds},
    shared::outbox::status_merge_patch,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Conditions that the VM controller owns. It keeps all others.
const OWNED: [&str; 2] = ["Ready", "RestartRequired"];
/// The condition of a machine that cannot be started. Other controllers may have other reasons.
const FAILURE: &str = "Failure";
const FAILED_CREATE: &str = "FailedCreate";

fn is_owned(known: &SimulatedKubeVirtCondition) -> bool {
    OWNED.contains(&&*known.type_) || known.type_ == FAILURE && known.reason.as_deref() == Some(FAILED_CREATE)
}

impl KubeVirtModel {
    /// Collects the facts of one pass over a machine.
    pub(super) fn decide(
        &mut self,
        key: &NamespacedKey,
        machine: Arc<KubeVirtMachineView>,
        instance: MachineInstance,
        disks: MachineDiskState,
        now: Timestamp,
    ) -> MachinePassFacts {
        let own = instance.own();
        let mut rerun = Rerun::Not;
        if let Some(slot) = self.machines.slot(key) {
            rerun = slot.memory.rerun.unwrap_or_else(|| Rerun::restore(&machine.status)).after(own);
            slot.memory.rerun = Some(rerun);
        }
        let knobs = self.knobs_of_machine(key, &machine);
        let live = knobs.get(|knobs| knobs.live_update).unwrap_or(true);
        let is_restored = knobs.get(|knobs| knobs.restore_in_progress.clone()).is_some();
        let always_outdated = knobs.is(|knobs| knobs.restart_required)
            && own.is_some_and(|own| own.status.phase == InstancePhase::Running && !own.meta.deleting());
        let decision = if machine.meta.deleting() {
            if own.is_some() { InstanceDecision::Stop } else { InstanceDecision::Keep }
        } else {
            let requests = &machine.status.state_change_requests;
            match decide_instance_action(machine.spec.run_strategy, own, requests, rerun) {
                InstanceDecision::Start if is_restored => InstanceDecision::Keep,
                decision => decision,
            }
        };
        let template = self.template(key, &machine);
        let restart_required = always_outdated
            || own
                .zip(template.as_ref().ok())
                .is_some_and(|(own, template)| needs_restart(&template.spec, own, live));
        let failure = self.start_failure(key, &machine, own, now);
        let backoff_over = backoff_over(failure.as_ref(), now);
        MachinePassFacts { machine, instance, disks, decision, template, restart_required, backoff_over }
    }

    /// Writes the status of a machine if it differs.
    pub(super) fn publish_machine(&mut self, key: &NamespacedKey, facts: &MachinePassFacts, now: Timestamp) {
        let id = KubeVirtObjectId::new(KubeVirtObjectKind::Machine, key);
        let desired = self.machine_status(key, facts, now);
        if let Some(at) = retry_at(&desired).filter(|at| *at > now) {
            self.agenda.wake(id.clone(), at);
        }
        let writes = self.knobs_of_machine(key, &facts.machine).get(|knobs| knobs.status_writes).unwrap_or(1);
        let Some(slot) = self.machines.slot(key) else { return };
        if slot.outbox.is_busy() {
            return;
        }
        if let Some(status) = status_merge_patch(&facts.machine.status, &desired) {
            slot.memory.status_writes_left = writes.saturating_sub(1);
            self.patch_status(&id, &status, now);
        } else if slot.memory.status_writes_left > 0 {
            slot.memory.status_writes_left -= 1;
            let left = slot.memory.status_writes_left;
            self.patch_status(
                &id,
                &json!({ "conditions": with_probe_time(desired.conditions, left, now) }),
                now,
            );
        }
    }

    fn machine_status(
        &mut self,
        key: &NamespacedKey,
        facts: &MachinePassFacts,
        now: Timestamp,
    ) -> SimulatedKubeVirtMachineStatus {
        let own = facts.instance.own();
        let observed = &facts.machine.status;
        let creation_failure = match facts.instance {
            MachineInstance::None => {
                self.creation_failure(&KubeVirtObjectId::new(KubeVirtObjectKind::Instance, key))
            }
            MachineInstance::Own(_) | MachineInstance::Foreign => None,
        };
        let start_failure = self.start_failure(key, &facts.machine, own, now);
        let mut requests = observed.state_change_requests.clone();
        if requests.first().is_some_and(|request| is_done(request, own)) {
            requests.remove(0);
        }
        let ready = ready_condition(find_condition(&observed.conditions, "Ready"), own, now);
        let mut conditions: Vec<_> =
            observed.conditions.iter().filter(|known| !is_owned(known)).cloned().collect();
        let is_ready = ready.status == "True";
        conditions.insert(0, ready);
        let mut add = |type_: &str, reason: &str, message: String| {
            conditions.push(lasting(
                find_condition(&observed.conditions, type_),
                type_,
                reason,
                message,
                now,
            ));
        };
        if facts.restart_required {
            add(
                "RestartRequired",
                "RestartRequired",
                "a non-live-updatable field was changed in the template spec".to_owned(),
            );
        }
        let foreign = matches!(facts.instance, MachineInstance::Foreign)
            .then(|| format!("VirtualMachineInstance {} has a different controller", key.name));
        let conflict = match &facts.template {
            Err(StartBlocker::Conflict(message)) => Some(message.clone()),
            Ok(_) | Err(StartBlocker::NoCopy) => None,
        };
        if let Some(why) = facts.disks.conflict.clone().or(foreign).or(conflict).or(creation_failure) {
            add(FAILURE, FAILED_CREATE, why);
        }
        let knobs = self.knobs_of_machine(key, &facts.machine);
        let knob = |knob: fn(&Knobs) -> Option<String>| knobs.get(knob);
        SimulatedKubeVirtMachineStatus {
            created: own.is_some(),
            ready: is_ready,
            printable_status: Some(printable_status(facts, start_failure.is_some()).to_owned()),
            observed_generation: Some(facts.machine.meta.generation),
            conditions,
            instancetype_ref: observed.instancetype_ref.clone(),
            preference_ref: observed.preference_ref.clone(),
            start_failure,
            state_change_requests: requests,
            snapshot_in_progress: knob(|knobs| knobs.snapshot_in_progress.clone()),
            restore_in_progress: knob(|knobs| knobs.restore_in_progress.clone()),
        }
    }
}

/// Conditions that say nothing new: only the time of the last probe of the first one differs, by a second for
/// each write that is left.
fn with_probe_time(
    mut conditions: Vec<SimulatedKubeVirtCondition>,
    left: u64,
    now: Timestamp,
) -> Vec<SimulatedKubeVirtCondition> {
    let probe = now.checked_sub(Duration::from_secs(left)).unwrap_or(now);
    if let Some(first) = conditions.first_mut() {
        first.last_probe_time = Some(format_seconds(probe));
    }
    conditions
}

fn retry_at(status: &SimulatedKubeVirtMachineStatus) -> Option<Timestamp> {
    status.start_failure.as_ref()?.retry_after_timestamp.as_deref()?.parse().ok()
}

/// A condition that is `True` while it exists.
fn lasting(
    known: Option<&SimulatedKubeVirtCondition>,
    type_: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> SimulatedKubeVirtCondition {
    let since = known.filter(|known| known.says("True", reason));
    SimulatedKubeVirtCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_probe_time: None,
        last_heartbeat_time: None,
        last_transition_time: since
            .map_or_else(|| Some(format_seconds(now)), |known| known.last_transition_time.clone()),
    }
}

/// The condition `Ready`, copied from the instance. It is replaced only if its status or reason changes.
fn ready_condition(
    known: Option<&SimulatedKubeVirtCondition>,
    instance: Option<&InstanceView>,
    now: Timestamp,
) -> SimulatedKubeVirtCondition {
    let own = |reason: &str, message: &str| SimulatedKubeVirtCondition {
        type_: "Ready".to_owned(),
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(format_seconds(now)),
        last_heartbeat_time: None,
        last_transition_time: Some(format_seconds(now)),
    };
    let desired = match instance.map(|instance| find_condition(&instance.status.conditions, "Ready")) {
        None => own("VMINotExists", "VMI does not exist"),
        Some(None) => own("VMIConditionMissing", "VMI is missing the Ready condition"),
        Some(Some(ready)) => ready.clone(),
    };
    match known {
        Some(known) if known.status == desired.status && known.reason == desired.reason => known.clone(),
        _ => desired,
    }
}

/// Whether the running instance differs from the machine's template in a field that only a restart changes.
fn needs_restart(template: &Value, instance: &InstanceView, live: bool) -> bool {
    if instance.status.phase.is_final() || instance.meta.deleting() {
        return false;
    }
    let (mut template, mut running) =
        (comparable_template(template, &instance.spec), (*instance.spec).clone());
    if live {
        remove_live_updatable(&mut template);
        remove_live_updatable(&mut running);
    }
    merge_patch(&running, &template).is_some()
}

/// The template with general defaults, if the running instance has them: a machine that named an instance
/// type when it started may contain its size now.
pub(super) fn comparable_template(template: &Value, running: &Value) -> Value {
    let with_defaults = |spec: &Value| {
        let mut spec = spec.clone();
        sizing::fill_instance_defaults(&mut spec);
        spec
    };
    if with_defaults(running) == *running { with_defaults(template) } else { template.clone() }
}

/// Removes the fields that KubeVirt changes without a restart.
fn remove_live_updatable(spec: &mut Value) {
    for path in [
        &["domain", "cpu", "sockets"][..],
        &["domain", "memory", "guest"],
        &["nodeSelector"],
        &["affinity"],
        &["tolerations"],
    ] {
        let (Some(last), parents) = (path.last(), &path[..path.len() - 1]) else { continue };
        let parent = parents.iter().try_fold(&mut *spec, |value, name| value.get_mut(*name));
        if let Some(fields) = parent.and_then(Value::as_object_mut) {
            fields.remove(*last);
        }
    }
    // A section that consisted of such fields alone equals one that is absent.
    for section in ["cpu", "memory"] {
        if let Some(domain) = spec.get_mut("domain").and_then(Value::as_object_mut)
            && domain.get(section).is_some_and(|value| *value == json!({}))
        {
            domain.remove(section);
        }
    }
}

/// The state in one word: the first that applies.
pub(super) fn printable_status(facts: &MachinePassFacts, start_failed: bool) -> &'static str {
    let own = facts.instance.own();
    let active = own.filter(|own| !own.status.phase.is_final());
    let phase = active.map(|active| active.status.phase);
    let says = |type_: &str, status: &str, reason: &str| {
        let found = active.and_then(|active| find_condition(&active.status.conditions, type_));
        found.is_some_and(|found| found.says(status, reason))
    };
    let paused = active.is_some_and(|active| {
        find_condition(&active.status.conditions, "Paused").is_some_and(|paused| paused.status == "True")
    });
    let stops =
        active.is_some_and(|active| active.meta.deleting()) || facts.decision == InstanceDecision::Stop;
    let early =
        phase.is_some_and(|phase| phase != InstancePhase::WaitingForSync && phase < InstancePhase::Running);
    let table = [
        (facts.machine.meta.deleting(), "Terminating"),
        (active.is_some() && stops, "Stopping"),
        (active.is_some_and(|active| active.status.migrates()), "Migrating"),
        (paused, "Paused"),
        (phase == Some(InstancePhase::Running), "Running"),
        (says("Synchronized", "False", "FailedPvcNotFound"), "ErrorPvcNotFound"),
        (facts.disks.failed, "DataVolumeError"),
        (says("PodScheduled", "False", "Unschedulable"), "ErrorUnschedulable"),
        (facts.disks.provisioning, "Provisioning"),
        (facts.disks.binding && facts.is_to_run(), "WaitingForVolumeBinding"),
        (says("Synchronized", "False", "ErrImagePull"), "ErrImagePull"),
        (says("Synchronized", "False", "ImagePullBackOff"), "ImagePullBackOff"),
        (early, "Starting"),
        (active.is_none() && start_failed, "CrashLoopBackOff"),
        (active.is_none(), "Stopped"),
        (phase == Some(InstancePhase::WaitingForSync), "WaitingForReceiver"),
    ];
    table.into_iter().find(|(applies, _)| *applies).map_or("Unknown", |(_, word)| word)
}

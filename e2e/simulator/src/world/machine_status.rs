//! The object of a machine: its finalizer and its status.

use super::{
    devices::Assessment,
    events::{BRIEF, DvpModelAction, DvpWrite},
    model::{DvpModel, Plug, Power, SimulatedMachine},
    pod::MachinePodState,
};
use crate::{
    objects::{
        BUMPED, DeviceKind, DeviceStatus, DvpObjectId, DvpObjectKind, MachinePhase, NamespacedKey, PodEntry,
        SimulatedDvpCondition, SimulatedDvpMachineStatus, VM_CLEANUP, unknown_size,
    },
    shared::{
        guest_address,
        outbox::{Permit, locked_metadata, locked_status, status_merge_patch},
    },
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::time::Duration;

impl DvpModel {
    /// Writes the differences between model and object, one write at a time; `due` is the time of the next
    /// transition.
    pub(super) fn publish_machine(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        due: Option<Timestamp>,
        now: Timestamp,
    ) {
        let id = DvpObjectId::new(DvpObjectKind::Machine, key.clone());
        let bump = self.bump_is_due(&id, machine, now);
        match machine.outbox.permit(now) {
            Permit::Open => {}
            Permit::Busy => return,
            Permit::Until(at) => return self.agenda.wake(id, at),
        }
        if let Some(metadata) = self.machine_metadata(machine, bump) {
            if machine.outbox.admit(&json!(metadata), machine.view.meta.version) {
                let patch = locked_metadata(&machine.view.meta, metadata);
                self.actions.push(DvpModelAction::Write(id, DvpWrite::Patch(patch)));
            }
            return;
        }
        if self.is_finished(machine) || self.is_about_to_change(machine, due, now) {
            return;
        }
        let desired = self.machine_status(key, machine, now);
        if let Some(status) = status_merge_patch(&machine.view.status, &desired)
            && machine.outbox.admit(&status, machine.view.meta.version)
        {
            let patch = locked_status(&machine.view.meta, &status);
            self.actions.push(DvpModelAction::Write(id, DvpWrite::PatchStatus(patch)));
        }
    }

    /// Whether the object of a deleted machine can be removed: it is off, and its Pods are deleted.
    fn is_finished(&self, machine: &SimulatedMachine) -> bool {
        machine.view.meta.deleting && machine.power.is_off() && !self.has_live_pods(&machine.view.meta.uid)
    }

    fn machine_metadata(&self, machine: &mut SimulatedMachine, bump: bool) -> Option<Map<String, Value>> {
        let meta = &machine.view.meta;
        let has = meta.has_finalizer(VM_CLEANUP);
        let skips = self.knobs_of(machine).is(|k| k.skip_finalizers);
        let wants = if meta.deleting { has && !skips && !self.is_finished(machine) } else { !skips };
        let mut metadata = Map::new();
        if wants != has {
            let mut finalizers = meta.finalizers.clone();
            if wants {
                finalizers.push(VM_CLEANUP.to_owned());
            } else {
                finalizers.retain(|finalizer| finalizer != VM_CLEANUP);
            }
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        if bump {
            metadata.insert("annotations".to_owned(), json!({BUMPED: (machine.view.bumped + 1).to_string()}));
        }
        (!metadata.is_empty()).then_some(metadata)
    }

    /// Whether the knob `bump-annotations` requires a change now.
    fn bump_is_due(&mut self, id: &DvpObjectId, machine: &mut SimulatedMachine, now: Timestamp) -> bool {
        let rate = self.knobs_of(machine).get(|k| k.bump_annotations);
        let Some(rate) = rate.filter(|_| !machine.view.meta.deleting) else {
            machine.next_bump = None;
            return false;
        };
        let period = Duration::from_secs_f64(1.0 / rate);
        let due = machine.next_bump.is_some_and(|at| at <= now) && machine.outbox.permit(now) == Permit::Open;
        let next = if due { now + period } else { machine.next_bump.unwrap_or(now + period) };
        machine.next_bump = Some(next);
        if next > now {
            self.agenda.wake(id.clone(), next);
        }
        due
    }

    /// Whether the next transition follows so soon that the current state need not be written.
    fn is_about_to_change(&self, machine: &SimulatedMachine, due: Option<Timestamp>, now: Timestamp) -> bool {
        let soon = due.is_some_and(|at| at <= now + BRIEF);
        match &machine.power {
            _ if machine.view.meta.deleting => false,
            Power::Off => machine.evaluated.is_none() && soon,
            Power::Booting { boot, live_since: None } => {
                self.pod_state(boot) == MachinePodState::Requested && self.pod_failure(boot).is_none()
            }
            Power::Booting { live_since: Some(_), .. } => soon,
            _ => false,
        }
    }

    fn machine_status(
        &self,
        key: &NamespacedKey,
        machine: &SimulatedMachine,
        now: Timestamp,
    ) -> SimulatedDvpMachineStatus {
        let observed = &machine.view.status;
        let phase = self.machine_phase(machine, now);
        let Some((generation, _)) = &machine.evaluated else {
            // Only the existence of the machine is known; the status of an earlier run is not changed.
            return SimulatedDvpMachineStatus {
                phase: Some(observed.phase.unwrap_or(phase)),
                ..observed.clone()
            };
        };
        let changes = Self::pending_changes(machine);
        let say = |type_: &str, state| {
            SimulatedDvpCondition::next(&observed.conditions, type_, state, *generation, now)
        };
        let mut conditions = vec![
            say("BlockDevicesReady", devices_condition(&self.assess(key, machine))),
            say("Running", self.running_condition(machine, phase)),
        ];
        if !changes.is_empty() {
            let waiting = format!("{} changes take effect with a restart", changes.len());
            conditions.push(say(
                "AwaitingRestartToApplyConfiguration",
                (true, "ChangesPendingRestart", waiting.clone()),
            ));
            conditions.push(say("ConfigurationApplied", (false, "ConfigurationNotApplied", waiting)));
        }
        let active = machine.power.boot().and_then(|boot| boot.pod.as_ref()).map(|pod| pod.name.clone());
        SimulatedDvpMachineStatus {
            phase: Some(phase),
            observed_generation: Some(*generation),
            conditions,
            block_device_refs: self.device_statuses(key, machine),
            restart_awaiting_changes: changes,
            node_name: machine.power.boot().map(|boot| boot.node.clone()),
            ip_address: self.address_of(machine),
            virtual_machine_pods: machine
                .power
                .boots()
                .filter_map(|boot| boot.pod.as_ref())
                .filter(|pod| self.pods.get(*pod).is_some_and(|pod| pod.view.is_some()))
                .map(|pod| PodEntry {
                    name: pod.name.to_string(),
                    active: Some(&pod.name) == active.as_ref(),
                })
                .collect(),
        }
    }

    /// A running guest has an address.
    fn address_of(&self, machine: &SimulatedMachine) -> Option<String> {
        match machine.power {
            Power::On { .. } | Power::Migrating { .. } => {
                guest_address(self.knobs_of(machine).get(|k| k.address.clone()), &machine.view.meta.uid)
            }
            Power::Off | Power::Booting { .. } | Power::Crashed { .. } | Power::Stopping { .. } => None,
        }
    }

    fn machine_phase(&self, machine: &SimulatedMachine, now: Timestamp) -> MachinePhase {
        if machine.view.meta.deleting {
            return MachinePhase::Terminating;
        }
        match &machine.power {
            Power::Off if machine.wants_to_run() || machine.evaluated.is_none() => MachinePhase::Pending,
            Power::Off => MachinePhase::Stopped,
            Power::Booting { live_since: None, .. } => MachinePhase::Pending,
            Power::Booting { live_since: Some(_), .. } => MachinePhase::Starting,
            Power::On { since, .. } if self.flapped(machine, *since, now) => MachinePhase::Degraded,
            Power::On { .. } => MachinePhase::Running,
            Power::Migrating { .. } => MachinePhase::Migrating,
            Power::Crashed { .. } => MachinePhase::Degraded,
            Power::Stopping { .. } => MachinePhase::Stopping,
        }
    }

    /// Whether the machine is in the alternative phase of the knob `flap-phase`.
    fn flapped(&self, machine: &SimulatedMachine, since: Timestamp, now: Timestamp) -> bool {
        let Some(rate) = self.knobs_of(machine).get(|k| k.flap_phase) else { return false };
        let changes = now.duration_since(since).as_secs_f64() * rate;
        // Shifted by half a period, because the timers fire at its boundaries.
        (changes + 1e-6).rem_euclid(2.0) >= 1.0
    }

    /// When the knob `flap-phase` next changes a machine's phase.
    pub(super) fn next_flap(&self, machine: &SimulatedMachine, now: Timestamp) -> Option<Timestamp> {
        let Power::On { since, .. } = &machine.power else { return None };
        let rate = self.knobs_of(machine).get(|k| k.flap_phase)?;
        let changes = (now.duration_since(*since).as_secs_f64() * rate + 1e-6).floor() + 1.0;
        let at = since.checked_add(Duration::from_secs_f64(changes / rate)).ok()?;
        Some(at.max(now + Duration::from_millis(1)))
    }

    fn running_condition(
        &self,
        machine: &SimulatedMachine,
        phase: MachinePhase,
    ) -> (bool, &'static str, String) {
        let failure = machine.power.boot().and_then(|boot| self.pod_failure(boot));
        match phase {
            MachinePhase::Running => (true, "Running", String::new()),
            MachinePhase::Migrating => (true, "Migrating", String::new()),
            _ if failure.is_some() => {
                (false, "PodNotCreated", failure.map(str::to_owned).unwrap_or_default())
            }
            MachinePhase::Starting => (false, "Starting", "the guest boots".to_owned()),
            MachinePhase::Stopping | MachinePhase::Terminating => {
                (false, "Stopping", "the guest shuts down".to_owned())
            }
            MachinePhase::Stopped | MachinePhase::Pause => {
                (false, "Stopped", "the machine is off".to_owned())
            }
            MachinePhase::Degraded => (false, "Crashed", "the guest crashed".to_owned()),
            MachinePhase::Pending => (false, "Pending", "the machine waits for its devices".to_owned()),
        }
    }

    fn device_statuses(&self, key: &NamespacedKey, machine: &SimulatedMachine) -> Vec<DeviceStatus> {
        let devices = machine.devices.iter().zip('a'..='z');
        devices
            .map(|(device, letter)| DeviceStatus {
                kind: device.reference.kind,
                name: device.reference.name.clone(),
                size: self
                    .device_size(key, device.reference.kind, &device.reference.name)
                    .unwrap_or_else(unknown_size),
                attached: device.is_attached(),
                target: device.is_attached().then(|| format!("sd{letter}")),
                hotplugged: matches!(device.plug, Plug::Hot).then_some(true),
                boot_order: device.reference.boot_order,
                virtual_machine_block_device_attachment_name: device.attachment.clone(),
            })
            .collect()
    }

    fn device_size(&self, machine: &NamespacedKey, kind: DeviceKind, name: &str) -> Option<String> {
        match kind {
            DeviceKind::VirtualDisk => self.disks.get(&machine.sibling(name))?.capacity.clone(),
            DeviceKind::VirtualImage => {
                self.image(DvpObjectKind::Image, &machine.namespace, name)?.size.clone()
            }
            DeviceKind::ClusterVirtualImage => {
                self.image(DvpObjectKind::ClusterImage, "", name)?.size.clone()
            }
        }
    }
}

fn devices_condition(assessment: &Assessment) -> (bool, &'static str, String) {
    match assessment {
        Assessment::Ready => (true, "BlockDevicesReady", String::new()),
        Assessment::WaitsForFirstConsumer(why) => {
            (false, "WaitingForWaitForFirstConsumerBlockDevicesToBeReady", why.clone())
        }
        Assessment::NotReady(why) => (false, "BlockDevicesNotReady", why.clone()),
        Assessment::TooMany(count) => {
            (false, "BlockDeviceLimitExceeded", format!("{count} block devices are more than 16"))
        }
    }
}

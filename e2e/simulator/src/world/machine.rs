//! A machine in the model: its state, its creation and deletion, and the evaluation of its spec.

use super::{
    events::DvpObservationSource,
    model::{Boot, Device, DvpModel, ManualState, Power, SimulatedMachine},
};
use crate::{
    knobs::Effective,
    objects::{
        DeviceStatus, DvpMachineView, DvpObjectId, DvpObjectKind, MachinePhase, NamespacedKey,
        SimulatedDvpMachineSpec,
    },
    shared::delay_end,
};
use jiff::Timestamp;
use std::sync::Arc;

impl DvpModel {
    pub(super) fn see_machine(
        &mut self,
        key: &NamespacedKey,
        mut view: DvpMachineView,
        novelty: DvpObservationSource,
        now: Timestamp,
    ) {
        let same_object = self.machines.get(key).is_some_and(|known| known.view.meta.uid != view.meta.uid);
        if same_object && novelty == DvpObservationSource::Any {
            self.lose_machine(key);
        }
        match self.machines.get_mut(key) {
            Some(known) if known.view.meta.uid == view.meta.uid => {
                if view.meta.version <= known.view.meta.version {
                    return;
                }
                if view.meta.generation != known.view.meta.generation {
                    known.changed_at = now;
                }
                if *view.spec == *known.view.spec {
                    view.spec = known.view.spec.clone();
                }
                let copied = view.labels != known.view.labels || view.annotations != known.view.annotations;
                known.view = view;
                known.outbox.touched = now;
                if copied {
                    self.mark_pods_of(key);
                }
            }
            Some(_) => return,
            None if novelty == DvpObservationSource::KnownOnly => return,
            None => {
                self.machines.insert(key.clone(), SimulatedMachine::new(view, now));
                self.mark_dependents_of_machine(key);
            }
        }
        self.mark(DvpObjectKind::Machine, key);
    }

    /// The object is deleted. Its disks remain in use while its Pods run.
    pub(super) fn lose_machine(&mut self, key: &NamespacedKey) {
        let Some(mut machine) = self.machines.remove(key) else { return };
        self.release(key, &mut machine);
        let uid = machine.view.meta.uid.clone();
        let vanishes =
            self.knobs_for(&key.namespace, machine.view.knobs.as_deref()).is(|k| k.skip_finalizers);
        if vanishes || !self.has_live_pods(&uid) {
            self.unmount(&uid, &machine.mounted);
        } else {
            self.orphaned_mounts.insert(uid.clone(), machine.mounted);
        }
        for pod in self.pods_of.get(&uid).cloned().unwrap_or_default() {
            self.mark(DvpObjectKind::Pod, &pod);
        }
        self.mark_dependents_of_machine(key);
    }

    /// Enqueues the operations and attachments of a machine.
    pub(super) fn mark_dependents_of_machine(&mut self, key: &NamespacedKey) {
        for attachment in self.attachments_of.get(key).into_iter().flatten() {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Attachment, attachment.clone()));
        }
        for operation in self.operations_of.get(key).into_iter().flatten() {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Operation, operation.clone()));
        }
    }

    pub(super) fn mark_pods_of(&mut self, key: &NamespacedKey) {
        let Some(machine) = self.machines.get(key) else { return };
        for pod in self.pods_of.get(&machine.view.meta.uid).into_iter().flatten() {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Pod, pod.clone()));
        }
    }

    /// Performs all transitions of one machine that are due, and writes the differences.
    pub(super) fn plan_machine(&mut self, key: &NamespacedKey, now: Timestamp) {
        let Some(mut machine) = self.machines.remove(key) else { return };
        if !machine.restored {
            self.restore_machine(key, &mut machine, now);
        }
        let evaluation = self.evaluate(key, &mut machine, now);
        let moved = self.advance(key, &mut machine, now);
        let due = [evaluation, moved].into_iter().flatten().min();
        if let Some(at) = [due, self.next_flap(&machine, now)].into_iter().flatten().min() {
            self.agenda.wake(DvpObjectId::new(DvpObjectKind::Machine, key.clone()), at);
        }
        self.publish_machine(key, &mut machine, due, now);
        self.machines.insert(key.clone(), machine);
    }

    /// Restores the state of an earlier run of the simulator from the object.
    fn restore_machine(&self, key: &NamespacedKey, machine: &mut SimulatedMachine, now: Timestamp) {
        machine.restored = true;
        let Some(phase) = machine.view.status.phase else { return };
        let spec = machine.view.spec.clone();
        if machine.view.status.observed_generation == Some(machine.view.meta.generation) {
            machine.evaluated = Some((machine.view.meta.generation, spec.clone()));
        }
        machine.devices = machine.view.status.block_device_refs.iter().map(Device::from_status).collect();
        let boot = self.surviving_boot(machine, spec);
        (machine.manual_state, machine.power) = match (phase, boot) {
            (MachinePhase::Stopped, _) => (ManualState::Stopped, Power::Off),
            (MachinePhase::Pending, None) => (ManualState::Untouched, Power::Off),
            (MachinePhase::Stopping | MachinePhase::Terminating, _) => {
                (ManualState::Started, Power::Stopping { since: now })
            }
            (_, None) => (ManualState::Started, Power::Off),
            (MachinePhase::Pending | MachinePhase::Starting, Some(boot)) => {
                (ManualState::Started, Power::Booting { boot, live_since: None })
            }
            (MachinePhase::Degraded, Some(boot)) => (ManualState::Started, Power::Crashed { boot }),
            (MachinePhase::Running | MachinePhase::Migrating | MachinePhase::Pause, Some(boot)) => {
                (ManualState::Started, Power::On { boot, since: now })
            }
        };
        if !machine.power.is_off() {
            let attached = |device: &&DeviceStatus| device.attached;
            let disks = machine.view.status.block_device_refs.iter().filter(attached);
            machine.mounted = disks.filter_map(|device| Device::from_status(device).disk(key)).collect();
        }
    }

    /// The run of a machine according to its status and Pods.
    fn surviving_boot(&self, machine: &SimulatedMachine, spec: Arc<SimulatedDvpMachineSpec>) -> Option<Boot> {
        let status = &machine.view.status;
        if !self.settings.pods {
            let node = status.node_name.clone()?;
            return Some(Boot { pod: None, node, spec });
        }
        let pods = self.pods_of.get(&machine.view.meta.uid)?;
        let (pod, node) = pods.iter().find_map(|key| {
            let view = self.pods.get(key)?.view.as_ref().filter(|view| !view.meta.deleting)?;
            Some((key.clone(), view.node.clone().unwrap_or_default()))
        })?;
        Some(Boot { pod: Some(pod), node, spec })
    }

    /// Evaluates a new generation after the delay. Returns when the delay ends.
    fn evaluate(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let generation = machine.view.meta.generation;
        if machine.view.meta.deleting
            || machine.evaluated.as_ref().is_some_and(|(seen, _)| *seen == generation)
        {
            return None;
        }
        let knobs = self.knobs_of(machine);
        let delay = knobs.get(|k| k.evaluation_delay).unwrap_or(self.settings.evaluation_delay);
        let at = delay_end(machine.changed_at, delay)?;
        if at > now {
            return Some(at);
        }
        machine.evaluated = Some((generation, machine.view.spec.clone()));
        self.mark_dependents_of_machine(key);
        None
    }

    pub(super) fn knobs_of<'a>(&'a self, machine: &'a SimulatedMachine) -> Effective<'a> {
        self.knobs_for(&machine.view.namespace, machine.view.knobs.as_deref())
    }
}

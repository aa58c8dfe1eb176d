//! A machine in the model: what is known of it, how it comes and goes, and how its spec is evaluated.

use super::{Novelty, World, devices::Device, ends, outbox::Outbox};
use crate::{
    duration::Delay,
    knobs::Effective,
    objects::{DeviceStatus, Id, Key, Kind, MachinePhase, MachineSpec, MachineView, RunPolicy},
};
use jiff::Timestamp;
use std::sync::Arc;

/// A machine in the model.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) view: MachineView,
    pub(super) outbox: Outbox,
    /// When the present generation was first seen.
    pub(super) changed_at: Timestamp,
    /// The generation and spec that were evaluated last.
    pub(super) evaluated: Option<(i64, Arc<MachineSpec>)>,
    pub(super) power: Power,
    /// What somebody, or the guest, did by hand.
    pub(super) manual_state: ManualState,
    pub(super) devices: Vec<Device>,
    /// Disks that it is registered with as a user.
    pub(super) listed: Vec<Key>,
    /// Disks that its guest has open.
    pub(super) mounted: Vec<Key>,
    /// Requests of operations that wait to be taken up.
    pub(super) requests: Requests,
    /// How often it was started, and moved, since the simulator knows it.
    pub(super) boots: u32,
    pub(super) migrations: u32,
    /// The value of the knob `shutdown` that was obeyed already.
    pub(super) shutdown_applied: Option<Delay>,
    pub(super) next_bump: Option<Timestamp>,
    /// Whether its state was taken over from what its object said when first seen.
    taken_over: bool,
}

/// What operations asked for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) restart: bool,
    pub(super) migrate: bool,
    /// Do not wait for the guest.
    pub(super) force: bool,
}

/// What was done by hand to a machine, as far as its run policy cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManualState {
    Untouched,
    Started,
    Stopped,
}

/// One run of a machine.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    /// Its pod, unless the simulator makes none.
    pub(super) pod: Option<Key>,
    pub(super) node: String,
    /// What it was started with.
    pub(super) spec: Arc<MachineSpec>,
}

/// What the hypervisor does with a machine.
#[derive(Clone, Debug)]
pub(super) enum Power {
    Off,
    /// Waits for its pod, then (with a time) for its guest.
    Booting {
        boot: Boot,
        live_since: Option<Timestamp>,
    },
    On {
        boot: Boot,
        since: Timestamp,
    },
    /// Waits for the pod on the other node, then (with a time) for the copy.
    Migrating {
        boot: Boot,
        target: Boot,
        live_since: Option<Timestamp>,
    },
    Crashed {
        boot: Boot,
    },
    Stopping {
        since: Timestamp,
    },
}

impl Power {
    /// Every pod that should exist.
    pub(super) fn boots(&self) -> impl Iterator<Item = &Boot> {
        let (first, second) = match self {
            Self::Booting { boot, .. } | Self::On { boot, .. } | Self::Crashed { boot } => (Some(boot), None),
            Self::Migrating { boot, target, .. } => (Some(boot), Some(target)),
            Self::Off | Self::Stopping { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The run that the guest is in.
    pub(super) fn boot(&self) -> Option<&Boot> {
        self.boots().next()
    }

    pub(super) fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }
}

impl Machine {
    fn new(view: MachineView, now: Timestamp) -> Self {
        Self {
            view,
            outbox: Outbox::new(now),
            changed_at: now,
            evaluated: None,
            power: Power::Off,
            manual_state: ManualState::Untouched,
            devices: Vec::new(),
            listed: Vec::new(),
            mounted: Vec::new(),
            requests: Requests::default(),
            boots: 0,
            migrations: 0,
            shutdown_applied: None,
            next_bump: None,
            taken_over: false,
        }
    }

    /// Who is served first when the simulator starts: what runs, then by age.
    pub(super) fn seniority(&self) -> (bool, i64) {
        let runs = self.view.status.block_device_refs.iter().any(|device| device.attached);
        (!runs, self.view.meta.created)
    }

    /// Whether it should run.
    pub(super) fn wants_to_run(&self) -> bool {
        if self.view.meta.deleting {
            return false;
        }
        match self.spec().run_policy {
            RunPolicy::AlwaysOn => true,
            RunPolicy::AlwaysOff => false,
            RunPolicy::Manual => self.manual_state == ManualState::Started,
            RunPolicy::AlwaysOnUnlessStoppedManually => self.manual_state != ManualState::Stopped,
        }
    }

    /// The spec that counts: the one evaluated last. A new machine's first spec counts for its claim on disks
    /// before it was evaluated, so that a disk made together with its machine gets all its finalizers at once.
    pub(super) fn spec(&self) -> &Arc<MachineSpec> {
        self.evaluated.as_ref().map_or(&self.view.spec, |(_, spec)| spec)
    }

    /// Whether it keeps others from its disks.
    pub(super) fn holds_disks(&self) -> bool {
        !self.power.is_off() || self.wants_to_run()
    }
}

impl World {
    pub(super) fn see_machine(&mut self, key: &Key, mut view: MachineView, novelty: Novelty, now: Timestamp) {
        let twin = self.machines.get(key).is_some_and(|known| known.view.meta.uid != view.meta.uid);
        if twin && novelty == Novelty::Any {
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
            None if novelty == Novelty::KnownOnly => return,
            None => {
                self.machines.insert(key.clone(), Machine::new(view, now));
                self.mark_dependents_of_machine(key);
            }
        }
        self.mark(Kind::Machine, key);
    }

    /// The object is gone. What its guest has open stays open as long as its pods run.
    pub(super) fn lose_machine(&mut self, key: &Key) {
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
            self.mark(Kind::Pod, &pod);
        }
        self.mark_dependents_of_machine(key);
    }

    /// Operations and attachments that name a machine.
    pub(super) fn mark_dependents_of_machine(&mut self, key: &Key) {
        for attachment in self.attachments_of.get(key).into_iter().flatten() {
            self.agenda.mark(Id::new(Kind::Attachment, attachment.clone()));
        }
        for operation in self.operations_of.get(key).into_iter().flatten() {
            self.agenda.mark(Id::new(Kind::Operation, operation.clone()));
        }
    }

    pub(super) fn mark_pods_of(&mut self, key: &Key) {
        let Some(machine) = self.machines.get(key) else { return };
        for pod in self.pods_of.get(&machine.view.meta.uid).into_iter().flatten() {
            self.agenda.mark(Id::new(Kind::Pod, pod.clone()));
        }
    }

    /// Advances one machine as far as it goes now and publishes what differs.
    pub(super) fn plan_machine(&mut self, key: &Key, now: Timestamp) {
        let Some(mut machine) = self.machines.remove(key) else { return };
        if !machine.taken_over {
            self.take_over_machine(key, &mut machine, now);
        }
        let evaluation = self.evaluate(key, &mut machine, now);
        let moved = self.advance(key, &mut machine, now);
        let due = [evaluation, moved].into_iter().flatten().min();
        if let Some(at) = [due, self.next_flap(&machine, now)].into_iter().flatten().min() {
            self.agenda.wake(Id::new(Kind::Machine, key.clone()), at);
        }
        self.publish_machine(key, &mut machine, due, now);
        self.machines.insert(key.clone(), machine);
    }

    /// Continues what an earlier run of the simulator began, as far as the object tells.
    fn take_over_machine(&self, key: &Key, machine: &mut Machine, now: Timestamp) {
        machine.taken_over = true;
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

    /// The run that a machine is in according to its status and pods.
    fn surviving_boot(&self, machine: &Machine, spec: Arc<MachineSpec>) -> Option<Boot> {
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

    /// Evaluates a new generation once it is old enough; says when that will be.
    fn evaluate(&mut self, key: &Key, machine: &mut Machine, now: Timestamp) -> Option<Timestamp> {
        let generation = machine.view.meta.generation;
        if machine.view.meta.deleting
            || machine.evaluated.as_ref().is_some_and(|(seen, _)| *seen == generation)
        {
            return None;
        }
        let knobs = self.knobs_of(machine);
        let delay = knobs.get(|k| k.evaluation_delay).unwrap_or(self.settings.evaluation_delay);
        let at = ends(machine.changed_at, delay)?;
        if at > now {
            return Some(at);
        }
        machine.evaluated = Some((generation, machine.view.spec.clone()));
        self.mark_dependents_of_machine(key);
        None
    }

    pub(super) fn knobs_of<'a>(&'a self, machine: &'a Machine) -> Effective<'a> {
        self.knobs_for(&machine.view.namespace, machine.view.knobs.as_deref())
    }
}

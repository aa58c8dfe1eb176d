//! The transitions of a machine (state → next state, after a delay) and their effects.

use super::{
    devices::Assessment,
    model::{Device, DvpModel, ManualState, Power, SimulatedMachine},
    pod::MachinePodState,
};
use crate::{
    objects::{DvpObjectId, DvpObjectKind, NamespacedKey},
    shared::delay_end,
};
use jiff::Timestamp;

/// A transition of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transition {
    /// Choose a node and request a Pod.
    Boot,
    /// The Pod exists: the guest begins to boot, or the migration begins.
    PodReady,
    /// The guest runs.
    Run,
    /// The guest crashes.
    Crash,
    /// The guest shuts down by itself.
    GuestShutDown,
    /// The platform shuts the guest down.
    Stop,
    /// Begin a migration to another node.
    StartMigration,
    /// The migration is complete.
    FinishMigration,
    /// The machine is off.
    PowerOff,
}

impl DvpModel {
    /// Performs all transitions that are due. Returns when the next one is due.
    pub(super) fn advance(
        &mut self,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        now: Timestamp,
    ) -> Option<Timestamp> {
        loop {
            let devices_due = self.sync_devices(key, machine, now);
            self.sync_users(key, machine);
            if self.knobs_of(machine).get(|k| k.shutdown).is_none() {
                machine.shutdown_applied = None;
            }
            let next = self.transitions(key, machine, now).into_iter().min_by_key(|(at, _)| *at);
            match next {
                Some((at, step)) if at <= now => self.apply(step, key, machine, now),
                later => return [later.map(|(at, _)| at), devices_due].into_iter().flatten().min(),
            }
        }
    }

    /// The next transition of a machine, and when it is due. Of several, the earliest is chosen; of those
    /// with the same time, the first.
    fn transitions(
        &self,
        key: &NamespacedKey,
        machine: &SimulatedMachine,
        now: Timestamp,
    ) -> Vec<(Timestamp, Transition)> {
        let knobs = self.knobs_of(machine);
        let start_delay = knobs.get(|k| k.start_delay).unwrap_or(self.settings.start_delay);
        let wanted = machine.wants_to_run();
        let lost = machine.power.boots().any(|boot| self.pod_state(boot) == MachinePodState::Lost);
        if machine.view.meta.deleting && knobs.is(|k| k.skip_finalizers) {
            return if machine.power.is_off() { vec![] } else { vec![(now, Transition::PowerOff)] };
        }
        // Nothing on a lost node reports or stops.
        if knobs.is(|k| k.node_loss) && !machine.power.is_off() {
            let is_on = matches!(machine.power, Power::On { .. });
            return if is_on { vec![(now, Transition::Crash)] } else { Vec::new() };
        }
        let mut transitions = Vec::new();
        let mut add = |at: Option<Timestamp>, step| transitions.extend(at.map(|at| (at, step)));
        let immediately = |condition: bool| condition.then_some(now);
        match &machine.power {
            Power::Off => {
                let may_start = machine.evaluated.is_some() && self.may_start(key, machine);
                add(immediately(wanted && may_start), Transition::Boot);
            }
            Power::Booting { boot, live_since } => {
                add(immediately(lost), Transition::PowerOff);
                add(
                    immediately(!wanted),
                    if live_since.is_some() { Transition::Stop } else { Transition::PowerOff },
                );
                match live_since {
                    None => {
                        add(immediately(self.pod_state(boot) == MachinePodState::Live), Transition::PodReady);
                    }
                    Some(since) => {
                        let ready = self.assess(key, machine) == Assessment::Ready;
                        add(delay_end(*since, start_delay).filter(|_| ready), Transition::Run);
                    }
                }
            }
            Power::On { since, .. } => {
                add(immediately(lost), Transition::PowerOff);
                add(immediately(!wanted || self.restart_is_due(machine)), Transition::Stop);
                add(knobs.get(|k| k.crash).and_then(|delay| delay_end(*since, delay)), Transition::Crash);
                let shutdown =
                    knobs.get(|k| k.shutdown).filter(|value| Some(*value) != machine.shutdown_applied);
                add(shutdown.and_then(|delay| delay_end(*since, delay)), Transition::GuestShutDown);
                add(immediately(machine.requests.migrate), Transition::StartMigration);
            }
            Power::Migrating { target, live_since, .. } => {
                add(immediately(lost), Transition::PowerOff);
                add(immediately(!wanted), Transition::Stop);
                match live_since {
                    None => add(
                        immediately(self.pod_state(target) == MachinePodState::Live),
                        Transition::PodReady,
                    ),
                    Some(since) => add(delay_end(*since, start_delay), Transition::FinishMigration),
                }
            }
            Power::Crashed { .. } => {
                add(immediately(lost), Transition::PowerOff);
                let repaired = knobs.get(|k| k.crash).is_none() || machine.requests.restart;
                add(immediately(!wanted || repaired), Transition::Stop);
            }
            Power::Stopping { since } => {
                let grace = machine.view.spec.grace();
                let delay = knobs.get(|k| k.stop_delay).unwrap_or(self.settings.stop_delay).at_most(grace);
                add(
                    if machine.requests.force { Some(now) } else { delay_end(*since, delay) },
                    Transition::PowerOff,
                );
            }
        }
        transitions
    }

    /// The effect of a transition.
    fn apply(
        &mut self,
        step: Transition,
        key: &NamespacedKey,
        machine: &mut SimulatedMachine,
        now: Timestamp,
    ) {
        let power = std::mem::replace(&mut machine.power, Power::Off);
        machine.power = match (step, power) {
            (Transition::Boot, _) => {
                machine.boots += 1;
                Power::Booting { boot: self.new_boot(key, machine, None), live_since: None }
            }
            (Transition::PodReady, Power::Booting { boot, .. }) => {
                self.mount_all(key, machine, now);
                Power::Booting { boot, live_since: Some(now) }
            }
            (Transition::PodReady, Power::Migrating { boot, target, .. }) => {
                Power::Migrating { boot, target, live_since: Some(now) }
            }
            (Transition::Run, Power::Booting { boot, .. }) => {
                machine.requests.restart = false;
                machine.manual_state = ManualState::Started;
                machine.devices.iter_mut().for_each(Device::attach_cold);
                Power::On { boot, since: now }
            }
            (Transition::Crash, Power::On { boot, .. }) => Power::Crashed { boot },
            (Transition::StartMigration, Power::On { boot, .. }) => {
                machine.requests.migrate = false;
                let target = self.new_boot(key, machine, Some(&boot));
                Power::Migrating { boot, target, live_since: None }
            }
            (Transition::FinishMigration, Power::Migrating { target, .. }) => {
                machine.migrations += 1;
                Power::On { boot: target, since: now }
            }
            (Transition::Stop, _) => Power::Stopping { since: now },
            (Transition::GuestShutDown, _) => {
                machine.shutdown_applied = self.knobs_of(machine).get(|k| k.shutdown);
                machine.manual_state = ManualState::Stopped;
                self.switch_off(key, machine)
            }
            (Transition::PowerOff, _) => self.switch_off(key, machine),
            (
                Transition::PodReady
                | Transition::Run
                | Transition::Crash
                | Transition::StartMigration
                | Transition::FinishMigration,
                power,
            ) => power,
        };
        let uid = machine.view.meta.uid.clone();
        for pod in self.pods_of.get(&uid).into_iter().flatten() {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Pod, pod.clone()));
        }
        self.mark_dependents_of_machine(key);
        for disk in &machine.listed {
            self.agenda.mark(DvpObjectId::new(DvpObjectKind::Disk, disk.clone()));
        }
    }

    fn switch_off(&mut self, key: &NamespacedKey, machine: &mut SimulatedMachine) -> Power {
        let mounted = std::mem::take(&mut machine.mounted);
        self.unmount(&machine.view.meta.uid, &mounted);
        machine.requests.force = false;
        machine.requests.migrate = false;
        machine.devices.clear();
        self.mark(DvpObjectKind::Machine, key);
        Power::Off
    }
}

//! The moves of small configurations.

use std::time::Duration;

use super::super::api::{Api, BrokenInvariant, check_invariant};
use super::super::controller::RequestDelivery;
use super::super::healing::HEALING;
use super::super::hooks::HookStep;
use super::super::images::{exchange_contents, follow_images};
use super::super::instances::{can_finish, enable_instances};
use super::super::step::SimulationStep;
use super::super::world::EngineSimulation;
use super::config::{ExplorationConfig, FreeDiskDeletion};
use crate::Plan;
use crate::model::{DisruptionBudget, Lifetime, Machine, MachineActivity, ObjectId, PoolDiskTemplate};
use crate::protection::{ProtectionEnd, time_after};
use crate::standby::{StandbyPhase, StandbySettings, WarmUp};
use crate::testing::RETAINED;

/// Duration of a move. It is so short that the sum of all moves has no effect.
const TICK: Duration = Duration::from_micros(1);

/// Duration of the move "time passes". It is longer than every timeout.
pub(super) const LONG_TIME: Duration = Duration::from_secs(1000);

/// How long a machine is protected. It ends while time passes.
const PROTECTED: Duration = Duration::from_mins(10);

/// One move. Positions are those in the lists of [`possible_moves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Pass,
    Act(RequestDelivery),
    /// The leader exits with this number of requests in flight.
    Crash(usize),
    Land(usize),
    SeeMachine,
    SeeDisk,
    Start(usize),
    Finish(usize),
    Evaluate(usize),
    Restart(usize),
    /// The garbage collector deletes objects without an owner.
    Collect,
    /// The garbage collector deletes a machine of a deleted pool.
    Sweep(usize),
    Tell(usize),
    Scale(usize),
    Name(usize),
    RemovalClient,
    Delete(usize),
    Revise,
    Detach(usize),
    Return(usize),
    Protect(usize),
    Hook(usize, HookStep),
    /// The guest or the node of a machine fails.
    Fail(usize),
    Recycle(usize),
    /// The images of disks get their other content.
    ChangeImages,
    /// The platform starts a standby machine that warms up.
    WarmUp(usize),
    /// A standby machine has stopped, or a client starts or stops it.
    ToggleStandby(usize),
    Standby(usize),
    End,
    Time,
}

#[derive(Clone)]
pub(super) struct ExploredState {
    pub(super) world: EngineSimulation,
    pub(super) small: ExplorationConfig,
    /// Remaining actions of users.
    pub(super) edits: Option<u8>,
    /// Remaining faults.
    pub(super) faults: u8,
}

impl ExploredState {
    pub(super) fn new(small: &ExplorationConfig) -> Self {
        let mut pool = crate::testing::PoolWorld::desiring(small.start).pool;
        (pool.naming, pool.scale_down_policy) = (small.naming, small.scale_down_policy);
        pool.rollout.budget = DisruptionBudget::Machines(1);
        pool.rollout.history = 0;
        pool.healing = small.users.fail.then_some(HEALING);
        pool.disks.extend(small.keeps.map(|ends| {
            let mut template = PoolDiskTemplate::new(RETAINED, Lifetime::Retained);
            template.ttl = (ends == FreeDiskDeletion::AtOnce).then_some(Duration::from_secs(10));
            template
        }));
        pool.standby = small.standby.map(|warm_up| standby_settings(1, warm_up));
        if small.users.image {
            follow_images(&mut pool);
        }
        if let Some(changes) = small.instances {
            enable_instances(&mut pool, changes);
        }
        let mut api = Api::new(pool);
        api.counts_losses = false;
        if let Some(changes) = small.instances {
            api.set_changes(changes);
        }
        let mut world = EngineSimulation::around(api);
        (world.silent, world.tick) = (true, TICK);
        let mut state = Self { world, small: *small, edits: small.edits, faults: small.faults };
        super::convergence::bring_to_rest(&mut state);
        state
    }

    pub(super) fn after(&self, step: Move) -> Result<Self, BrokenInvariant> {
        let mut state = self.clone();
        state.make(step)?;
        Ok(state)
    }

    /// Makes a move and checks the invariants of every state.
    pub(super) fn make(&mut self, step: Move) -> Result<(), BrokenInvariant> {
        self.world.api.now += TICK;
        match step {
            Move::Pass => {
                let plan = self.pass();
                self.world.replaces_within_budget(&plan)?;
                // With finalizers, the controller must release the machines.
                let deleting = self.world.api.pool.deleting && self.small.instances.is_none();
                check_invariant(!deleting || plan == Plan::default(), || {
                    format!("I9: {plan:?} of a pool that is deleted")
                })?;
            }
            Move::Act(fate) => {
                self.faults -= u8::from(fate != RequestDelivery::Answered);
                self.world.act(fate)?;
            }
            Move::Crash(late) => {
                self.faults -= 1;
                self.world.step(SimulationStep::Crash(late))?;
            }
            Move::RemovalClient => self.world.step(SimulationStep::RemovalClient(0))?,
            Move::Land(which) => self.world.step(SimulationStep::Land(which))?,
            Move::SeeMachine => self.see(1, 0),
            Move::SeeDisk => self.see(0, 1),
            Move::Collect => self.world.others(SimulationStep::Collect),
            Move::Time => {
                self.world.api.now += LONG_TIME;
                self.world.in_flight.clear();
                // Watches are restarted every minute, so none has a longer delay.
                self.see(usize::MAX / 2, usize::MAX / 2);
            }
            Move::Start(_)
            | Move::Finish(_)
            | Move::Evaluate(_)
            | Move::Restart(_)
            | Move::Sweep(_)
            | Move::WarmUp(_)
            | Move::Tell(_) => {
                self.platform(step);
            }
            Move::ToggleStandby(which) => {
                let (id, is_stopping) = togglable_standby(&self.world.api)[which].clone();
                let edits = u8::from(!is_stopping);
                self.edits = self.edits.map(|left| left - edits);
                self.world.api.toggle_standby(&id);
            }
            Move::Scale(_)
            | Move::Name(_)
            | Move::Delete(_)
            | Move::Revise
            | Move::Detach(_)
            | Move::Return(_)
            | Move::Protect(_)
            | Move::Hook(..)
            | Move::Fail(_)
            | Move::Recycle(_)
            | Move::ChangeImages
            | Move::Standby(_)
            | Move::End => {
                self.edits = self.edits.map(|edits| edits - 1);
                self.user(step);
            }
        }
        self.world.api.record_disk_use();
        let machines = self.world.api.machines.log.len() - self.world.controller.machines.position;
        let disks = self.world.api.disks.log.len() - self.world.controller.disks.position;
        self.see(machines.saturating_sub(self.small.behind), disks.saturating_sub(self.small.behind));
        self.disturbs_few()
    }

    pub(super) fn pass(&mut self) -> Plan {
        let (plan, _) = self.world.controller.pass(&self.world.api);
        if !self.world.silent {
            self.world.tell(format_args!("pass: {}", super::super::world::summarize_plan(&plan)));
        }
        plan
    }

    fn see(&mut self, machines: usize, disks: usize) {
        let EngineSimulation { api, controller: shell, .. } = &mut self.world;
        shell.machines.advance(&api.machines, machines);
        shell.disks.advance(&api.disks, disks);
    }

    fn platform(&mut self, step: Move) {
        let world = &mut self.world;
        match step {
            Move::Start(which) => {
                let id = startable_machines(&world.api)[which].clone();
                if world.api.has_instances() {
                    world.api.start_instance(&id);
                    return;
                }
                // A new leader starts with the current state.
                if world.api.machines.find(&id).is_ok_and(|machine| !machine.evaluated) {
                    world.api.edit_machine(&id, |machine| machine.evaluated = true);
                }
                world.api.start(&id);
            }
            Move::Finish(which) => world.others(SimulationStep::Finish(which)),
            Move::Evaluate(which) => {
                let id = unevaluated_machines(&world.api)[which].clone();
                world.api.evaluate(&id);
            }
            Move::Restart(which) => {
                let id = restarting_machines(&world.api)[which].clone();
                if world.api.has_instances() {
                    world.api.end_instance(&id);
                } else {
                    world.api.restart(&id);
                }
            }
            Move::WarmUp(which) => {
                let id = warming_machines(&world.api)[which].clone();
                world.api.start(&id);
            }
            Move::Sweep(which) => {
                let id = live_machines(&world.api)[which].clone();
                world.api.edit_machine(&id, |machine| machine.terminating = true);
            }
            Move::Tell(which) => {
                let disk = world.api.stale_disks()[which].clone();
                world.api.tell_status(&disk);
            }
            _ => unreachable!("not of the platform"),
        }
    }

    fn user(&mut self, step: Move) {
        let world = &mut self.world;
        match step {
            Move::Scale(desired) => world.others(SimulationStep::Scale(desired)),
            Move::Name(which) => world.ask(&live_machines(&world.api)[which].clone()),
            Move::Delete(which) => {
                let id = live_machines(&world.api)[which].clone();
                world.api.remove_by_hand(&id, |machine| machine.terminating = true);
            }
            Move::Revise => {
                let to = if world.api.pool.revision.id.as_str() == "r1" { "r2" } else { "r1" };
                world.api.revise(to);
            }
            Move::Detach(which) => {
                let id = live_machines(&world.api)[which].clone();
                world.api.remove_by_hand(&id, |machine| machine.owner = None);
            }
            Move::Return(which) => {
                let id = returnable_machines(&world.api)[which].clone();
                world.api.return_machine(&id);
            }
            Move::Protect(which) => {
                let id = live_machines(&world.api)[which].clone();
                let until = time_after(world.api.timestamp(), PROTECTED);
                world.api.protect(&id, Some(ProtectionEnd::At(until)));
            }
            Move::Hook(which, step) => {
                let id = live_machines(&world.api)[which].clone();
                world.api.hook_step(&id, step);
            }
            Move::Fail(which) => {
                let id = ready_machines(&world.api)[which].clone();
                world.api.fail(&id);
            }
            Move::Recycle(which) => {
                let id = live_machines(&world.api)[which].clone();
                world.api.request_replacement(&id);
            }
            Move::ChangeImages => world.api.edit_pool(exchange_contents),
            Move::Standby(replicas) => world.api.edit_pool(|pool| {
                pool.standby = pool.standby.map(|settings| standby_settings(replicas, settings.warm_up));
            }),
            Move::End => world.api.edit_pool(|pool| pool.deleting = true),
            _ => unreachable!("not of users"),
        }
    }

    /// A rollout makes no more machines unavailable than the budget allows. A failed leader and a lost
    /// response can each have one request in flight.
    fn disturbs_few(&self) -> Result<(), BrokenInvariant> {
        let disturbed = self.world.api.pool_machines().filter(|machine| {
            let restarts = machine.is_restarting() && machine.activity != MachineActivity::Running;
            let evaluates = machine.activity == MachineActivity::Running
                && (!machine.evaluated || machine.restart_pending);
            restarts || evaluates || machine.discards_storage
        });
        let (disturbed, more) = (disturbed.count(), usize::from(self.small.faults - self.faults));
        check_invariant(disturbed <= 1 + more, || format!("a rollout disturbs {disturbed} machines at once"))
    }
}

fn matching_machines(api: &Api, is: impl Fn(&Machine) -> bool) -> Vec<ObjectId> {
    let machines = api.pool_machines().filter(|machine| is(machine));
    machines.map(|machine| machine.id.clone()).collect()
}

fn standby_settings(replicas: usize, warm_up: WarmUp) -> StandbySettings {
    StandbySettings { replicas, warm_up, delay: Duration::from_secs(10) }
}

/// Standby machines whose warm-up the platform can begin.
fn warming_machines(api: &Api) -> Vec<ObjectId> {
    let machines = api.standby_machines().filter(|machine| {
        let waits = machine.activity == MachineActivity::NotRunning;
        !machine.terminating && waits && api.may_power_on(machine) && api.can_start(machine)
    });
    machines.map(|machine| machine.id.clone()).collect()
}

/// Standby machines that can be started or stopped, and whether they stop already.
fn togglable_standby(api: &Api) -> Vec<(ObjectId, bool)> {
    let machines = api.standby_machines().filter(|machine| {
        let state = machine.standby.as_deref();
        !machine.terminating && state.is_some_and(|state| state.phase == StandbyPhase::Stopped)
    });
    machines.map(|machine| (machine.id.clone(), machine.activity == MachineActivity::Stopping)).collect()
}

/// Machines that a user can return to the pool.
fn returnable_machines(api: &Api) -> Vec<ObjectId> {
    let machines = api.machines.objects.values().map(|seen| &seen.facts);
    let machines = machines.filter(|machine| machine.owner.is_none() && !machine.terminating);
    machines.map(|machine| machine.id.clone()).collect()
}

fn live_machines(api: &Api) -> Vec<ObjectId> {
    matching_machines(api, |machine| !machine.terminating)
}

/// Machines whose guests run.
fn ready_machines(api: &Api) -> Vec<ObjectId> {
    matching_machines(api, Machine::runs)
}

/// Machines that the platform can start now.
fn startable_machines(api: &Api) -> Vec<ObjectId> {
    matching_machines(api, |machine| {
        let fits = if api.has_instances() { machine.instance.is_none() } else { api.can_start(machine) };
        let starts = fits && api.may_power_on(machine);
        !machine.terminating && machine.activity != MachineActivity::Running && starts
    })
}

fn unevaluated_machines(api: &Api) -> Vec<ObjectId> {
    matching_machines(api, |machine| {
        !machine.terminating && !machine.evaluated && machine.activity == MachineActivity::Running
    })
}

fn restarting_machines(api: &Api) -> Vec<ObjectId> {
    matching_machines(api, |machine| {
        let stops = machine.instance.as_ref().is_some_and(|instance| instance.terminating);
        !machine.terminating && (stops || machine.restart_pending && machine.evaluated)
    })
}

/// The possible moves except those of users, faults and time, in the order that leads to convergence.
pub(super) fn converging_moves(state: &ExploredState) -> Vec<Move> {
    let EngineSimulation { api, controller: shell, removal_clients, .. } = &state.world;
    let mut moves = Vec::new();
    if !removal_clients.is_empty() {
        moves.push(Move::RemovalClient);
    }
    if shell.machines.position < api.machines.log.len() {
        moves.push(Move::SeeMachine);
    }
    if shell.disks.position < api.disks.log.len() {
        moves.push(Move::SeeDisk);
    }
    if !shell.pending.is_empty() {
        moves.push(Move::Act(RequestDelivery::Answered));
    }
    let leaving = api.machines.objects.values().filter(|seen| can_finish(&seen.facts)).count();
    // The garbage collector has a limited delay: it deletes the objects of one machine before the next
    // machine is deleted.
    if api.has_garbage() {
        moves.push(Move::Collect);
    } else {
        moves.extend((0..leaving).map(Move::Finish));
    }
    if api.pool.deleting {
        moves.extend((0..live_machines(api).len()).map(Move::Sweep));
    }
    moves.extend((0..startable_machines(api).len()).map(Move::Start));
    moves.extend((0..warming_machines(api).len()).map(Move::WarmUp));
    let standby = togglable_standby(api);
    let stopping = (0..standby.len()).filter(|which| standby[*which].1);
    moves.extend(stopping.map(Move::ToggleStandby));
    moves.extend((0..api.stale_disks().len()).map(Move::Tell));
    moves.extend((0..unevaluated_machines(api).len()).map(Move::Evaluate));
    moves.extend((0..restarting_machines(api).len()).map(Move::Restart));
    moves
}

/// All possible moves.
pub(super) fn possible_moves(state: &ExploredState) -> Vec<Move> {
    let EngineSimulation { api, controller: shell, removal_clients, in_flight, .. } = &state.world;
    let mut moves = converging_moves(state);
    if shell.pending.is_empty() {
        moves.push(Move::Pass);
    }
    moves.extend((0..in_flight.len()).map(Move::Land));
    moves.push(Move::Time);
    if state.faults > 0 {
        moves.push(Move::Crash(0));
        if !shell.pending.is_empty() {
            let lost = [RequestDelivery::AnswerLost, RequestDelivery::RequestLost, RequestDelivery::Late];
            moves.extend(lost.map(Move::Act));
            moves.push(Move::Crash(1));
        }
    }
    let users = state.small.users;
    if api.pool.deleting || state.edits == Some(0) {
        return moves;
    }
    let desired = api.pool.desired;
    let live = live_machines(api).len();
    if users.scale {
        moves.extend((0..=state.small.machines).filter(|count| *count != desired).map(Move::Scale));
    }
    if users.name && removal_clients.is_empty() {
        moves.extend((0..live).map(Move::Name));
    }
    if users.delete {
        moves.extend((0..live).map(Move::Delete));
    }
    if users.revise {
        moves.push(Move::Revise);
    }
    if users.detach {
        moves.extend((0..live).map(Move::Detach));
        moves.extend((0..returnable_machines(api).len()).map(Move::Return));
    }
    if users.protect {
        moves.extend((0..live).map(Move::Protect));
    }
    if users.hook {
        let steps = [HookStep::Set, HookStep::Release, HookStep::ReleaseEarlier];
        moves.extend((0..live).flat_map(|which| steps.map(|step| Move::Hook(which, step))));
    }
    if users.fail {
        moves.extend((0..ready_machines(api).len()).map(Move::Fail));
    }
    if users.recycle {
        moves.extend((0..live).map(Move::Recycle));
    }
    if users.image {
        moves.push(Move::ChangeImages);
    }
    if users.standby {
        let wanted = api.pool.standby.map_or(0, |settings| settings.replicas);
        moves.push(Move::Standby(usize::from(wanted == 0)));
        let standby = togglable_standby(api);
        let togglable = (0..standby.len()).filter(|which| !standby[*which].1);
        moves.extend(togglable.map(Move::ToggleStandby));
    }
    if users.end {
        moves.push(Move::End);
    }
    moves
}

//! Standby machines: their warm-up and their activation, and what I1, I2, I12 and I17 say about them.
//!
//! On the platform with random names, standby machines lack the labels of the pool, and only an operation
//! starts an activated machine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::api::{Api, BrokenInvariant, PoolHistoryEntry, RequestBasis, RequestRefusal, check_invariant};
use crate::ledger::VersionedFacts;
use crate::model::{Machine, MachineActivity, Naming, ObjectId, Uid};
use crate::revisions::RevisionId;
use crate::standby::{StandbyPhase, StandbySettings, StandbyState, WarmUp};

/// How long a standby machine runs after it is ready.
const WARM_UP_DELAY: Duration = Duration::from_secs(10);

/// The setting that a step selects.
pub(super) fn select_standby_settings(which: usize) -> StandbySettings {
    let warm_up = if which.is_multiple_of(2) { WarmUp::FirstReady } else { WarmUp::None };
    StandbySettings { replicas: which / 2 % 4, warm_up, delay: WARM_UP_DELAY }
}

/// Records that the guest of a machine is ready.
pub(super) fn record_ready(machine: &mut Machine, now: Timestamp) {
    machine.awaits_start = false;
    if let Some(state) = &mut machine.standby {
        Arc::make_mut(state).ready_since = Some(now);
    }
}

/// The operations that start activated machines. Each machine has at most one.
#[derive(Clone, Debug, Default)]
pub(super) struct StartOperations(BTreeSet<Uid>);

/// Why a standby machine is deleted, as far as the number of standby machines shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StandbyDeletion {
    /// There are too many.
    Surplus,
    /// Another one takes its place, or the request is late, so that it says nothing about their number.
    Other,
}

impl Api {
    /// The standby machines of the pool.
    pub(super) fn standby_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.owned_machines().filter(|machine| machine.standby.is_some())
    }

    /// Makes a new machine a standby machine of this phase.
    pub(super) fn begin_standby(&self, machine: &mut Machine, phase: StandbyPhase) {
        if self.pool.naming == Naming::Random {
            (machine.pool_label, machine.pool_uid_label) = (None, None);
        }
        let kept_off = phase == StandbyPhase::Stopped;
        if kept_off {
            machine.activity = MachineActivity::Stopped;
        }
        machine.standby = Some(Arc::new(StandbyState { phase, ready_since: None, kept_off }));
    }

    /// The machines whose start was requested.
    pub(super) fn requested_starts(&self) -> impl Iterator<Item = &Uid> {
        self.start_operations.0.iter()
    }

    /// Whether the platform starts the machine.
    pub(super) fn may_power_on(&self, machine: &Machine) -> bool {
        let is_kept_off = machine.standby.as_deref().is_some_and(|state| state.kept_off);
        let awaits_operation = machine.awaits_start && !self.start_operations.0.contains(&machine.id.uid);
        !is_kept_off && !awaits_operation
    }

    /// I2 for standby machines, after a create of the present leader: their number never exceeds the largest
    /// `standby.replicas` that could still be read. `strays` is the number of machines that no plan of this
    /// leader could know. A machine with an unconfirmed activation does not count as a standby machine.
    pub(super) fn check_standby_count(
        &self,
        basis: RequestBasis,
        strays: usize,
    ) -> Result<(), BrokenInvariant> {
        let largest = self.history[basis.pool..].iter().map(PoolHistoryEntry::standby).max();
        let (machines, bound) =
            (self.standby_machines().count(), largest.unwrap_or_default() + strays + basis.activating);
        check_invariant(machines <= bound, || {
            format!("I2: {machines} standby machines where at most {bound} were desired")
        })
    }

    /// Activates a standby machine that was just read, or read at the version `read`. I2 and I6 hold as for a
    /// create.
    pub(super) fn activate(
        &mut self,
        id: &ObjectId,
        to: &RevisionId,
        read: Option<u64>,
        basis: RequestBasis,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.as_read(id, read) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_stopped =
            |state: &StandbyState| state.phase == StandbyPhase::Stopped && state.kept_off && machine.is_off();
        let is_fit = machine.standby.as_deref().is_some_and(is_stopped)
            && machine.belongs_to(&self.pool.id)
            && !machine.terminating
            && !machine.is_protected(self.timestamp());
        if !is_fit {
            return Ok(Err(RequestRefusal::Conflict));
        }
        let (now, pool) = (self.timestamp(), self.pool.id.clone());
        let awaits_start = self.pool.naming == Naming::Random;
        let seen = self.change(id, |machine| {
            machine.standby = None;
            machine.activated = Some(now);
            machine.awaits_start = awaits_start;
            machine.activity = MachineActivity::NotRunning;
            (machine.pool_label, machine.pool_uid_label) = (Some(pool.name), Some(pool.uid));
            (machine.revision, machine.written) = (Some(to.clone()), Some(to.clone()));
        });
        if basis.current {
            self.check_machine_count(&id.name, basis)?;
        } else {
            self.former_leader_creates.push(self.machines.log.len() - 1);
        }
        Ok(seen)
    }

    /// Creates the operation that starts an activated machine. The API server rejects a second one.
    pub(super) fn request_start(&mut self, id: &ObjectId) -> Result<(), RequestRefusal> {
        let is_new = self.start_operations.0.insert(id.uid.clone());
        if is_new { Ok(()) } else { Err(RequestRefusal::AlreadyExists) }
    }

    /// Stops a warming machine that was just read, or read at the version `read`.
    pub(super) fn stop_standby(
        &mut self,
        id: &ObjectId,
        read: Option<u64>,
    ) -> Result<VersionedFacts<Machine>, RequestRefusal> {
        let machine = self.as_read(id, read)?;
        if !machine.is_warming() || machine.terminating || machine.is_protected(self.timestamp()) {
            return Err(RequestRefusal::Conflict);
        }
        self.change(id, |machine| {
            let state = StandbyState { phase: StandbyPhase::Stopped, ready_since: None, kept_off: true };
            machine.standby = Some(Arc::new(state));
            if !machine.is_off() {
                machine.activity = MachineActivity::Stopping;
            }
        })
    }

    /// The platform completes the stop of a standby machine, or a client starts it or stops it again. Returns
    /// whether the machine is a stopped one.
    pub(super) fn toggle_standby(&mut self, id: &ObjectId) -> bool {
        let Ok(machine) = self.machines.find(id) else { return false };
        let Some(state) = machine.standby.filter(|state| state.phase == StandbyPhase::Stopped) else {
            return false;
        };
        let is_stopping = machine.activity == MachineActivity::Stopping;
        let kept_off = is_stopping || !state.kept_off;
        let activity = if kept_off { MachineActivity::Stopped } else { MachineActivity::Running };
        self.edit_machine(id, |machine| {
            machine.activity = activity;
            machine.standby = Some(Arc::new(StandbyState { kept_off, ..*state }));
        });
        true
    }

    /// Deletes a standby machine. I1: a surplus one only while there are more than `standby.replicas`. I17:
    /// no active machine. I12 holds as for active machines.
    pub(super) fn delete_standby(
        &mut self,
        id: &ObjectId,
        planned: Option<u64>,
        basis: RequestBasis,
        kind: StandbyDeletion,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.machines.find(id) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let changed = planned.is_some_and(|version| self.machines.objects[&id.name].version != version);
        if machine.terminating || changed {
            return Ok(Err(RequestRefusal::Conflict));
        }
        check_invariant(machine.standby.is_some(), || {
            format!("I17: the active machine {id} was deleted as a standby machine")
        })?;
        check_invariant(!machine.is_protected(self.timestamp()), || {
            format!("I12: {id} was deleted while it is protected")
        })?;
        let is_started = machine.standby.as_deref().is_some_and(StandbyState::is_started_by_client);
        check_invariant(planned.is_none() || !is_started, || {
            format!("I17: {id} was deleted as a standby machine after a client had started it")
        })?;
        let live = self.standby_machines().filter(|machine| !machine.terminating).count();
        let unseen = self.others_removals.iter().filter(|position| **position >= basis.seen).count();
        let wanted = self.history[basis.pool].standby();
        if basis.current && kind == StandbyDeletion::Surplus {
            check_invariant(live + unseen > wanted, || {
                format!("I1: {id} was deleted while {live} standby machines did not exceed {wanted}")
            })?;
        } else {
            self.others_removals.push(self.machines.log.len());
        }
        Ok(self.change(id, |machine| machine.terminating = true))
    }

    /// The pool has as many standby machines as desired, or more if clients started them. Those that no
    /// client started are stopped.
    pub(super) fn standby_is_settled(&self) -> Result<(), BrokenInvariant> {
        let wanted = self.history.last().map_or(0, PoolHistoryEntry::standby);
        let machines = self.standby_machines().count();
        let is_started = |machine: &&Arc<Machine>| {
            machine.standby.as_deref().is_some_and(StandbyState::is_started_by_client)
        };
        let started = self.standby_machines().filter(is_started).count();
        check_invariant(machines == wanted.max(started), || {
            format!("{machines} standby machines, {wanted} desired, {started} started by clients")
        })?;
        let is_warm = |machine: &&Arc<Machine>| {
            let state = machine.standby.as_deref();
            state.is_some_and(|state| state.phase != StandbyPhase::Stopped)
        };
        let warm = self.standby_machines().find(is_warm);
        check_invariant(warm.is_none(), || format!("{} still warms up", warm.expect("found").id))
    }
}

//! The rollout state of each machine, and the progress of the whole rollout.

use std::sync::Arc;

use crate::draining::is_draining_within_budget;
use crate::model::{DiskRef, InstanceTransition, Machine, MachineActivity, Pool, Restarts};
use crate::plan::observed::ObservedPool;
use crate::revisions::RevisionId;

/// The rollout state of a live machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RolloutState {
    /// The current revision was not written to it, or it must be written again.
    Outdated,
    /// The current revision is written and not in effect yet: the platform has not evaluated it, or a restart
    /// is pending.
    InProgress,
    /// The current revision is written, but the machine keeps a disk of a removed template because it booted
    /// from it.
    Stranded,
    /// The current revision is in effect, and the label of the machine does not record it yet.
    Unrecorded,
    /// The current revision is in effect.
    Current,
}

impl RolloutState {
    /// The rollout state of `machine`.
    pub(crate) fn of(pool: &Pool, machine: &Machine) -> Self {
        let Some(written) = machine.written.as_ref().filter(|written| pool.is_current(written)) else {
            return Self::Outdated;
        };
        if pool.rollout.restarts != Restarts::ByPlatform {
            return match required_transition(pool, machine, written) {
                InstanceTransition::None => Self::Current,
                InstanceTransition::Record => Self::Unrecorded,
                InstanceTransition::LiveUpdate
                | InstanceTransition::Restart
                | InstanceTransition::Recreation
                | InstanceTransition::Unknown => Self::InProgress,
            };
        }
        let mut leftovers = leftover_devices(pool, machine).peekable();
        if leftovers.peek().is_some() {
            let kept = leftovers.all(|device| keeps_leftover_device(machine, device));
            return match (kept, in_effect(machine)) {
                (false, _) => Self::Outdated,
                (true, true) => Self::Stranded,
                (true, false) => Self::InProgress,
            };
        }
        let says_so = machine.revision.as_ref() == Some(&pool.revision.id);
        match (says_so, in_effect(machine)) {
            (true, true) => Self::Current,
            // The platform restarts it to apply the revision, and it still runs with the earlier one.
            (false, true) if machine.activity == MachineActivity::Stopping => Self::InProgress,
            // A machine that does not run yet and was created from this revision has never had another one.
            (true, false) if machine.activity != MachineActivity::Running && !machine.restart_pending => {
                Self::Current
            }
            (false, true) => Self::Unrecorded,
            (_, false) => Self::InProgress,
        }
    }
}

/// What it takes to bring a machine and its instance to revision `written`. A machine without an instance
/// starts with it, but with the storage that it has.
pub(crate) fn required_transition(
    pool: &Pool,
    machine: &Machine,
    written: &RevisionId,
) -> InstanceTransition {
    let has_its_storage = has_storage_of(pool, machine, written);
    if has_its_storage == Some(false) && !machine.is_off() {
        return InstanceTransition::Recreation;
    }
    let Some(instance) = &machine.instance else { return InstanceTransition::None };
    match pool.transition(instance.revision.as_ref(), written) {
        // The instance was started after an update that a later one took back.
        InstanceTransition::Recreation if has_its_storage == Some(true) => InstanceTransition::Restart,
        // The platform does not apply it, or reports that it cannot.
        InstanceTransition::LiveUpdate if !pool.rollout.live_updates || machine.restart_pending => {
            InstanceTransition::Restart
        }
        InstanceTransition::LiveUpdate => {
            let live = |id: &RevisionId| pool.revision.template_parts.get(id).map(|parts| &parts.live);
            // Parts that the change leaves as they were may have other values, because users can hot-plug,
            // too.
            let started = instance.revision.as_ref().and_then(live);
            let is_applied = started.zip(live(written)).is_some_and(|(started, wanted)| {
                let (added, removed) = (wanted.without(started), started.without(wanted));
                instance.live.include(&added) && instance.live.exclude(&removed)
            });
            if is_applied { InstanceTransition::Record } else { InstanceTransition::LiveUpdate }
        }
        other => other,
    }
}

/// Whether the storage of a machine was created from templates like those of revision `written`. `None` if no
/// update has changed them, so that the revision of the instance decides.
///
/// The instance alone does not: a guest that never ran, or that was started again before the rollout reached
/// it, starts with the current template and the former storage.
fn has_storage_of(pool: &Pool, machine: &Machine, written: &RevisionId) -> Option<bool> {
    let created_from = machine.storage_revision.as_ref()?;
    if pool.rollout.restarts != Restarts::ByController {
        return None;
    }
    let storage = |id: &RevisionId| pool.revision.template_parts.get(id).map(|parts| &parts.storage);
    Some(storage(created_from)? == storage(written)?)
}

/// Whether the revision that was last written is in effect.
fn in_effect(machine: &Machine) -> bool {
    machine.evaluated && !machine.restart_pending
}

/// The devices of a machine for disk templates that the revision does not have.
pub(crate) fn leftover_devices<'a>(
    pool: &'a Pool,
    machine: &'a Machine,
) -> impl Iterator<Item = &'a DiskRef> {
    let used = |index: usize, name: &Arc<str>| {
        // Usually the devices are in the order of the templates.
        let is = |template: &crate::model::PoolDiskTemplate| template.used && template.name == *name;
        pool.disks.get(index).is_some_and(is) || pool.disks.iter().any(is)
    };
    machine.disks.iter().enumerate().filter_map(move |(index, device)| {
        let template = device.template.as_ref()?;
        (!used(index, template)).then_some(device)
    })
}

/// Whether a machine keeps this device although its template was removed. The disk that a machine booted from
/// stays attached until the machine is stopped.
pub(super) fn keeps_leftover_device(machine: &Machine, device: &DiskRef) -> bool {
    machine.activity != MachineActivity::Stopped && machine.boot_disk.as_ref() == Some(&device.disk)
}

/// Whether an existing machine is unavailable, as far as the disruption budget goes. A stopped one is not: a
/// user stopped it on purpose.
pub(super) fn is_unavailable(machine: &Machine) -> bool {
    match machine.activity {
        MachineActivity::Stopped => false,
        MachineActivity::Stopping | MachineActivity::NotRunning => true,
        MachineActivity::Running => {
            !machine.evaluated || (machine.restart_pending && machine.restarts_itself)
        }
    }
}

/// Whether a machine that should run has no available instance, on a platform where instances are objects.
/// The machine may still seem ready, because the platform copies the state of the instance with a delay, and
/// the caches of machines and instances are not equally fresh.
fn lacks_an_instance(pool: &Pool, machine: &Machine) -> bool {
    pool.rollout.restarts != Restarts::ByPlatform
        && machine.activity != MachineActivity::Stopped
        && machine.instance.as_ref().is_none_or(|instance| instance.terminating || !instance.ready)
}

/// The progress of a rollout and its disruption budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutProgress {
    /// Number of machines that may be unavailable at the same time.
    pub(crate) budget: usize,
    /// Machines that are missing, terminating or unavailable, or that an unconfirmed request may make
    /// unavailable.
    pub(crate) unavailable: usize,
    /// Available machines that drain for a step that uses budget. They count as unavailable already.
    draining: usize,
    /// Available machines beyond the desired ones, for example targets of removals that drain.
    surplus: usize,
    /// Running machines that lack the current revision.
    pub(crate) outdated: usize,
    /// Machines whose update to the current revision was rejected.
    pub(crate) refusing: usize,
    /// Whether the controller updates no other machine while several updates are rejected.
    is_guarded: bool,
}

impl RolloutProgress {
    /// Counts the machines. The number of unavailable machines is the desired number minus the available
    /// machines and those that a user stopped. Missing and terminating machines therefore count as
    /// unavailable.
    ///
    /// If the controller restarts the machines, surplus machines add no budget: the pool may keep them for
    /// ever, and `maxUnavailable` limits the machines that are unavailable at the same time.
    pub(crate) fn of(observed: &ObservedPool<'_>) -> Self {
        let (pool, attempts) = (observed.pool, &observed.memory.rollout_attempts);
        let mut progress = Self {
            budget: pool.rollout.budget.of(pool.desired),
            // Only there, an update can disturb a guest. Elsewhere, each machine gets the template that it
            // accepts.
            is_guarded: pool.rollout.restarts == Restarts::ByPlatform,
            ..Self::default()
        };
        let (mut existing, mut available_or_stopped) = (0, 0);
        for machine in observed.pool_machines().filter(|machine| !machine.terminating) {
            existing += 1;
            let is_disrupted = progress.is_disrupted(observed, machine);
            let drains = !is_disrupted && is_draining_within_budget(machine);
            available_or_stopped += usize::from(!(is_disrupted || drains));
            progress.draining += usize::from(drains);
            let runs = machine.activity == MachineActivity::Running;
            progress.outdated +=
                usize::from(runs && RolloutState::of(pool, machine) == RolloutState::Outdated);
            progress.refusing += usize::from(attempts.refuses(&machine.id.uid, &pool.revision.id));
        }
        let counted = match pool.rollout.restarts {
            Restarts::ByController => pool.desired.max(existing),
            Restarts::ByPlatform | Restarts::ByUser => pool.desired,
        };
        progress.unavailable = counted.saturating_sub(available_or_stopped);
        progress.surplus = available_or_stopped.saturating_sub(counted);
        progress
    }

    /// Whether the machine uses disruption budget, so that updating it uses no more.
    pub(crate) fn uses_budget(&self, observed: &ObservedPool<'_>, machine: &Machine) -> bool {
        is_draining_within_budget(machine) || self.is_disrupted(observed, machine)
    }

    /// Whether the machine is unavailable, or may be after an unconfirmed request.
    #[expect(clippy::unused_self, reason = "the count and the question must not drift apart")]
    pub(crate) fn is_disrupted(&self, observed: &ObservedPool<'_>, machine: &Machine) -> bool {
        is_unavailable(machine)
            || lacks_an_instance(observed.pool, machine)
            || machine.instance.as_ref().is_some_and(|instance| {
                observed.memory.restarts.is_requested(&instance.id.uid, observed.uptime)
            })
            || observed.memory.rollout_attempts.is_unconfirmed(&machine.id.uid, observed.uptime)
            || observed.memory.is_delete_unconfirmed(&machine.id.uid, observed.uptime)
    }

    /// The remaining budget: how many more machines may become unavailable.
    pub(crate) fn remaining_budget(&self) -> usize {
        self.budget.saturating_sub(self.unavailable)
    }

    /// How many machines the controller may stop now. Machines that drain within the budget are still
    /// available.
    pub(super) fn stoppable(&self) -> usize {
        (self.budget + self.draining).saturating_sub(self.unavailable)
    }

    /// How many machines are unavailable without so many of the available ones.
    pub(crate) fn unavailable_without(&self, leaving: usize) -> usize {
        self.unavailable + leaving.saturating_sub(self.surplus)
    }

    /// Whether more machines are unavailable than the budget allows.
    pub(super) fn is_budget_exceeded(&self) -> bool {
        self.unavailable > self.budget
    }

    /// Whether so many updates were rejected that the controller updates no other machine.
    pub(crate) fn stopped(&self) -> bool {
        self.is_guarded && self.refusing >= self.budget.div_ceil(2).max(2)
    }
}

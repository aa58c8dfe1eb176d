//! Counts of a pool's machines.

use crate::model::{InstanceTransition, Machine, MachineActivity, Pool, Restarts, StatusContent};
use crate::plan::observed::ObservedPool;
use crate::rollout::progress::{RolloutState, required_transition};
use crate::standby::StandbyCounts;

/// Counts of the pool's machines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MachineCounts {
    pub(super) total: usize,
    /// Live machines. The following counts include only these, and depending on [`StatusContent`] terminating
    /// ones.
    pub(super) live: usize,
    pub(super) ready: usize,
    /// Live machines that run.
    pub(super) available: usize,
    /// Live machines in which the current revision is in effect.
    pub(super) updated: usize,
    /// Machines that have the current revision, and other values in some of its fields.
    pub(super) overridden: usize,
    /// Machines with the current revision that need a restart.
    pub(super) restart_pending: usize,
    /// Machines of these that need an approval for the restart.
    pub(super) for_approval: usize,
    /// Machines that the platform restarts, or is about to restart, so that the current revision takes
    /// effect.
    pub(super) restarting: usize,
    /// Machines that finish the work of their guests before they leave or restart.
    pub(super) draining: usize,
    /// Machines that keep a disk of an earlier template.
    pub(super) stranded: usize,
}

impl MachineCounts {
    pub(super) fn of(observed: &ObservedPool<'_>) -> Self {
        let pool = observed.pool;
        let mut counts = Self::default();
        for machine in observed.pool_machines() {
            counts.total += 1;
            if machine.terminating {
                let counts_as_ready = pool.status_content == StatusContent::FailureAndPause;
                counts.ready += usize::from(counts_as_ready && machine.activity == MachineActivity::Running);
            } else {
                counts.count(observed, machine);
            }
        }
        counts
    }

    fn count(&mut self, observed: &ObservedPool<'_>, machine: &Machine) {
        let pool = observed.pool;
        let state = RolloutState::of(pool, machine);
        let waits = match pool.rollout.restarts {
            Restarts::ByPlatform => machine.restart_pending && state != RolloutState::Outdated,
            Restarts::ByController | Restarts::ByUser => needs_restart(pool, machine),
        };
        let runs = usize::from(machine.activity == MachineActivity::Running);
        self.live += 1;
        self.ready += runs;
        self.available += runs;
        let is_overridden = observed.memory.overridden.includes(&machine.id.uid);
        self.updated += usize::from(state == RolloutState::Current && !is_overridden);
        self.overridden += usize::from(state == RolloutState::Current && is_overridden);
        self.restart_pending += usize::from(waits);
        // After the approval the machine stops, and the platform may still report the pending restart.
        let stopping = machine.activity == MachineActivity::Stopping;
        self.for_approval += usize::from(waits && !machine.restarts_itself && !stopping);
        let restarts = stopping && state == RolloutState::InProgress;
        self.restarting += usize::from(restarts || waits && machine.restarts_itself);
        self.draining += usize::from(machine.drain_mark().is_some());
        self.stranded += usize::from(state == RolloutState::Stranded);
    }
}

/// Counts the standby machines of the pool.
pub(super) fn count_standby(observed: &ObservedPool<'_>) -> StandbyCounts {
    let mut counts = StandbyCounts::default();
    for machine in observed.standby_machines() {
        counts.total += 1;
        counts.ready += usize::from(machine.is_ready_standby());
    }
    counts
}

/// Whether a machine with the current revision needs a restart to run with it.
fn needs_restart(pool: &Pool, machine: &Machine) -> bool {
    let current = machine.written.as_ref().filter(|written| pool.is_current(written));
    current.is_some_and(|written| {
        matches!(
            required_transition(pool, machine, written),
            InstanceTransition::Restart | InstanceTransition::Recreation
        )
    })
}

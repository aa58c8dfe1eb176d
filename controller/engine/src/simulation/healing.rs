//! Healing: the controller removes no ready and no protected machine, none while too many are unhealthy, and
//! more machines exist only while others are stuck.

use std::time::Duration;

use vmpool_api::Share;

use super::api::{Api, BrokenInvariant, PoolHistoryEntry, RequestBasis, RequestRefusal, check_invariant};
use crate::healing::setting::HealingPolicy;
use crate::ledger::VersionedFacts;
use crate::model::{Machine, MachineActivity, ObjectId};
use crate::plan::{DeleteReason, ObservedPool};
use crate::{Plan, PoolAction};

/// Times that are short beside a simulation.
pub(super) const HEALING: HealingPolicy = HealingPolicy {
    not_ready_for: Duration::from_secs(5),
    start_timeout: Duration::from_secs(10),
    max_unhealthy: Share::Percent(60),
    replace_stuck_after: Duration::from_secs(8),
};

impl Api {
    /// A machine that the controller replaces because it is not ready. I20: at the version that was planned
    /// with, it was not ready, and healing was on. I12: it was not protected.
    pub(super) fn heal(
        &mut self,
        id: &ObjectId,
        planned: Option<u64>,
        basis: RequestBasis,
    ) -> Result<Result<VersionedFacts<Machine>, RequestRefusal>, BrokenInvariant> {
        let machine = match self.machines.find(id) {
            Ok(machine) => machine,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_planned = planned == Some(self.machines.objects[&id.name].version);
        if machine.terminating || !is_planned {
            return Ok(Err(RequestRefusal::Conflict));
        }
        check_invariant(self.history[basis.pool].max_unhealthy().is_some(), || {
            format!("I20: {id} is replaced although healing is off")
        })?;
        check_invariant(machine.standby.is_none(), || {
            format!("I17: the standby machine {id} is replaced as an active one")
        })?;
        check_invariant(machine.activity != MachineActivity::Running, || {
            format!("I20: {id} is replaced although it is ready")
        })?;
        check_invariant(!machine.is_protected(self.timestamp()), || {
            format!("I12: {id} was replaced while it is protected")
        })?;
        self.others_removals.push(self.machines.log.len());
        Ok(self.change(id, |machine| machine.terminating = true))
    }

    /// How many machines count as gone in a plan with this basis: those whose deletion does not end, as many
    /// as one of the settings that it may have read allows.
    pub(super) fn count_stuck(&self, basis: RequestBasis) -> usize {
        let limits = self.history[basis.pool..].iter().filter_map(PoolHistoryEntry::max_unhealthy);
        let is_stuck = |machine: &Machine| {
            let age = machine.terminating_since.map(|since| self.timestamp().duration_since(since));
            age.is_some_and(|age| age.unsigned_abs() >= HEALING.replace_stuck_after)
        };
        let stuck = self.pool_machines().filter(|machine| is_stuck(machine)).count();
        stuck.min(limits.max().unwrap_or_default())
    }
}

/// I20, for a plan: it replaces machines only while no more than `maxUnhealthy` are unhealthy in the state
/// that it was computed from, and at most as many at once as that and the disruption budget allow. Machines
/// of which only the memory of the controller shows since when they are not ready do not count here.
pub(super) fn check_healing_plan(observed: &ObservedPool<'_>, plan: &Plan) -> Result<(), BrokenInvariant> {
    let heals =
        |action: &&PoolAction| matches!(action, PoolAction::Delete { reason: DeleteReason::NotReady, .. });
    let healed = plan.actions.iter().filter(heals).count();
    if healed == 0 {
        return Ok(());
    }
    let pool = observed.pool;
    let limit = pool.healing.map_or(0, |healing| healing.ceiling(pool.desired));
    let unhealthy =
        observed.pool_machines().filter(|machine| is_reported_unhealthy(observed, machine)).count();
    check_invariant(unhealthy <= limit, || {
        format!("I20: {healed} machines are replaced while {unhealthy} are unhealthy and {limit} may be")
    })?;
    let width = pool.rollout.budget.of(pool.desired).min(limit);
    check_invariant(healed <= width, || format!("I21: {healed} machines are replaced where {width} may be"))
}

/// Whether the machine is unhealthy by the time that the platform reports.
fn is_reported_unhealthy(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    let has_lasted =
        |since: jiff::Timestamp, time: Duration| observed.now.duration_since(since).unsigned_abs() >= time;
    let since = machine.start_health.not_ready_since;
    !machine.terminating
        && machine.activity == MachineActivity::NotRunning
        && has_lasted(machine.created, HEALING.start_timeout)
        && since.is_some_and(|since| has_lasted(since, HEALING.not_ready_for))
}

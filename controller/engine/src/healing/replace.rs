//! Healing: the replacement of machines that have not been ready for too long.
//!
//! If more than `maxUnhealthy` machines are unhealthy or being replaced, no further one is replaced: the
//! cause is probably outside the machines. A machine uses budget from its deletion until its successor is
//! ready or is unhealthy as well. A successor that is unhealthy waits for its backoff and uses none, and
//! machines that were replaced less often come first. A machine that is never ready therefore delays no
//! other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::deletion::delete_unhealthy_machines;
use super::setting::HealingPolicy;
use crate::ids::Uid;
use crate::model::Machine;
use crate::plan::action::{DeleteReason, PoolAction};
use crate::plan::blocker::{Blocker, ProtectedStep};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;

/// How long a successor that is neither ready nor unhealthy uses budget, at least.
const LONGEST_START: Duration = Duration::from_mins(10);

pub(crate) fn plan_healing(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let pool = observed.pool;
    let Some(healing) = &pool.healing else { return };
    // The controller could create no machine in the place of a deleted one.
    if !pool.validation_errors.is_empty() {
        return;
    }
    let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
    let census = HealthCensus::count(observed, healing, &leaving);
    if let Some(next) = census.next {
        plan.requeue_in(next);
    }
    // In a surplus no machine would follow a deleted one. While the plan deletes a surplus, healing waits for
    // the next one: together, the two could leave no machine.
    if census.unhealthy.is_empty() || census.staying > pool.desired || plan.deletes_active_surplus() {
        return;
    }
    let (limit, affected) = (healing.ceiling(pool.desired), census.count_affected());
    if affected > limit {
        plan.blockers.push(Blocker::TooManyUnhealthy { affected, limit });
        return;
    }
    let (protected, due) = census.split_due(observed, plan);
    protected::block_protected_step(observed, plan, ProtectedStep::Replacement, &protected);
    let by_autohealing = plan.actions.iter().filter(|action| is_replacement(action)).count();
    let budget = pool.rollout.budget.of(pool.desired).min(limit);
    let left = budget.saturating_sub(census.replacing + by_autohealing);
    delete_unhealthy_machines(observed, plan, due, left, DeleteReason::NotReady);
}

fn is_replacement(action: &PoolAction) -> bool {
    matches!(action, PoolAction::Delete { reason: DeleteReason::Unhealthy, .. })
}

/// The health of the machines of a pool.
#[derive(Default)]
struct HealthCensus<'a> {
    /// The unhealthy machines that stay.
    unhealthy: Vec<&'a Arc<Machine>>,
    /// Unhealthy machines that the plan deletes, or whose removal was accepted.
    leaving: usize,
    /// The machines that stay.
    staying: usize,
    /// Successors that are not ready yet and not unhealthy.
    starting: usize,
    /// Machines that are being replaced, as far as they use budget.
    replacing: usize,
    /// Machines whose successors do not exist yet.
    without_successor: usize,
    /// The time until one more machine is unhealthy.
    next: Option<Duration>,
}

impl<'a> HealthCensus<'a> {
    fn count(observed: &ObservedPool<'a>, healing: &HealingPolicy, leaving: &BTreeSet<Uid>) -> Self {
        let failures = &observed.memory.start_failures;
        let targets = observed.pool.record.accepted_uids();
        let mut census = Self::default();
        let (mut live, mut ending, mut replaced) = (0, 0, 0);
        for machine in observed.pool_machines() {
            let is_successor = failures.is_replacement(&machine.id.name);
            replaced += usize::from(is_successor);
            if machine.terminating {
                // After a change of leaders, only this shows that it may be replaced.
                ending += usize::from(!machine.is_ready());
                continue;
            }
            // `replicas` was lowered for the target of an accepted removal, which may still drain.
            let is_target = targets.contains(&machine.id.uid);
            live += usize::from(!is_target);
            census.add(observed, healing, machine, is_target || leaving.contains(&machine.id.uid));
        }
        let missing = observed.pool.desired.saturating_sub(live);
        let gone = failures.replaced_count().saturating_sub(replaced);
        census.without_successor = missing.min(ending + gone);
        census.replacing += census.without_successor;
        census
    }

    fn add(
        &mut self,
        observed: &ObservedPool<'a>,
        healing: &HealingPolicy,
        machine: &'a Arc<Machine>,
        is_leaving: bool,
    ) {
        let left = time_until_unhealthy(observed, healing, machine);
        let is_unhealthy = left.is_some_and(|left| left.is_zero());
        self.staying += usize::from(!is_leaving);
        match (is_unhealthy, is_leaving) {
            (true, false) => self.unhealthy.push(machine),
            (true, true) => self.leaving += 1,
            (false, _) => self.next = self.next.into_iter().chain(left).min(),
        }
        let failures = &observed.memory.start_failures;
        // A user may stop a successor for ever.
        if !is_unhealthy && machine.is_unready() && failures.is_replacement(&machine.id.name) {
            self.starting += 1;
            let age = failures.since_replaced(&machine.id.name, observed.uptime);
            self.replacing += usize::from(age < healing.start_timeout.max(LONGEST_START));
        }
    }

    /// How many machines are unhealthy or being replaced.
    fn count_affected(&self) -> usize {
        self.unhealthy.len() + self.leaving + self.starting + self.without_successor
    }

    /// The unhealthy machines whose backoff has ended: the protected ones, and the others.
    fn split_due(
        &self,
        observed: &ObservedPool<'_>,
        plan: &mut Plan,
    ) -> (Vec<&'a Arc<Machine>>, Vec<&'a Arc<Machine>>) {
        let mut due = self.unhealthy.clone();
        due.retain(|machine| {
            let delay = observed.memory.start_failures.delay(&machine.id.name, observed.uptime);
            if !delay.is_zero() {
                plan.requeue_in(delay);
            }
            delay.is_zero()
        });
        due.into_iter().partition(|machine| machine.is_protected(observed.now))
    }
}

/// The time until the machine is unhealthy; `None` if it is ready or has a reason not to be.
fn time_until_unhealthy(
    observed: &ObservedPool<'_>,
    healing: &HealingPolicy,
    machine: &Machine,
) -> Option<Duration> {
    let unready = observed.memory.unready.unready_for(machine, observed.now, observed.uptime)?;
    let starts = healing.start_timeout.saturating_sub(observed.age_of(machine));
    Some(starts.max(healing.not_ready_for.saturating_sub(unready)))
}

/// The machines of the pool that are unhealthy; none if healing is off.
pub fn count_unhealthy(observed: &ObservedPool<'_>) -> usize {
    let Some(healing) = &observed.pool.healing else { return 0 };
    let is_unhealthy = |machine: &&Arc<Machine>| {
        time_until_unhealthy(observed, healing, machine).is_some_and(|left| left.is_zero())
    };
    observed.pool_machines().filter(is_unhealthy).count()
}

#[cfg(test)]
mod tests;

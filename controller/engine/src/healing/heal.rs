//! Autohealing: which machines the controller replaces because they do not start.
//!
//! A machine is replaced after a number of failed starts, or when the platform has reported a failing state
//! for a time. The next machine with its name gets new storage. Each ordinal has a backoff of its own, and at
//! most as many machines as the disruption budget allows are replaced at the same time, so that a template
//! that never starts costs few machines.
//!
//! A machine uses budget from its deletion until its successor runs or fails. A successor that failed uses
//! none, and machines that were replaced less often come first. A machine that can never start therefore
//! delays no other.

use std::collections::BTreeSet;
use std::time::Duration;

use super::deletion::delete_unhealthy_machines;
use crate::ids::Uid;
use crate::model::{AutohealingPolicy, Machine, MachineActivity};
use crate::plan::action::DeleteReason;
use crate::plan::blocker::ProtectedStep;
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::protected;

/// How long a replacement that neither runs nor fails uses budget, at least. An image can take long to
/// import.
const LONGEST_START: Duration = Duration::from_mins(10);

pub(crate) fn plan_autohealing(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let (pool, failures) = (observed.pool, &observed.memory.start_failures);
    let Some(healing) = pool.autohealing else { return };
    // The controller could create no machine in the place of a deleted one.
    if !pool.validation_errors.is_empty() {
        return;
    }
    let leaving: BTreeSet<Uid> = plan.leaving().cloned().collect();
    let targets = pool.record.accepted_uids();
    let (mut due, mut replacing) = (Vec::new(), 0);
    let (mut existing, mut staying, mut replaced) = (0, 0, 0);
    for machine in observed.pool_machines() {
        // `replicas` was lowered for the target of an accepted removal, which may still drain.
        let is_target = targets.contains(&machine.id.uid);
        existing += usize::from(!is_target);
        let is_replacement = failures.is_replacement(&machine.id.name);
        replaced += usize::from(is_replacement);
        let failed_for = failed_for(observed, healing, machine);
        replacing += usize::from(is_being_replaced(observed, healing, machine, failed_for));
        if machine.terminating || is_target || leaving.contains(&machine.id.uid) {
            continue;
        }
        staying += 1;
        let Some(left) = time_until_replacement(observed, healing, machine, failed_for) else { continue };
        if left.is_zero() {
            due.push(machine);
        } else {
            plan.requeue_in(left);
        }
    }
    // The deletion of a machine of a surplus that the pool keeps is a scale-in: none would follow it. While
    // the plan deletes a surplus, autohealing waits for the next one.
    if staying > pool.desired || plan.deletes_active_surplus() {
        return;
    }
    // Machines that are gone, and whose successors are not created yet.
    let missing = pool.desired.saturating_sub(existing);
    replacing += failures.replaced_count().saturating_sub(replaced).min(missing);
    let (protected, due): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|machine| machine.is_protected(observed.now));
    protected::block_protected_step(observed, plan, ProtectedStep::Replacement, &protected);
    let budget = pool.rollout.budget.of(pool.desired).saturating_sub(replacing);
    delete_unhealthy_machines(observed, plan, due, budget, DeleteReason::Unhealthy);
}

/// Whether the replacement of a machine is not complete. After a change of leaders, only the deletion shows
/// that the controller replaces a machine.
fn is_being_replaced(
    observed: &ObservedPool<'_>,
    healing: AutohealingPolicy,
    machine: &Machine,
    failed_for: Option<Duration>,
) -> bool {
    let failures = &observed.memory.start_failures;
    let is_replacement = failures.is_replacement(&machine.id.name);
    if machine.terminating {
        return machine.discards_storage || is_replacement && machine.activity != MachineActivity::Running;
    }
    // A user may stop it for ever, and a machine that failed again waits for its backoff.
    if !is_replacement
        || matches!(machine.activity, MachineActivity::Running | MachineActivity::Stopped)
        || failed_for.is_some_and(|failed| failed >= healing.after)
    {
        return false;
    }
    // The platform may report for ever that it is starting.
    failures.since_replaced(&machine.id.name, observed.uptime) < healing.after.max(LONGEST_START)
}

/// How long the machine has failed; `None` if it does not fail. A machine with too many failed starts has
/// failed for ever.
fn failed_for(
    observed: &ObservedPool<'_>,
    healing: AutohealingPolicy,
    machine: &Machine,
) -> Option<Duration> {
    let (health, failures) = (&machine.start_health, &observed.memory.start_failures);
    if health.failed_starts >= healing.failed_starts {
        return Some(Duration::MAX);
    }
    if !health.failing {
        return None;
    }
    // The time that the platform reports begins again whenever the reason changes, so the longer one counts.
    let reported = health.not_ready_since.map(|since| observed.now.duration_since(since));
    let reported = reported.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default();
    Some(failures.failing_for(&machine.id.uid, observed.uptime).max(reported))
}

/// The time until the machine is replaced; `None` if it does not fail.
fn time_until_replacement(
    observed: &ObservedPool<'_>,
    healing: AutohealingPolicy,
    machine: &Machine,
    failed_for: Option<Duration>,
) -> Option<Duration> {
    let delay = observed.memory.start_failures.delay(&machine.id.name, observed.uptime);
    Some(healing.after.saturating_sub(failed_for?).max(delay))
}

#[cfg(test)]
mod tests;

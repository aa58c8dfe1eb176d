//! Steps that wait because a machine is protected.

use std::sync::Arc;
use std::time::Duration;

use crate::model::Machine;
use crate::plan::blocker::{Blocker, ProtectedStep};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::protection::{CLOCK_SKEW, time_after};

/// Records that `step` waits for the protection of these machines to end, and plans again when the first one
/// ends.
pub(crate) fn block_protected_step(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    step: ProtectedStep,
    machines: &[&Arc<Machine>],
) {
    for machine in machines {
        let until = machine.protection.as_ref().and_then(|protection| protection.end());
        plan.blockers.push(Blocker::Protection { machine: machine.id.name.clone(), step, until });
        replan_after_protection(observed, plan, machine);
    }
}

/// Plans again when the protection of the machine ends.
pub(crate) fn replan_after_protection(observed: &ObservedPool<'_>, plan: &mut Plan, machine: &Machine) {
    if let Some(until) = machine.protection.as_ref().and_then(|protection| protection.end()) {
        let left = time_after(until, CLOCK_SKEW).duration_since(observed.now);
        plan.requeue_in(Duration::try_from(left).unwrap_or_default());
    }
}

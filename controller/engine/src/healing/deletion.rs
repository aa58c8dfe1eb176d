//! Deletions of machines that healing replaces.

use std::sync::Arc;

use crate::model::Machine;
use crate::plan::action::{ApplyStage, DeleteReason, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

/// Deletes as many of the machines as budget and backoff allow, those that were replaced least often first.
pub(super) fn delete_unhealthy_machines(
    observed: &ObservedPool<'_>,
    plan: &mut Plan,
    mut due: Vec<&Arc<Machine>>,
    budget: usize,
    reason: DeleteReason,
) {
    if due.is_empty() {
        return;
    }
    plan.wants.remove = true;
    let width = match observed.memory.backoff(ApplyStage::Remove).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::Remove, left),
    };
    let failures = &observed.memory.start_failures;
    due.sort_unstable_by(|a, b| {
        let times = |machine: &Machine| failures.replacements(&machine.id.name);
        times(a).cmp(&times(b)).then_with(|| a.id.cmp(&b.id))
    });
    let machines = due.into_iter().take(budget.min(width)).map(|machine| machine.id.clone());
    plan.actions.extend(machines.map(|machine| PoolAction::Delete { machine, reason }));
}

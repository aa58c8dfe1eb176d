//! Protection whose time is not valid: the controller writes a valid one, so that no machine stays protected
//! for ever.

use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;

pub(crate) fn plan_protection(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let shortened = observed.owned_machines().filter(|machine| !machine.terminating).filter_map(|machine| {
        let until = machine.protection.as_ref()?.shortened(observed.now, observed.pool.max_protection)?;
        Some(PoolAction::ShortenProtection { machine: machine.id.clone(), until })
    });
    let shortened: Vec<PoolAction> = shortened.collect();
    if shortened.is_empty() {
        return;
    }
    plan.wants.relabel = true;
    let pace = observed.memory.backoff(ApplyStage::Relabel).batch_size(observed.uptime);
    plan.extend_by(observed, ApplyStage::Relabel, pace, shortened);
}

#[cfg(test)]
mod tests;

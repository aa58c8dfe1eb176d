//! Protection whose time is not valid: the controller writes a valid one, so that no machine stays protected for ever.

use super::action::{Action, Stage};
use super::observed::Observed;
use super::result::Plan;

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let shortened = observed.pool_machines().filter(|machine| !machine.terminating).filter_map(|machine| {
        let until = machine.protection.as_ref()?.shortened(observed.now, observed.pool.max_protection)?;
        Some(Action::ShortenProtection { machine: machine.id.clone(), until })
    });
    let shortened: Vec<Action> = shortened.collect();
    if shortened.is_empty() {
        return;
    }
    plan.wants.relabel = true;
    let pace = observed.memory.relabeling.batch_size(observed.uptime);
    plan.extend_by(observed, Stage::Relabel, pace, shortened);
}

#[cfg(test)]
mod tests;

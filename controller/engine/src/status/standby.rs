//! The condition about standby machines that other clients started.

use super::text::list_some_names;
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::model::Machine;
use crate::plan::observed::ObservedPool;
use crate::standby::StandbyState;

/// The condition about standby machines that another client started; `None` if there are none.
pub(super) fn standby_started_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    let is_started = |machine: &Machine| {
        let is_started = machine.standby.as_deref().is_some_and(StandbyState::is_started_by_client);
        is_started && !machine.terminating && !observed.is_activating(machine)
    };
    let started = observed.standby_machines().filter(|machine| is_started(machine));
    let names: Vec<&str> = started.map(|machine| &*machine.id.name).collect();
    if names.is_empty() {
        return None;
    }
    let (machine, verb) = if names.len() == 1 { ("machine", "was") } else { ("machines", "were") };
    Some(ComputedCondition {
        kind: ConditionType::StandbyStarted,
        holds: true,
        reason: ConditionReason::StartedByClient,
        message: format!(
            "standby {machine} {} {verb} started by another client, so the controller neither stops nor activates such \
             machines: stop or delete them",
            list_some_names(names)
        ),
    })
}

#[cfg(test)]
mod tests;

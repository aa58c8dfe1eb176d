//! Draining and the disruption budget.

use super::mark::DrainReason;
use crate::model::Machine;

/// Whether the machine drains for a rollout or for its replacement, so that it uses disruption budget.
pub(crate) fn is_draining_within_budget(machine: &Machine) -> bool {
    machine.drain_mark().is_some_and(|mark| uses_budget(mark.reason))
}

/// Whether the drains for this step use disruption budget.
pub(super) fn uses_budget(reason: DrainReason) -> bool {
    match reason {
        DrainReason::Rollout | DrainReason::Recycling => true,
        DrainReason::ScaleDown | DrainReason::TargetedRemoval => false,
    }
}

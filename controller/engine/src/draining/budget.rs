//! Draining and the disruption budget.

use super::mark::DrainReason;
use crate::model::Machine;

/// Whether the machine drains for a rollout, so that it uses disruption budget.
pub(crate) fn is_draining_for_rollout(machine: &Machine) -> bool {
    machine.drain_mark().is_some_and(|mark| mark.reason == DrainReason::Rollout)
}

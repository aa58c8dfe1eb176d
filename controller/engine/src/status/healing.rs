//! The condition `HealingBlocked`: healing replaces no further machine, because too many are unhealthy.

use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::plan::Blocker;
use crate::plan::observed::ObservedPool;

/// Why healing replaces no further machine, as of the last plan; `None` if it does, or if the pool is paused.
pub fn describe_blocked_healing(observed: &ObservedPool<'_>) -> Option<String> {
    let mut blockers = observed.memory.blockers.iter().filter(|_| !observed.pool.paused);
    let blocker = blockers.find(|blocker| matches!(blocker, Blocker::TooManyUnhealthy { .. }))?;
    Some(blocker.to_string())
}

/// The condition; `None` if healing is not blocked.
pub(super) fn healing_blocked_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    Some(ComputedCondition {
        kind: ConditionType::HealingBlocked,
        holds: true,
        reason: ConditionReason::TooManyUnhealthy,
        message: describe_blocked_healing(observed)?,
    })
}

#[cfg(test)]
mod tests;

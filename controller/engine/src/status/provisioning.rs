//! The conditions about limits on provisioning: `ProvisioningLimited` while one delays creates, and
//! `StartOverdue` while machines no longer count because they have not been ready for too long.

use std::time::Duration;

use super::text::list_some_names;
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::plan::observed::ObservedPool;
use crate::plan::{Blocker, LimitedProvisioning, ProvisioningScope};
use crate::scale_up::provisioning::list_overdue_machines;

/// The limit that delays creates, as of the last plan.
pub fn find_delaying_limit<'a>(observed: &'a ObservedPool<'_>) -> Option<&'a LimitedProvisioning> {
    let mut blockers = observed.memory.blockers.iter();
    blockers.find_map(|blocker| match blocker {
        Blocker::Provisioning(limited) => Some(limited),
        _ => None,
    })
}

/// The condition about the limit; `None` if none delays creates.
pub(super) fn provisioning_limited_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    let limited = find_delaying_limit(observed).filter(|_| !observed.pool.paused)?;
    Some(ComputedCondition {
        kind: ConditionType::ProvisioningLimited,
        holds: true,
        reason: match limited.scope {
            ProvisioningScope::Pool => ConditionReason::MaxProvisioningReached,
            ProvisioningScope::StorageClass(_) => ConditionReason::StorageClassLimitReached,
        },
        message: limited.to_string(),
    })
}

/// The condition about machines that no longer count; `None` if there are none, or without a limit.
pub(super) fn start_overdue_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    observed.provisioning_limit()?;
    let names: Vec<&str> = list_overdue_machines(observed).map(|machine| &*machine.id.name).collect();
    if names.is_empty() {
        return None;
    }
    let (machine, verb) = if names.len() == 1 { ("machine", "has") } else { ("machines", "have") };
    let timeout = describe_timeout(observed.pool.start_timeout());
    Some(ComputedCondition {
        kind: ConditionType::StartOverdue,
        holds: true,
        reason: ConditionReason::StartTimeoutExceeded,
        message: format!(
            "{machine} {} {verb} not been ready in the {timeout} after the creation, so maxProvisioning no \
             longer counts what has not started: check or delete such machines",
            list_some_names(names)
        ),
    })
}

/// The timeout in the largest unit that divides it.
fn describe_timeout(timeout: Duration) -> String {
    let seconds = timeout.as_secs();
    let (count, unit) =
        if seconds.is_multiple_of(60) { (seconds / 60, "minute") } else { (seconds, "second") };
    if count == 1 { unit.to_owned() } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests;

//! The condition `BlockedByProtection`: which steps wait for the protection of which machines to end.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::text::{join_message_parts, list_some_names, machine_count_text, verb_for_count};
use crate::condition::{ComputedCondition, ConditionReason, ConditionType};
use crate::plan::observed::ObservedPool;
use crate::plan::{Blocker, ProtectedStep};
use crate::protection::timestamp_text;

/// The condition; `None` if protection blocks no step.
pub(super) fn blocked_by_protection_condition(observed: &ObservedPool<'_>) -> Option<ComputedCondition> {
    let mut steps: BTreeMap<ProtectedStep, (Vec<&str>, Option<Timestamp>)> = BTreeMap::new();
    for blocker in &observed.memory.blockers {
        if let Blocker::Protection { machine, step, until } = blocker {
            let (names, first) = steps.entry(*step).or_default();
            names.push(machine);
            *first = first.iter().chain(until).min().copied();
        }
    }
    if steps.is_empty() || observed.pool.paused {
        return None;
    }
    let message = join_message_parts(
        steps.into_iter().map(|(step, (names, first))| describe_protected_step(observed, step, names, first)),
    );
    Some(ComputedCondition {
        kind: ConditionType::BlockedByProtection,
        holds: true,
        reason: ConditionReason::ProtectedMachines,
        message,
    })
}

/// What waits, for which machines, and when the first protection ends.
fn describe_protected_step(
    observed: &ObservedPool<'_>,
    step: ProtectedStep,
    protected: Vec<&str>,
    first: Option<Timestamp>,
) -> String {
    let (count, which) = (protected.len(), list_some_names(protected));
    let one = count == 1;
    let machine = if one { "machine" } else { "machines" };
    let what = match step {
        ProtectedStep::ScaleDown => {
            let desired = observed.pool.desired;
            format!("the scale-down to {desired} waits for protected {machine} {which}")
        }
        ProtectedStep::Replacement => {
            format!(
                "protected {machine} {which} {} not replaced, although {} not ready",
                verb_for_count(count),
                pronoun_with_verb(one)
            )
        }
        ProtectedStep::Recycling => format!("the replacement waits for protected {machine} {which}"),
        ProtectedStep::Rollout => {
            format!(
                "the rollout waits for {} ({which}), which {} protected",
                machine_count_text(count),
                verb_for_count(count)
            )
        }
    };
    match first {
        Some(first) if one => format!("{what}; its protection ends at {}", timestamp_text(first)),
        Some(first) => format!("{what}; the first protection ends at {}", timestamp_text(first)),
        None => what,
    }
}

fn pronoun_with_verb(one: bool) -> &'static str {
    if one { "it is" } else { "they are" }
}

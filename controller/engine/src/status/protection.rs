//! The condition `BlockedByProtection`: which steps wait for the protection of which machines to end.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::text::{are, join, machines, names};
use crate::condition::{self, Wanted};
use crate::plan::observed::Observed;
use crate::plan::{Blocker, ProtectedStep};
use crate::protection::text_of;

/// The condition; `None` if protection blocks no step.
pub(super) fn blocked(observed: &Observed<'_>) -> Option<Wanted> {
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
    let message =
        join(steps.into_iter().map(|(step, (names, first))| sentence(observed, step, names, first)));
    Some(Wanted {
        kind: condition::BLOCKED_BY_PROTECTION,
        holds: true,
        reason: condition::PROTECTED_MACHINES,
        message,
    })
}

/// What waits, for which machines, and when the first protection ends.
fn sentence(
    observed: &Observed<'_>,
    step: ProtectedStep,
    protected: Vec<&str>,
    first: Option<Timestamp>,
) -> String {
    let (count, which) = (protected.len(), names(protected));
    let one = count == 1;
    let machine = if one { "machine" } else { "machines" };
    let what = match step {
        ProtectedStep::ScaleDown => {
            let desired = observed.pool.desired;
            format!("the scale-down to {desired} waits for protected {machine} {which}")
        }
        ProtectedStep::Replacement => {
            format!(
                "protected {machine} {which} {} not replaced, although {} not start",
                are(count),
                does(one)
            )
        }
        ProtectedStep::Rollout => {
            format!("the rollout waits for {} ({which}), which {} protected", machines(count), are(count))
        }
    };
    match first {
        Some(first) if one => format!("{what}; its protection ends at {}", text_of(first)),
        Some(first) => format!("{what}; the first protection ends at {}", text_of(first)),
        None => what,
    }
}

fn does(one: bool) -> &'static str {
    if one { "it does" } else { "they do" }
}

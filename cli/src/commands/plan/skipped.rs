//! The machines that a scale-down would delete next, and does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_controller::Preview;
use vmpool_engine::model::{MachineActivity, ScaleDownPolicy};
use vmpool_engine::plan::{Blocker, DeleteReason};
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::{Machine, PoolAction, Uid};

/// Why the scale-down of the plan deletes other machines than its order says, or fewer than are surplus.
pub(super) fn list_skipped(preview: &Preview, now: Timestamp) -> Vec<String> {
    let pool = &preview.pool;
    let policy = pool.scale_down_policy;
    let mut live: Vec<&Arc<Machine>> = preview
        .machines
        .iter()
        .filter(|machine| machine.belongs_to(&pool.id) && !machine.terminating)
        .collect();
    let surplus = live.len().saturating_sub(pool.desired);
    live.sort_by(|a, b| policy.compare(a, b));
    let chosen = surplus_deletions(preview);
    if policy.deletes_only_targets() {
        let remove = format!(
            "{surplus} machines are surplus; with scaleDownPolicy Explicit, `kubectl vmpool remove {} MACHINE` removes \
             them by name",
            pool.id.name
        );
        return (surplus > 0).then_some(remove).into_iter().collect();
    }
    if !policy.deletes_whole_surplus() {
        let left = surplus.saturating_sub(chosen.len());
        let stays = format!(
            "{left} surplus machines are not stopped, and this scale-down removes stopped machines only"
        );
        return (left > 0).then_some(stays).into_iter().collect();
    }
    let mut skipped = skipped_for_protection(policy, &live, &chosen, now);
    skipped.retain(|place| !is_blocker(preview, live[*place]));
    skipped.into_iter().map(|place| describe_protected(policy, place, &live, now)).collect()
}

/// Whether the plan says already that a step waits for the protection of the machine.
fn is_blocker(preview: &Preview, machine: &Machine) -> bool {
    let is_it = |blocker: &Blocker| matches!(blocker, Blocker::Protection { machine: name, .. } if **name == *machine.id.name);
    preview.next.blockers.iter().any(is_it)
}

/// The machines that the plan deletes because they are surplus.
fn surplus_deletions(preview: &Preview) -> BTreeSet<Uid> {
    let actions = preview.next.actions.iter().chain(&preview.later.actions);
    let deleted = actions.filter_map(|action| {
        let PoolAction::Delete { machine, reason: DeleteReason::Surplus { .. } } = action else {
            return None;
        };
        Some(machine.uid.clone())
    });
    deleted.collect()
}

/// The places of the protected machines in `live`, which is in the order of deletion, that precede a chosen
/// one. A machine that has been ready leaves after those that have not, unless the ordinal decides.
fn skipped_for_protection(
    policy: ScaleDownPolicy,
    live: &[&Arc<Machine>],
    chosen: &BTreeSet<Uid>,
    now: Timestamp,
) -> Vec<usize> {
    let is_compared = |skipped: &Machine, chosen: &Machine| {
        policy.is_by_ordinal() || !has_been_ready(skipped) || has_been_ready(chosen)
    };
    let precedes = |place: usize| {
        let mut later = live[place + 1..].iter();
        later.any(|machine| chosen.contains(&machine.id.uid) && is_compared(live[place], machine))
    };
    let is_skipped = |place: &usize| {
        let machine = live[*place];
        !chosen.contains(&machine.id.uid) && machine.is_protected(now) && precedes(*place)
    };
    (0..live.len()).filter(is_skipped).collect()
}

fn has_been_ready(machine: &Machine) -> bool {
    machine.activity == MachineActivity::Running || machine.been_ready
}

fn describe_protected(
    policy: ScaleDownPolicy,
    place: usize,
    live: &[&Arc<Machine>],
    now: Timestamp,
) -> String {
    let machine = live[place];
    let rank = if place == 0 {
        policy.description_of_first().to_owned()
    } else {
        format!("number {} in the order", place + 1)
    };
    let protection = machine.protection.as_ref().filter(|protection| protection.protects(now));
    let end = protection.and_then(|protection| protection.end());
    let end = end.map_or_else(
        || ", and the end of its protection cannot be read".to_owned(),
        |end| format!(" until {}", timestamp_text(end)),
    );
    format!("{rank}, {}, is protected{end}", machine.id.name)
}

#[cfg(test)]
mod tests;

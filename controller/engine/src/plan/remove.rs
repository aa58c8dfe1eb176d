//! Who leaves: those whom somebody named, and as many others as are more than desired.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Action, Blocker, DeleteReason, Observed, Plan, Stage};
use crate::model::{Activity, Machine, ScaleDownPolicy, Uid};

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let record = &observed.pool.record;
    let accepted: BTreeSet<&Uid> = record.accepted().map(|target| &target.uid).collect();
    // One that is terminating already leaves for whatever reason; the count was lowered, so it is not replaced.
    let live = observed.members().filter(|member| !member.terminating);
    let (mut named, others): (Vec<_>, Vec<_>) = live.partition(|member| accepted.contains(&member.id.uid));
    named.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let surplus = surplus(observed, plan, others);
    if named.is_empty() && surplus.is_empty() {
        return;
    }
    plan.wants.remove = true;
    let width = match observed.memory.removing.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Remove, left),
    };
    if width < named.len() + surplus.len() {
        // The rest comes with the next pass, which nobody has to wake.
        plan.look_again(Duration::ZERO);
    }
    let named = named.into_iter().map(|member| (member, DeleteReason::Named));
    let surplus = surplus.into_iter().map(|member| (member, DeleteReason::Surplus));
    let mut leaving: Vec<(&Arc<Machine>, DeleteReason)> = named.chain(surplus).collect();
    // Who leaves is settled. One whose deletion was refused lets the others go first, or it would hold them up for ever.
    leaving.sort_by_key(|(member, _)| observed.memory.was_refused(&member.id.name));
    plan.actions.extend(
        leaving
            .into_iter()
            .take(width)
            .map(|(member, reason)| Action::Delete { member: member.id.clone(), reason }),
    );
}

/// Those of the members that nobody named who leave because there are more than desired, in their order. `live` are
/// the members of which nobody said yet that they leave.
fn surplus<'a>(
    observed: &Observed<'_>,
    plan: &mut Plan,
    mut live: Vec<&'a Arc<Machine>>,
) -> Vec<&'a Arc<Machine>> {
    let policy = observed.pool.scale_down_policy;
    // A create without an answer may never happen: only members that are known to exist make a surplus.
    let victims = live.len().saturating_sub(observed.pool.desired);
    if policy == ScaleDownPolicy::Explicit || victims == 0 {
        return Vec::new();
    }
    // Whose deletion may be under way already leaves before anybody else does.
    let sure = |member: &Machine| !observed.memory.is_delete_unconfirmed(&member.id.uid, observed.uptime);
    let order = |a: &&Arc<Machine>, b: &&Arc<Machine>| {
        sure(a).cmp(&sure(b)).then_with(|| leaving_order(policy, a, b))
    };
    // Most members stay, in whatever order: only the others are sorted, so that the pass stays linear.
    if victims < live.len() {
        live.select_nth_unstable_by(victims, order);
        live.truncate(victims);
    }
    live.sort_unstable_by(order);
    // Who is about to be named leaves for that, if at all: one machine must not answer for two decrements.
    let reserved: BTreeSet<&Uid> = observed.pool.record.reserved().map(|target| &target.uid).collect();
    live.retain(|member| {
        let free = !reserved.contains(&member.id.uid);
        if !free {
            plan.blockers.push(Blocker::Reservation { machine: member.id.name.clone() });
        }
        free
    });
    live
}

/// Who comes before whom. Readiness decides only between machines of the same age, and the name between twins, so
/// that the same world always gives the same victims.
pub(super) fn leaving_order(policy: ScaleDownPolicy, a: &Machine, b: &Machine) -> Ordering {
    let idle_first = (a.activity == Activity::Running).cmp(&(b.activity == Activity::Running));
    match policy {
        ScaleDownPolicy::NewestFirst => {
            b.created.cmp(&a.created).then(idle_first).then_with(|| b.id.name.cmp(&a.id.name))
        }
        ScaleDownPolicy::OldestFirst | ScaleDownPolicy::Explicit => {
            a.created.cmp(&b.created).then(idle_first).then_with(|| a.id.name.cmp(&b.id.name))
        }
        ScaleDownPolicy::LowestOrdinalFirst => (ordinal(a), &a.id.name).cmp(&(ordinal(b), &b.id.name)),
        ScaleDownPolicy::HighestOrdinalFirst => {
            (Reverse(ordinal(a)), &a.id.name).cmp(&(Reverse(ordinal(b)), &b.id.name))
        }
    }
}

/// The number after the last dash; 0 where there is none.
fn ordinal(machine: &Machine) -> u64 {
    machine.id.name.rsplit('-').next().and_then(|tail| tail.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! Who leaves when there are more members than desired.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;
use std::time::Duration;

use super::{Action, DeleteReason, Observed, Plan, Stage};
use crate::model::{Activity, Removal, Replica};

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    let removal = observed.pool.removal;
    if removal == Removal::Explicit {
        return;
    }
    // A create without an answer may never happen: only members that are known to exist make a surplus.
    let (leaving, mut live): (Vec<_>, Vec<_>) = observed.members().partition(|member| member.terminating);
    let surplus = (leaving.len() + live.len()).saturating_sub(observed.pool.desired);
    let victims = surplus.saturating_sub(leaving.len());
    if victims == 0 {
        return;
    }
    plan.wants.remove = true;
    let width = match observed.memory.removing.width(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::Remove, left),
    };
    if width < victims {
        // The rest comes with the next pass, which nobody has to wake.
        plan.look_again(Duration::ZERO);
    }
    // Whose deletion may be under way already leaves before anybody else does.
    let sure = |member: &Replica| !observed.memory.is_unsure_of(&member.id.uid, observed.uptime);
    let order = |a: &&Arc<Replica>, b: &&Arc<Replica>| {
        sure(a).cmp(&sure(b)).then_with(|| leaving_order(removal, a, b))
    };
    // Most members stay, in whatever order: only the others are sorted, so that the pass stays linear.
    if victims < live.len() {
        live.select_nth_unstable_by(victims, order);
        live.truncate(victims);
    }
    live.sort_unstable_by(order);
    // Who leaves is settled. One whose deletion was refused lets the others go first, or it would hold them up for ever.
    live.sort_by_key(|member| observed.memory.was_refused(&member.id.name));
    plan.actions.extend(
        live.into_iter()
            .take(width)
            .map(|member| Action::Delete { member: member.id.clone(), reason: DeleteReason::Surplus }),
    );
}

/// Who comes before whom. Readiness decides only between machines of the same age, and the name between twins, so
/// that the same world always gives the same victims.
pub(super) fn leaving_order(removal: Removal, a: &Replica, b: &Replica) -> Ordering {
    let idle_first = (a.activity == Activity::Running).cmp(&(b.activity == Activity::Running));
    match removal {
        Removal::NewestFirst => {
            b.created.cmp(&a.created).then(idle_first).then_with(|| b.id.name.cmp(&a.id.name))
        }
        Removal::OldestFirst | Removal::Explicit => {
            a.created.cmp(&b.created).then(idle_first).then_with(|| a.id.name.cmp(&b.id.name))
        }
        Removal::LowestOrdinalFirst => (ordinal(a), &a.id.name).cmp(&(ordinal(b), &b.id.name)),
        Removal::HighestOrdinalFirst => {
            (Reverse(ordinal(a)), &a.id.name).cmp(&(Reverse(ordinal(b)), &b.id.name))
        }
    }
}

/// The number after the last dash; 0 where there is none.
fn ordinal(machine: &Replica) -> u64 {
    machine.id.name.rsplit('-').next().and_then(|tail| tail.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;

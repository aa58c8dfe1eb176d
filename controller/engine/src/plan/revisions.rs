//! The revisions of the pool's template that are kept.

use std::collections::BTreeSet;

use super::{Action, Observed, Plan, Stage};
use crate::revision::RevisionId;

pub(super) fn plan(observed: &Observed<'_>, plan: &mut Plan) {
    if !observed.pool.flaws.is_empty() {
        return;
    }
    store(observed, plan);
    prune(observed, plan);
}

/// A revision is stored before any machine has it, so that its identity is fixed and so that it is known later what of
/// a machine was the pool's.
fn store(observed: &Observed<'_>, plan: &mut Plan) {
    let pool = observed.pool;
    if pool.revision_stored {
        return;
    }
    let rests_on_it = |action: &Action| matches!(action, Action::Create { .. } | Action::Update { .. });
    let first = plan.actions.iter().position(rests_on_it);
    // Somebody took it away, or an earlier version of ours stored none.
    let had = || observed.members().any(|member| member.written.as_ref() == Some(&pool.revision));
    if first.is_none() && !had() {
        return;
    }
    plan.wants.create = true;
    if let Err(left) = observed.memory.creating.batch_size(observed.uptime) {
        plan.actions.retain(|action| !rests_on_it(action));
        return plan.pause(Stage::Prepare, left);
    }
    let store = Action::StoreRevision { revision: pool.revision.clone() };
    plan.actions.insert(first.unwrap_or(plan.actions.len()), store);
}

/// Deletes the oldest revisions beyond the limit, of those that nobody needs: not the current one, and none that a
/// member names.
fn prune(observed: &Observed<'_>, plan: &mut Plan) {
    let (pool, limit) = (observed.pool, observed.pool.rollout.history);
    let current = usize::from(pool.revision_stored);
    // A machine may still appear that was made from whatever was current then: a create without an answer, or the one that
    // a former leader has sent under the name that this pass creates.
    let creates = plan.actions.iter().any(|action| matches!(action, Action::Create { .. }));
    if observed.stored.len() <= limit.saturating_add(current)
        || creates
        || !observed.unconfirmed_creates.is_empty()
    {
        return;
    }
    // And one may have been written to without an answer, and nobody has seen yet what it names now.
    if let Some(left) = observed.memory.rollout_attempts.next_confirmed(observed.uptime) {
        return plan.look_again(left);
    }
    let ids = observed.machines.iter().flat_map(|machine| [&machine.revision, &machine.written]).flatten();
    let named: BTreeSet<&RevisionId> =
        ids.filter(|id| **id != pool.revision).chain(&pool.rollout.pinned).collect();
    let unneeded = observed.stored.iter().filter(|id| **id != pool.revision && !named.contains(id));
    let unneeded: Vec<_> = unneeded.collect();
    let Some(surplus @ 1..) = unneeded.len().checked_sub(limit) else { return };
    plan.wants.clean_up = true;
    let width = match observed.memory.cleaning_up.batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.pause(Stage::CleanUp, left),
    };
    let pruned = unneeded.into_iter().take(surplus.min(width));
    plan.actions.extend(pruned.map(|revision| Action::PruneRevision { revision: revision.clone() }));
}

#[cfg(test)]
mod tests;

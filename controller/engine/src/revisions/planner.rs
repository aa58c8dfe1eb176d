//! Revisions: which ones the controller stores and deletes.

use std::collections::BTreeSet;

use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::revisions::RevisionId;

pub(crate) fn plan_revisions(observed: &ObservedPool<'_>, plan: &mut Plan) {
    if !observed.pool.validation_errors.is_empty() {
        return plan_inactive_revisions(observed, plan);
    }
    let stores = store_current_revision(observed, plan);
    restore_other_copies(observed, plan);
    prune_old_revisions(observed, plan);
    delete_copies(observed, plan, stores);
}

/// A pool whose machines the controller leaves as they are: it is paused, or its spec is invalid. Such a pool
/// does not keep an object that its template refers to from being deleted either.
pub(crate) fn plan_inactive_revisions(observed: &ObservedPool<'_>, plan: &mut Plan) {
    if observed.pool.revision.copies.wanted {
        store_current_revision(observed, plan);
    }
}

/// The controller stores a revision before it writes it to any machine. This fixes its identity, and the
/// revision is the merge base of later updates. It also stores a revision again to restore the copies of
/// objects that machines with the same template use, and for an object that is being deleted.
///
/// Returns whether the revision is to be stored, also if that must wait.
fn store_current_revision(observed: &ObservedPool<'_>, plan: &mut Plan) -> bool {
    let pool = observed.pool;
    let is_lost = pool.revision.copies.lost;
    if pool.revision.stored && !is_lost {
        return false;
    }
    let rests_on_it = |action: &PoolAction| {
        matches!(action, PoolAction::Create { .. } | PoolAction::Activate { .. } | PoolAction::Update { .. })
    };
    let first = plan.actions.iter().position(rests_on_it);
    // A client deleted it, or an earlier version of vmpool did not store it.
    let is_it = |written: &RevisionId| *written == pool.revision.id || is_lost && pool.is_current(written);
    let had = || observed.owned_machines().any(|machine| machine.written.as_ref().is_some_and(is_it));
    if first.is_none() && !had() && !pool.revision.copies.wanted {
        return false;
    }
    plan.wants.create = true;
    if let Err(left) = observed.memory.backoff(ApplyStage::Create).batch_size(observed.uptime) {
        plan.actions.retain(|action| !rests_on_it(action));
        plan.back_off(ApplyStage::Prepare, left);
        return true;
    }
    let store = PoolAction::StoreRevision { revision: pool.revision.id.clone() };
    plan.actions.insert(first.unwrap_or(plan.actions.len()), store);
    true
}

/// Restores the copies of objects that machines with other templates use. The current template need not be
/// known for this.
fn restore_other_copies(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let is_used = |id: &RevisionId| {
        observed.owned_machines().any(|machine| machine.revisions().any(|named| named == id))
    };
    let lost: Vec<&RevisionId> =
        observed.pool.revision.copies.others_lost.iter().filter(|id| is_used(id)).collect();
    if lost.is_empty() {
        return;
    }
    if let Err(left) = observed.memory.backoff(ApplyStage::Create).batch_size(observed.uptime) {
        return plan.back_off(ApplyStage::Prepare, left);
    }
    let restores = lost.into_iter().map(|id| PoolAction::RestoreCopies { revision: id.clone() });
    plan.actions.splice(0..0, restores);
}

/// Deletes the oldest revisions beyond the limit, but not the current one and none that a machine refers to.
/// Of several revisions with the same template, the latest is enough for a rollback.
fn prune_old_revisions(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let (pool, limit) = (observed.pool, observed.pool.rollout.history);
    let current = usize::from(pool.revision.stored);
    // A machine may still appear that refers to an older revision: from an unconfirmed create, or from a
    // create of a former leader with the name that this pass creates.
    let creates = plan.actions.iter().any(|action| matches!(action, PoolAction::Create { .. }));
    let has_repeated = !pool.revision.superseded.is_empty() || !pool.revision.same_template.is_empty();
    if !has_repeated && observed.stored.len() <= limit.saturating_add(current)
        || creates
        || !observed.unconfirmed_creates.is_empty()
    {
        return;
    }
    // A machine with an unconfirmed update may refer to any revision.
    if let Some(left) = observed.memory.rollout_attempts.next_confirmed(observed.uptime) {
        return plan.requeue_in(left);
    }
    let is_repeated = |id: &&RevisionId| pool.is_current(id) || pool.revision.superseded.contains(*id);
    let (mut surplus, earlier): (Vec<_>, Vec<_>) =
        unneeded_revisions(observed, Some(&pool.revision.id)).into_iter().partition(is_repeated);
    let beyond = earlier.len().saturating_sub(limit);
    surplus.extend(earlier.into_iter().take(beyond));
    if !surplus.is_empty() {
        delete_revisions(observed, plan, surplus);
    }
}

/// Deletes the copies of objects that nothing refers to. As with revisions, a machine may still appear that
/// does. So may the revision that is to be stored, if its create is not confirmed.
fn delete_copies(observed: &ObservedPool<'_>, plan: &mut Plan, stores: bool) {
    let unused = &observed.pool.revision.copies.unused;
    let refers = |action: &PoolAction| matches!(action, PoolAction::Create { .. });
    if unused.is_empty()
        || stores
        || plan.actions.iter().any(refers)
        || !observed.unconfirmed_creates.is_empty()
    {
        return;
    }
    if let Some(left) = observed.memory.rollout_attempts.next_confirmed(observed.uptime) {
        return plan.requeue_in(left);
    }
    plan.wants.clean_up = true;
    match observed.memory.backoff(ApplyStage::CleanUp).batch_size(observed.uptime) {
        Ok(width) => {
            let deleted = unused.iter().take(width).map(|copy| PoolAction::DeleteCopy { copy: copy.clone() });
            plan.actions.extend(deleted);
        }
        Err(left) => plan.back_off(ApplyStage::CleanUp, left),
    }
}

/// Deletes the revisions of a deleted pool that no machine refers to.
pub(crate) fn plan_unneeded_revisions(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let attempts = &observed.memory.rollout_attempts;
    if observed.unconfirmed_creates.is_empty() && attempts.next_confirmed(observed.uptime).is_none() {
        let unneeded = unneeded_revisions(observed, None);
        if !unneeded.is_empty() {
            delete_revisions(observed, plan, unneeded);
        }
    }
}

/// The stored revisions, oldest first, except `current`, the one whose copies it gets, and those that a
/// machine refers to.
fn unneeded_revisions<'a>(observed: &ObservedPool<'a>, current: Option<&RevisionId>) -> Vec<&'a RevisionId> {
    let ids = observed.machines.iter().flat_map(|machine| machine.revisions());
    let inherited = observed.pool.revision.copies.inherited_from.as_ref().filter(|_| current.is_some());
    let named: BTreeSet<&RevisionId> = ids.chain(current).chain(inherited).collect();
    observed.stored.iter().filter(|id| !named.contains(id)).collect()
}

/// Deletes these revisions, as many at once as the backoff permits.
fn delete_revisions(observed: &ObservedPool<'_>, plan: &mut Plan, surplus: Vec<&RevisionId>) {
    plan.wants.clean_up = true;
    let width = match observed.memory.backoff(ApplyStage::CleanUp).batch_size(observed.uptime) {
        Ok(width) => width,
        Err(left) => return plan.back_off(ApplyStage::CleanUp, left),
    };
    let pruned = surplus.into_iter().take(width);
    plan.actions.extend(pruned.map(|revision| PoolAction::PruneRevision { revision: revision.clone() }));
}

#[cfg(test)]
mod tests;

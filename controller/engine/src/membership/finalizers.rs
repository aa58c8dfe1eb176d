//! Finalizers of the controller: on the pool before its first machine, and on every machine until the
//! controller has released it.

use jiff::SignedDuration;

use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Finalizer, Machine};
use crate::plan::action::{ApplyStage, PoolAction};
use crate::plan::observed::ObservedPool;
use crate::plan::result::Plan;
use crate::revisions;

/// How long the garbage collector has to end a deletion after the dependents, which takes it seconds.
const GARBAGE_COLLECTION: SignedDuration = SignedDuration::from_secs(60);

/// Adds the finalizer to the pool, and releases the machines that are being deleted, independent of the
/// number of machines and of a pause.
pub(crate) fn plan_finalizers(observed: &ObservedPool<'_>, plan: &mut Plan) {
    match observed.pool.finalizer {
        Finalizer::Unused => return,
        Finalizer::Missing => plan.actions.push(PoolAction::AddPoolFinalizer),
        Finalizer::Present => {}
    }
    let terminating = machines_with_finalizer(observed).filter(|machine| machine.terminating);
    let releases = terminating
        .map(|machine| remove_finalizer_action(machine, preserves_storage(observed, machine)))
        .chain(overdue_deletions(observed, plan))
        .collect();
    plan.repair(observed, releases);
}

/// Ends deletions that the garbage collector does not end. It finds the dependents of a machine by the UID of
/// their owner in all namespaces, so a user of any namespace can hold up the deletion of a machine that the
/// controller has requested to recreate its storage.
fn overdue_deletions(observed: &ObservedPool<'_>, plan: &mut Plan) -> Vec<PoolAction> {
    let mut overdue = Vec::new();
    for machine in observed.machines.iter().filter(|machine| machine.instance.is_none()) {
        let Some(since) = machine.awaits_dependents_since else { continue };
        let left = GARBAGE_COLLECTION - observed.now.duration_since(since);
        match std::time::Duration::try_from(left) {
            Ok(left) if !left.is_zero() => plan.requeue_in(left),
            _ => overdue.push(PoolAction::EndDeletion { machine: machine.id.clone() }),
        }
    }
    overdue
}

/// The machines with the finalizer: those of the pool, and those that a user removed from it. The finalizer
/// holds the deletion of both.
fn machines_with_finalizer<'a>(observed: &'a ObservedPool<'_>) -> impl Iterator<Item = &'a Machine> {
    let is_of_pool =
        |machine: &Machine| machine.owner.as_ref().is_none_or(|owner| owner.is_pool(&observed.pool.id));
    let machines = observed.machines.iter().map(AsRef::as_ref);
    machines.filter(move |machine: &&Machine| machine.has_finalizer && is_of_pool(machine))
}

/// Removes the finalizer from the machines of a deleted pool, and then from the pool. The garbage collector
/// deletes the machines, or keeps them with `--cascade=orphan`. It would also keep all revisions, so those
/// that no machine refers to are deleted.
pub(crate) fn plan_pool_deletion(observed: &ObservedPool<'_>, plan: &mut Plan) {
    let pool = observed.pool;
    if pool.finalizer == Finalizer::Unused {
        return;
    }
    let releases: Vec<_> =
        machines_with_finalizer(observed).map(|machine| remove_finalizer_action(machine, false)).collect();
    // Released machines without an owner are not observed any more, and may refer to revisions.
    if !releases.is_empty() || pool.published.summary.as_ref().is_none_or(|status| status.replicas == 0) {
        revisions::plan_unneeded_revisions(observed, plan);
    }
    if releases.is_empty() {
        let settled = observed.unconfirmed_creates.is_empty();
        // Its machine may appear. A pass after that time finds out whether it has.
        for unconfirmed in observed.unconfirmed_creates {
            plan.requeue_in((unconfirmed.since + REQUEST_TIMEOUT).saturating_sub(observed.uptime));
        }
        if pool.finalizer == Finalizer::Present && settled {
            plan.wants.clean_up = true;
            match observed.memory.backoff(ApplyStage::CleanUp).batch_size(observed.uptime) {
                Ok(_) => plan.actions.push(PoolAction::RemovePoolFinalizer),
                Err(left) => plan.requeue_in(left),
            }
        }
        return;
    }
    plan.repair(observed, releases);
}

fn remove_finalizer_action(machine: &Machine, preserve_storage: bool) -> PoolAction {
    PoolAction::RemoveFinalizer { machine: machine.id.clone(), preserve_storage }
}

/// Whether the storage of a machine that leaves is preserved. The exceptions are machines that the controller
/// deleted because the next machine with the name needs new storage. Their objects record that, so a new
/// leader and a late watch change nothing. The current template does not count: it may have changed after the
/// deletion. Machines that a user removed from the pool while they were being deleted are included: the pool
/// had promised to preserve their storage.
fn preserves_storage(observed: &ObservedPool<'_>, machine: &Machine) -> bool {
    observed.pool.preserves_storage_of(machine) && !observed.memory.is_healed(&machine.id.uid)
}

#[cfg(test)]
mod tests;

//! Writes of the pool besides its status: name blocks and the removal record. Both require the version of the
//! pool that the plan used.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::model::Naming;
use vmpool_engine::scale_down::removal::{RecordedTarget, TargetState};
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_engine::{Machine, ObjectId, Uid, copied_pool};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, Wording};

use super::outcome::{ActionOutcome, Effect, PlanValidity};
use crate::metrics::WriteKind;
use crate::pools::context::PoolContext;
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::live::ReadError;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::seen_facts::seen_facts;

/// Records a name block.
pub(super) async fn open_name_block<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    block: NameBlock,
) -> ActionOutcome {
    // A copy of the pool, for example from a backup, is recognized by this.
    let whose = json!({ "metadata": { "annotations": { P::MACHINES_OF: copied_pool::machines_record(&pool.facts.id) } } });
    let mut patch = P::name_block(block);
    json_patch::merge(&mut patch, &whose);
    match patch_planned_pool(context, pool, patch).await {
        Ok(()) => ActionOutcome::done(),
        Err(error) if error.is_gone() || error.is_conflict() => ActionOutcome::outdated(),
        Err(error) => {
            let note = format!("recording name block {block} on the pool: {error}");
            failed_pool_outcome(pool, EventReason::FailedCreate, note, error)
        }
    }
}

/// Removes entries from the record in one write: accepted targets that a live read confirms as gone or
/// released, and expired reservations. The same write records what keeps a repeated request from removing
/// another machine: the name block without the numbers of these targets, or the targets themselves if their
/// names return.
pub(super) async fn prune_record<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    gone: &[ObjectId],
    expired: &[Arc<str>],
    block: Option<NameBlock>,
) -> ActionOutcome {
    let Confirmed { gone, released, here } = match read_targets_live(context, pool, gone).await {
        Ok(confirmed) => confirmed,
        Err(error) => return not_pruned(pool, WriteError::Unconfirmed(error.to_string())),
    };
    let before = &pool.facts.record;
    let mut record = before.clone();
    let expired: Vec<_> = expired
        .iter()
        .map(|request| {
            let targets = before.entries().iter().map(|entry| &entry.target);
            let targets = targets.filter(|target| before.holds(request, &target.uid)).cloned();
            (request.clone(), targets.collect())
        })
        .collect();
    for (request, _) in &expired {
        record.withdraw(request);
    }
    record.prune(&gone);
    let left = before.entries().iter();
    let left =
        left.filter(|entry| entry.state == TargetState::Accepted && !record.is_accepted(&entry.target.uid));
    let settled = Settled { removed: left.cloned().collect(), released, expired };
    let mut effects = Vec::new();
    let events = if record == *before {
        Vec::new()
    } else {
        let mut patch = P::removal_record(&record);
        if let Some(block) = block {
            json_patch::merge(&mut patch, &P::name_block(block));
        }
        if pool.facts.naming == Naming::Ordinal && !settled.removed.is_empty() {
            let mut removed = pool.facts.removed.clone();
            settled.removed.iter().for_each(|entry| removed.add(entry.target.clone()));
            json_patch::merge(&mut patch, &P::removed_machines(&removed));
        }
        match patch_planned_pool(context, pool, patch).await {
            Ok(()) => {
                let used = block.and_then(|block| block.first.checked_sub(1));
                effects.extend(used.map(Effect::NumberUsed));
                settled.report(context, pool)
            }
            Err(error) if error.is_gone() || error.is_conflict() => return ActionOutcome::outdated(),
            Err(error) => return not_pruned(pool, error),
        }
    };
    // The snapshot did not show the targets that exist.
    let validity = if here.is_empty() { PlanValidity::Valid } else { PlanValidity::Outdated };
    effects.extend(here.into_iter().map(Effect::Machine));
    ActionOutcome { effects, events, validity, ..ActionOutcome::done() }
}

/// What a written record no longer contains.
struct Settled {
    /// The accepted entries that were removed.
    removed: Vec<RecordedTarget>,
    /// Targets that exist and that the pool no longer owns. They were released and not deleted.
    released: BTreeSet<Uid>,
    /// Requests whose reservations were dropped, each with its targets.
    expired: Vec<(Arc<str>, Vec<ObjectId>)>,
}

impl Settled {
    /// Counts the targets, and returns the events about them.
    fn report<P: Platform>(self, context: &PoolContext<P>, pool: &PoolEntry<P>) -> Vec<PoolEvent> {
        let expired = self.expired.iter().map(|(_, targets)| targets.len()).sum();
        context.metrics.removals.settled(self.removed.len(), expired);
        let removed = self.removed.iter().filter(|entry| !self.released.contains(&entry.target.uid));
        let mut events: Vec<PoolEvent> = removed.map(|entry| removed_by_name(pool, entry)).collect();
        events.extend(self.expired.into_iter().map(|(request, targets)| {
            tracing::warn!(request = &*request, targets = targets.len(), "dropped a reservation of machines");
            let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
            let names = names.join(", ");
            let note = format!(
                "the targeted removal of {names} was neither accepted nor withdrawn in time: no machine was removed; \
                 send the request again"
            );
            PoolEvent { reason: EventReason::ReservationExpired, name: names, note }
        }));
        events
    }
}

/// The event about a deleted target. Its entry is removed with one write, so there is one event for each
/// target, whichever program deleted it. Names of users are untrusted, so their control characters are
/// escaped.
fn removed_by_name<P: Platform>(pool: &PoolEntry<P>, entry: &RecordedTarget) -> PoolEvent {
    let RecordedTarget { target, by, .. } = entry;
    let (name, why) = match by {
        Some(by) => (format!("{target} (requested by {by:?})"), format!("as requested by {by:?}")),
        None => (target.to_string(), "in a targeted removal".to_owned()),
    };
    PoolEvent {
        reason: EventReason::SuccessfulDelete,
        name,
        note: P::Wording::removed(&pool.facts.namespace, target, &why),
    }
}

/// The result of a live read of targets.
#[derive(Default)]
struct Confirmed {
    /// Targets that the pool does not own.
    gone: BTreeSet<Uid>,
    /// Those of them that exist.
    released: BTreeSet<Uid>,
    /// Targets that the pool still owns.
    here: Vec<VersionedFacts<Machine>>,
}

/// Reads the targets live.
async fn read_targets_live<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    targets: &[ObjectId],
) -> Result<Confirmed, ReadError> {
    let mut reads = stream::iter(targets.to_vec())
        .map(|target| async move {
            let live = context.get_live::<P::Machine>(&pool.facts.namespace, &target.name).await;
            live.map(|live| (target, live))
        })
        .buffer_unordered(context.settings.writes_in_flight);
    let mut confirmed = Confirmed::default();
    while let Some(read) = reads.next().await {
        let (target, live) = read?;
        let live = live.map(|live| seen_facts(&live, P::read_machine)).filter(|live| live.facts.id == target);
        match live {
            Some(live) if live.facts.belongs_to(&pool.facts.id) => confirmed.here.push(live),
            found => {
                confirmed.released.extend(found.map(|_| target.uid.clone()));
                confirmed.gone.insert(target.uid);
            }
        }
    }
    Ok(confirmed)
}

fn not_pruned<P: Platform>(pool: &PoolEntry<P>, error: WriteError) -> ActionOutcome {
    let note = format!("removing finished entries from the removal record: {error}");
    failed_pool_outcome(pool, EventReason::FailedRepair, note, error)
}

fn failed_pool_outcome<P: Platform>(
    pool: &PoolEntry<P>,
    reason: EventReason,
    note: String,
    error: WriteError,
) -> ActionOutcome {
    ActionOutcome::failed(PoolEvent { reason, name: pool.facts.id.name.to_string(), note }, error)
}

/// Sends a merge patch for the pool at the version that the plan used.
async fn patch_planned_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    mut patch: Value,
) -> Result<(), WriteError> {
    let path = collection_path::<P::Pool>(&pool.facts.namespace);
    patch["metadata"]["uid"] = json!(pool.facts.id.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(pool.object.meta().resource_version);
    let (writer, name, patch) = (&context.leader.writer, &pool.facts.id.name, Patch::Merge(patch));
    // The response can be large and is not needed.
    writer.patch::<IgnoredAny, _>(WriteKind::PatchPool, path, name, None, patch).await.map(|_| ())
}

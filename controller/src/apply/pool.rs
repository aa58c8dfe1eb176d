//! Writes of the pool besides its status: name blocks and the removal record. Both require the version of the pool that
//! the plan used.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, stream};
use kube::Resource;
use kube::api::Patch;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use vmpool_engine::ledger::Seen;
use vmpool_engine::names::NameBlock;
use vmpool_engine::removal::State;
use vmpool_engine::{Machine, ObjectId, Uid};
use vmpool_platforms::Platform;

use super::outcome::{Outcome, PrunedRecord};
use crate::context::Context;
use crate::events::{PoolEvent, Reason};
use crate::live::ReadError;
use crate::metrics::WriteKind;
use crate::object::{collection, seen};
use crate::pool_entry::PoolEntry;
use crate::write::WriteError;

/// Records a name block.
pub(super) async fn open_name_block<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    block: NameBlock,
) -> Outcome {
    match write(context, pool, P::name_block(block)).await {
        Ok(()) => Outcome::Done,
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => {
            let note = format!("recording name block {block} on the pool: {error}");
            failed(pool, Reason::FailedCreate, note, error)
        }
    }
}

/// Removes entries from the record in one write: accepted targets that a live read confirms as gone or released, and
/// expired reservations.
pub(super) async fn prune_record<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    gone: &[ObjectId],
    expired: &[Arc<str>],
) -> Outcome {
    let Confirmed { gone, released, here } = match confirm(context, pool, gone).await {
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
    let left = left.filter(|entry| entry.state == State::Accepted && !record.is_accepted(&entry.target.uid));
    let pruned = PrunedRecord { here, removed: left.cloned().collect(), released, expired, written: false };
    if record == *before {
        return Outcome::PrunedRecord(pruned);
    }
    match write(context, pool, P::removal_record(&record)).await {
        Ok(()) => Outcome::PrunedRecord(PrunedRecord { written: true, ..pruned }),
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => not_pruned(pool, error),
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
    here: Vec<Seen<Machine>>,
}

/// Reads the targets live.
async fn confirm<P: Platform>(
    context: &Context<P>,
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
        let live = live.map(|live| seen(&live, P::read_machine)).filter(|live| live.facts.id == target);
        match live {
            Some(live) if live.facts.owner.as_ref() == Some(&pool.facts.id.uid) => confirmed.here.push(live),
            found => {
                confirmed.released.extend(found.map(|_| target.uid.clone()));
                confirmed.gone.insert(target.uid);
            }
        }
    }
    Ok(confirmed)
}

fn not_pruned<P: Platform>(pool: &PoolEntry<P>, error: WriteError) -> Outcome {
    let note = format!("removing finished entries from the removal record: {error}");
    failed(pool, Reason::FailedRepair, note, error)
}

fn failed<P: Platform>(pool: &PoolEntry<P>, reason: Reason, note: String, error: WriteError) -> Outcome {
    Outcome::Failed(PoolEvent { reason, name: pool.facts.id.name.to_string(), note }, error)
}

/// Sends a merge patch for the pool at the version that the plan used.
async fn write<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    mut patch: Value,
) -> Result<(), WriteError> {
    let path = collection::<P::Pool>(&pool.facts.namespace);
    patch["metadata"]["uid"] = json!(pool.facts.id.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(pool.object.meta().resource_version);
    let (writer, name, patch) = (&context.writer, &pool.facts.id.name, Patch::Merge(patch));
    // The response can be large and is not needed.
    writer.patch::<IgnoredAny, _>(WriteKind::PatchPool, path, name, None, patch).await.map(|_| ())
}

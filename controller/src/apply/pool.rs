//! What the controller writes on the pool besides its status: blocks of machine numbers, and the record of named
//! machines. Both are guarded by the version of the pool that was planned on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use kube::Resource;
use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::ledger::Seen;
use vmpool_engine::numbers::Block;
use vmpool_engine::{Memory, ObjectId, Replica, Uid};

use super::{Outcome, Step, seen};
use crate::context::{Context, PoolEntry, ReadError, collection};
use crate::events::{Happening, Reason};
use crate::metrics::{Metrics, WriteKind};
use crate::platform::Platform;
use crate::write::WriteError;

/// Opens a block of machine numbers.
pub(super) async fn open<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, block: Block) -> Outcome {
    match write(context, pool, P::record(block)).await {
        Ok(()) => Outcome::Opened,
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => {
            let note = format!("recording machine numbers {block} on the pool: {error}");
            failed(pool, Reason::FailedCreate, note, error)
        }
    }
}

/// What came of settling the record.
pub(super) struct Settled {
    /// Targets that a live read found to be members still: the snapshot had not shown them.
    here: Vec<Seen<Replica>>,
    /// How many accepted entries left.
    removed: usize,
    /// Requests whose reservations were dropped, and their targets.
    expired: Vec<(Arc<str>, Vec<ObjectId>)>,
    /// Whether the pool was written.
    written: bool,
}

/// Takes entries out of the record, in one write: accepted targets of which a live read finds nothing to remove, and
/// reservations.
pub(super) async fn settle<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    gone: &[ObjectId],
    expired: &[Arc<str>],
) -> Outcome {
    let (gone, here) = match confirm(context, pool, gone).await {
        Ok(confirmed) => confirmed,
        Err(error) => return unsettled(pool, WriteError::Lost(error.to_string())),
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
    record.settle(&gone);
    let removed = before.accepted().count() - record.accepted().count();
    if record == *before {
        return Outcome::Settled(Settled { here, removed, expired, written: false });
    }
    match write(context, pool, P::removals(&record)).await {
        Ok(()) => Outcome::Settled(Settled { here, removed, expired, written: true }),
        Err(error) if error.is_gone() || error.is_conflict() => Outcome::Outdated,
        Err(error) => unsettled(pool, error),
    }
}

/// Reads the targets live: the UIDs of those that are no members, and the others as they are.
async fn confirm<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    targets: &[ObjectId],
) -> Result<(BTreeSet<Uid>, Vec<Seen<Replica>>), ReadError> {
    let mut reads = stream::iter(targets.to_vec())
        .map(|target| async move {
            let live = context.get_live::<P::Machine>(&pool.facts.namespace, &target.name).await;
            live.map(|live| (target, live))
        })
        .buffer_unordered(context.settings.writes_in_flight);
    let (mut gone, mut here) = (BTreeSet::new(), Vec::new());
    while let Some(read) = reads.next().await {
        let (target, live) = read?;
        let live = live.map(|live| seen(&live, P::read_machine));
        let pool = Some(&pool.facts.id.uid);
        match live.filter(|live| live.facts.id == target && live.facts.owner.as_ref() == pool) {
            Some(live) => here.push(live),
            None => drop(gone.insert(target.uid)),
        }
    }
    Ok((gone, here))
}

fn unsettled<P: Platform>(pool: &PoolEntry<P>, error: WriteError) -> Outcome {
    let note = format!("taking settled entries out of the record of machines to be removed: {error}");
    failed(pool, Reason::FailedRepair, note, error)
}

fn failed<P: Platform>(pool: &PoolEntry<P>, reason: Reason, note: String, error: WriteError) -> Outcome {
    Outcome::Failed(Happening { reason, name: pool.facts.id.name.to_string(), note }, error)
}

/// Sends a merge patch to the pool, unless it changed meanwhile.
async fn write<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    mut patch: Value,
) -> Result<(), WriteError> {
    let path = collection::<P::Pool>(&pool.facts.namespace);
    patch["metadata"]["uid"] = json!(pool.facts.id.uid.as_str());
    patch["metadata"]["resourceVersion"] = json!(pool.object.meta().resource_version);
    let (writer, name, patch) = (&context.writer, &pool.facts.id.name, Patch::Merge(&patch));
    writer.patch::<Value, _>(WriteKind::PatchPool, path, name, None, &patch).await.map(|_| ())
}

impl Settled {
    /// Tells the memory and the metrics.
    pub(super) fn learn(self, metrics: &Metrics, memory: &mut Memory, uptime: Duration) -> Step {
        let surprised = !self.here.is_empty();
        for live in self.here {
            memory.machines.written(live, uptime);
        }
        if !self.written {
            return Step { outdated: surprised, done: true, ..Step::default() };
        }
        metrics.removals.settled(self.removed, self.expired.iter().map(|(_, targets)| targets.len()).sum());
        let happenings = self.expired.into_iter().map(|(request, targets)| {
            tracing::warn!(request = &*request, targets = targets.len(), "dropped a reservation of machines");
            let names: Vec<&str> = targets.iter().map(|target| &*target.name).collect();
            Happening {
                reason: Reason::ReservationExpired,
                name: names.join(", "),
                note: format!(
                    "removing {} was begun and neither carried out nor given up in time: nothing was removed, and \
                     it may be asked for again",
                    names.join(", ")
                ),
            }
        });
        Step { happenings: happenings.collect(), outdated: surprised, done: true, ..Step::default() }
    }
}

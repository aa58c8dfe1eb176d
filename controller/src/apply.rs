//! Every write of a pass. It decides nothing: it carries out what the plan says, and tells the memory what came of it.

mod create;
mod delete;
mod pool;
mod repair;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use vmpool_engine::ledger::Seen;
use vmpool_engine::pacing::{Failure, FailureReason, Pacing};
use vmpool_engine::plan::{DeleteReason, Stage};
use vmpool_engine::{Action, Disk, Memory, ObjectId, Replica, Uid};

use crate::context::{Context, PoolEntry};
use crate::events::{Happening, Reason, shorten};
use crate::observe::Snapshot;
use crate::platform::{Platform, Stored};
use crate::watch::version;
use crate::write::WriteError;

/// What came of a plan.
#[derive(Default)]
pub(crate) struct Applied {
    /// What to tell.
    pub(crate) happenings: Vec<Happening>,
    /// The world was not as planned for: plan again at once.
    pub(crate) outdated: bool,
    /// A write failed.
    pub(crate) failed: bool,
    /// The lease ends too soon for any further write.
    pub(crate) fenced: bool,
}

/// What came of one action, for the memory.
enum Outcome {
    /// It was not begun: a neighbour failed, or the pool changed.
    Skipped,
    /// A machine and its disks.
    Unit(create::Unit),
    /// A machine was changed.
    Machine(Seen<Replica>),
    /// A disk was created, or found to exist.
    Disk(Seen<Disk>, Option<Happening>),
    /// A machine is being deleted.
    Deleted(ObjectId, DeleteReason),
    /// A machine that should leave was gone already.
    Gone(ObjectId),
    /// A machine that should leave is not what was planned for.
    Changed(Seen<Replica>),
    /// It is unknown whether the machine is being deleted.
    MaybeDeleted(ObjectId, WriteError),
    /// A block is open.
    Opened,
    /// Entries left the record of named machines.
    Settled(pool::Settled),
    /// What it was about changed meanwhile.
    Outdated,
    /// It failed.
    Failed(Happening, WriteError),
}

/// Carries out `actions`, stage after stage; within a stage side by side.
///
/// A failure stops the rest of its stage, and whatever of the pool's spec changes stops everything: no machine is
/// created for a count that nobody wants any more. What a stage rests on must have gone through: no machine without its
/// block, none while members lack disks.
pub(crate) async fn apply<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: &Snapshot,
    actions: Vec<Action>,
    memory: &mut Memory,
) -> Applied {
    let mut applied = Applied::default();
    let versions = snapshot.versions(context, &pool.facts, memory, &surplus(&actions));
    let mut failed = Vec::new();
    for stage in [Stage::Repair, Stage::Remove, Stage::OpenBlock, Stage::Create, Stage::Settle] {
        let batch: Vec<Action> = actions.iter().filter(|action| action.stage() == stage).cloned().collect();
        let rests_on = [Stage::Repair, Stage::OpenBlock];
        let blocked = stage == Stage::Create && rests_on.iter().any(|stage| failed.contains(stage));
        if batch.is_empty() || blocked || applied.fenced {
            continue;
        }
        if !run_stage(context, pool, stage, batch, &versions, memory, &mut applied).await {
            failed.push(stage);
        }
    }
    applied
}

/// The machines that leave for the count alone.
fn surplus(actions: &[Action]) -> HashSet<Uid> {
    let leaving = actions.iter().filter_map(|action| match action {
        Action::Delete { member, reason: DeleteReason::Surplus } => Some(member.uid.clone()),
        _ => None,
    });
    leaving.collect()
}

/// Returns whether all of it went through.
async fn run_stage<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    stage: Stage,
    batch: Vec<Action>,
    versions: &HashMap<Uid, u64>,
    memory: &mut Memory,
    applied: &mut Applied,
) -> bool {
    let stop = AtomicBool::new(false);
    let mut complete = true;
    let mut failure: Option<(Failure, Option<Duration>)> = None;
    let mut disks_refused = false;
    {
        let stop = &stop;
        let mut outcomes = stream::iter(batch)
            .map(|action| async move {
                if stop.load(Ordering::Relaxed) || !is_current(context, pool) {
                    return (action, Outcome::Skipped);
                }
                let outcome = perform(context, pool, versions, &action).await;
                (action, outcome)
            })
            .buffer_unordered(context.settings.writes_in_flight);
        while let Some((action, outcome)) = outcomes.next().await {
            let step = learn(context, pool, memory, outcome);
            applied.happenings.extend(step.happenings);
            applied.outdated |= step.outdated;
            complete &= step.done;
            if matches!(stage, Stage::Repair | Stage::Remove) && (step.done || step.error.is_some()) {
                memory.note(action.object(), step.error.is_some());
            }
            if let Some(error) = step.error {
                stop.store(true, Ordering::Relaxed);
                applied.fenced |= matches!(error, WriteError::Fenced);
                let message = applied.happenings.last().map(|last| last.note.clone()).unwrap_or_default();
                let reason = step.reason.unwrap_or_else(|| action.failure_reason());
                disks_refused |= stage == Stage::Create && reason == FailureReason::DiskFailure;
                failure = Some((Failure { reason, message: shorten(message) }, error.retry_after()));
            }
        }
    }
    let uptime = context.env.uptime();
    match failure {
        // A superseded leader did not fail: it is over.
        _ if applied.fenced => {}
        Some((failure, retry_after)) => {
            tracing::warn!(reason = failure.reason.as_str(), message = failure.message, "a write failed");
            context.metrics.writes.batch_failed(failure.reason);
            applied.failed = true;
            // The machines that lack a disk now are repaired next: not all of them at once.
            if disks_refused {
                memory.repairing.failed(failure.clone(), uptime, retry_after, jitter(context));
            }
            pacing(memory, stage).failed(failure, uptime, retry_after, jitter(context));
        }
        None if complete => pacing(memory, stage).succeeded(),
        None => {}
    }
    complete
}

fn pacing(memory: &mut Memory, stage: Stage) -> &mut Pacing {
    match stage {
        Stage::Repair => &mut memory.repairing,
        Stage::Remove => &mut memory.removing,
        Stage::OpenBlock | Stage::Create => &mut memory.creating,
        Stage::Settle => &mut memory.recording,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a random fraction needs no precision")]
fn jitter<P: Platform>(context: &Context<P>) -> f64 {
    context.env.random() as f64 / u64::MAX as f64
}

/// Whether the pool is still the one that was planned for, as far as the cache knows.
fn is_current<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>) -> bool {
    let planned = &pool.facts;
    context.pools.get(&planned.namespace, &planned.id.name).is_some_and(|cached| {
        let cached = &cached.facts.facts;
        // The cache may lag behind the live read that was planned on, never the other way round.
        cached.id == planned.id && !cached.deleting && cached.generation <= planned.generation
    })
}

async fn perform<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    versions: &HashMap<Uid, u64>,
    action: &Action,
) -> Outcome {
    match action {
        Action::Relabel { member } => repair::patch(context, pool, member, P::mark(&pool.object)).await,
        Action::Release { machine } => repair::patch(context, pool, machine, P::unmark()).await,
        Action::CreateDisk { member, disk } => repair::disk(context, pool, member, disk).await,
        Action::Repoint { member, position, from, to } => {
            repair::repoint(context, pool, member, *position, from, to).await
        }
        Action::Delete { member, reason: DeleteReason::Named } => delete::named(context, pool, member).await,
        Action::Delete { member, reason: DeleteReason::Surplus } => {
            delete::surplus(context, pool, member, versions.get(&member.uid).copied()).await
        }
        Action::OpenBlock { block } => pool::open(context, pool, *block).await,
        Action::Create { draft } => Outcome::Unit(create::unit(context, pool, draft).await),
        Action::Settle { gone, expired } => pool::settle(context, pool, gone, expired).await,
    }
}

/// What one outcome means.
#[derive(Default)]
struct Step {
    happenings: Vec<Happening>,
    /// It went through.
    done: bool,
    /// Plan again at once.
    outdated: bool,
    error: Option<WriteError>,
    /// What failed, if it is not what the action is named after.
    reason: Option<FailureReason>,
}

impl Step {
    fn done(happening: Option<Happening>) -> Self {
        Self { happenings: happening.into_iter().collect(), done: true, ..Self::default() }
    }
    fn outdated() -> Self {
        Self { outdated: true, ..Self::default() }
    }
    fn failed(happening: Happening, error: WriteError) -> Self {
        let mut step = Self::default();
        step.fail(happening, error);
        step
    }
    /// A write that was never sent because the lease ends is nothing to tell the owner of the pool.
    fn fail(&mut self, happening: Happening, error: WriteError) {
        if !matches!(error, WriteError::Fenced) {
            self.happenings.push(happening);
        }
        self.done = false;
        self.error = Some(error);
    }
}

/// Tells the memory what came of an action.
fn learn<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
    outcome: Outcome,
) -> Step {
    let uptime = context.env.uptime();
    match outcome {
        Outcome::Skipped | Outcome::Outdated => Step::outdated(),
        Outcome::Opened => Step::done(None),
        Outcome::Machine(seen) => {
            memory.machines.written(seen, uptime);
            Step::done(None)
        }
        Outcome::Changed(seen) => {
            memory.machines.written(seen, uptime);
            Step::outdated()
        }
        Outcome::Disk(seen, happening) => {
            memory.disks.written(seen, uptime);
            Step::done(happening)
        }
        Outcome::Deleted(id, reason) => {
            forget_live(context, pool, memory, &id, uptime);
            tracing::info!(machine = &*id.name, machine_uid = id.uid.as_str(), ?reason, "deleted a machine");
            context.metrics.removals.deleted(reason);
            let why = match reason {
                DeleteReason::Surplus => "",
                DeleteReason::Named => ", which was named to be removed",
            };
            Step::done(Some(Happening {
                reason: Reason::SuccessfulDelete,
                name: id.name.to_string(),
                note: format!("deleted machine {id}{why}"),
            }))
        }
        Outcome::Gone(id) => {
            forget_live(context, pool, memory, &id, uptime);
            Step::done(None)
        }
        // Until that is certain the plan lets nobody else leave instead.
        Outcome::MaybeDeleted(id, error) => {
            memory.unsure_of(&id.uid, uptime);
            Step::failed(delete::failure(&id, &error), error)
        }
        Outcome::Unit(unit) => unit.learn(memory, uptime),
        Outcome::Settled(settled) => settled.learn(&context.metrics, memory, uptime),
        Outcome::Failed(happening, error) => Step::failed(happening, error),
    }
}

fn forget_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
    id: &ObjectId,
    uptime: Duration,
) {
    if let Some(known) = context.known_machine(&pool.facts, memory, id) {
        memory.machines.deleted(&known, uptime);
    }
}

fn seen<K: Stored, T>(object: &K, read: fn(&K) -> T) -> Seen<T> {
    Seen { facts: Arc::new(read(object)), version: version(object) }
}

//! Every write of a pass. It decides nothing: it carries out what the plan says, and tells the memory what came of it.

mod basis;
mod create;
mod delete;
mod disk;
mod outcome;
mod pool;
mod repair;
mod revision;
mod update;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use vmpool_engine::backoff::{Failure, FailureReason};
use vmpool_engine::ledger::Seen;
use vmpool_engine::limits::shorten;
use vmpool_engine::plan::{DeleteReason, Stage};
use vmpool_engine::{Action, Memory};

use crate::context::{Context, PoolEntry};
use crate::events::Happening;
use crate::observe::Snapshot;
use crate::platform::{Platform, Stored};
use crate::revisions::{Change, Templates};
use crate::watch::version;
use crate::write::WriteError;
use basis::Basis;
use outcome::{Outcome, Step};

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
    /// What was done to the stored revisions.
    pub(crate) revisions: Vec<Change>,
}

/// Carries out `actions`, stage after stage; within a stage side by side.
///
/// A failure stops the rest of its stage, and whatever of the pool's spec changes stops everything: no machine is
/// created for a count that nobody wants any more. What a stage rests on must have gone through: no machine without its
/// block, none while members lack disks, and neither a new machine nor a changed one without its stored revision.
pub(crate) async fn apply<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: &Snapshot,
    (actions, templates): (Vec<Action>, Templates),
    memory: &mut Memory,
) -> Applied {
    let mut applied = Applied::default();
    let mut basis = Basis::of(context, &pool.facts, snapshot, &actions, memory);
    basis.templates = templates;
    let mut failed = Vec::new();
    for stage in Stage::ALL {
        let batch: Vec<Action> = actions.iter().filter(|action| action.stage() == stage).cloned().collect();
        let rests_on: &[Stage] = match stage {
            Stage::Create => &[Stage::Repair, Stage::Prepare],
            Stage::Update => &[Stage::Prepare],
            _ => &[],
        };
        let blocked = rests_on.iter().any(|stage| failed.contains(stage));
        if batch.is_empty() || blocked || applied.fenced {
            continue;
        }
        basis.look_for_users(context, pool, &batch).await;
        if !run_stage(context, pool, stage, batch, &basis, memory, &mut applied).await {
            failed.push(stage);
        }
    }
    applied
}

/// Returns whether all of it went through.
async fn run_stage<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    stage: Stage,
    batch: Vec<Action>,
    basis: &Basis,
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
                let outcome = perform(context, pool, basis, &action).await;
                (action, outcome)
            })
            .buffer_unordered(context.settings.writes_in_flight);
        while let Some((action, outcome)) = outcomes.next().await {
            let step = outcome.learn(context, pool, memory);
            applied.happenings.extend(step.happenings);
            applied.outdated |= step.outdated;
            applied.revisions.extend(step.revision);
            complete &= step.done;
            if is_noted(stage) && (step.done || step.error.is_some()) {
                memory.note(action.object(), step.error.is_some());
            }
            if let Some(error) = step.error {
                if let Action::CreateDisk { member, disk } = &action
                    && create::owner(pool, member, disk) == pool.facts.id.uid
                {
                    create::note_lost(memory, disk, &error, context.env.uptime());
                }
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
            memory.pace(stage).failed(failure, uptime, retry_after, jitter(context));
        }
        None if complete => memory.pace(stage).succeeded(),
        None => {}
    }
    complete
}

/// Whether a refused write of this stage lets others go first the next time. In the others the plan has an order of
/// its own.
fn is_noted(stage: Stage) -> bool {
    matches!(stage, Stage::Repair | Stage::Remove | Stage::CollectDisks | Stage::ExpandDisks)
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
    basis: &Basis,
    action: &Action,
) -> Outcome {
    match action {
        Action::Relabel { member } => {
            repair::patch(context, pool, member, P::managed_labels(&pool.object)).await
        }
        Action::Release { machine, shared } => repair::release(context, pool, machine, shared).await,
        Action::CreateDisk { member, disk } => repair::disk(context, pool, member, disk).await,
        Action::Repoint { member, position, from, to } => {
            repair::repoint(context, pool, basis, member, (*position, from), to).await
        }
        Action::Detach { member, position, disk } => {
            repair::detach(context, pool, member, *position, disk).await
        }
        Action::Delete { member, reason: DeleteReason::Named } => delete::named(context, pool, member).await,
        Action::Delete { member, reason: DeleteReason::Surplus } => {
            delete::surplus(context, pool, member, basis.machine(member)).await
        }
        Action::Update { member, base, to, disks, disruption } => {
            let wanted = update::Wanted { member, base: base.as_ref(), to, disks, disruption: *disruption };
            update::update(context, pool, basis, &wanted).await
        }
        Action::RecordRevision { member, to } => update::record_revision(context, pool, member, to).await,
        Action::StoreRevision { revision } => revision::store(context, pool, basis, revision).await,
        Action::PruneRevision { revision } => revision::prune(context, pool, basis, revision).await,
        Action::OpenNameBlock { block } => pool::open_name_block(context, pool, *block).await,
        Action::Create { draft } => create::unit(context, pool, basis, draft).await,
        Action::AnnotateDisk { disk, annotations, absent } => {
            disk::annotate(context, pool, basis, disk, annotations, absent.as_ref()).await
        }
        Action::ExpandDisk { disk, to } => disk::grow(context, pool, basis, disk, *to).await,
        Action::DeleteDisk { disk, reason } => disk::delete(context, pool, basis, disk, *reason).await,
        Action::PruneRecord { gone, expired } => pool::prune_record(context, pool, gone, expired).await,
    }
}

fn seen<K: Stored, T>(object: &K, read: fn(&K) -> T) -> Seen<T> {
    Seen { facts: Arc::new(read(object)), version: version(object) }
}

//! The apply step of a pass: sends the writes of the plan and records the results in the memory. It decides nothing.

mod basis;
mod create;
mod delete;
mod disk;
mod finalizer;
mod outcome;
mod overridden;
mod pin;
mod pool;
mod record;
mod rejected_disks;
mod repair;
mod restart;
mod revision;
mod storage_names;
mod update;
mod window;

pub(crate) use finalizer::storage_of;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use vmpool_engine::failure::{Failure, FailureReason};
use vmpool_engine::limits::shorten;
use vmpool_engine::model::Naming;
use vmpool_engine::plan::{DeleteReason, Snapshot, Stage};
use vmpool_engine::{Action, Memory};
use vmpool_platforms::{DiskOf, Disks, Platform};

use crate::context::Context;
use crate::events::PoolEvent;
use crate::object::collection;
use crate::pool_entry::PoolEntry;
use crate::revisions::known::Change;
use crate::revisions::templates::Templates;
use crate::write::WriteError;
use basis::Basis;
use outcome::Outcome;
use window::Window;

/// The age of a plan at which no further action starts. The next pass plans with the state of that time, so slow writes delay
/// neither a changed spec nor the status.
const MAX_AGE: Duration = Duration::from_secs(30);

/// The result of applying a plan.
#[derive(Default)]
pub(crate) struct Applied {
    /// The events to report.
    pub(crate) events: Vec<PoolEvent>,
    /// The state differs from the one that the plan used: plan again at once.
    pub(crate) outdated: bool,
    /// A write failed.
    pub(crate) failed: bool,
    /// The lease ends too soon for another write.
    pub(crate) fenced: bool,
    /// Changes of the stored revisions.
    pub(crate) revisions: Vec<Change>,
}

/// Applies `actions`: the stages in sequence, and the actions of one stage in parallel.
///
/// A failure stops the rest of its stage. A change of the pool's spec stops all stages, so that no machine is created
/// for an outdated count. A stage runs only if the stages that it depends on succeeded: the controller creates no
/// machine without a recorded name block or while other machines lack disks, and neither creates nor updates a machine
/// without a stored revision.
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
            Stage::Update | Stage::Restart => &[Stage::Prepare],
            _ => &[],
        };
        let blocked = rests_on.iter().any(|stage| failed.contains(stage));
        if batch.is_empty() || blocked || applied.fenced {
            continue;
        }
        basis.read_disk_users(context, pool, &batch).await;
        basis.read_storage_names(context, pool, &batch).await;
        if !run_stage(context, pool, stage, batch, &basis, memory, &mut applied).await {
            failed.push(stage);
        }
    }
    applied
}

/// Returns whether all actions of the stage succeeded.
async fn run_stage<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    stage: Stage,
    batch: Vec<Action>,
    basis: &Basis,
    memory: &mut Memory,
    applied: &mut Applied,
) -> bool {
    let (stop, begun) = (AtomicBool::new(false), basis.begun);
    let mut complete = true;
    let mut failure: Option<(Failure, Option<Duration>)> = None;
    let mut disks_refused = false;
    {
        let stop = &stop;
        let is_slow = stage == Stage::Create && memory.creates_start_slowly(context.env.uptime());
        let mut window = Window::new(context.settings.writes_in_flight, is_slow);
        let (mut waiting, mut running) = (batch.into_iter(), FuturesUnordered::new());
        loop {
            // Actions that would only wait for slow ones begin later, with a newer plan.
            let room = open_slots(context, pool).max(usize::from(running.is_empty()));
            for action in waiting.by_ref().take(window.free(running.len()).min(room)) {
                running.push(async move {
                    let is_old = context.env.uptime().saturating_sub(begun) > MAX_AGE;
                    if stop.load(Ordering::Relaxed) || is_old || !is_current(context, pool) {
                        return (action, Outcome::outdated());
                    }
                    let outcome = perform(context, pool, basis, &action).await;
                    (action, outcome)
                });
            }
            let Some((action, outcome)) = running.next().await else { break };
            let Outcome { effects, events, done, outdated, error, reason } = outcome;
            record::record(effects, error.as_ref(), context, pool, memory, &mut applied.revisions);
            applied.events.extend(events);
            applied.outdated |= outdated;
            complete &= done;
            if done {
                window.widen();
            }
            if retries_refused_last(stage, pool.facts.naming) && (done || error.is_some()) {
                memory.record_result(action.object(), error.is_some());
            }
            if let Some(error) = error {
                stop.store(true, Ordering::Relaxed);
                applied.fenced |= matches!(error, WriteError::Fenced);
                let message = applied.events.last().map(|last| last.note.clone()).unwrap_or_default();
                let reason = reason.unwrap_or_else(|| action.failure_reason());
                disks_refused |= stage == Stage::Create && reason == FailureReason::DiskFailure;
                failure = Some((Failure { reason, message: shorten(message) }, error.retry_after()));
            }
        }
    }
    let uptime = context.env.uptime();
    match failure {
        // Lost leadership is not a failure of the pool.
        _ if applied.fenced => {}
        Some((failure, retry_after)) => {
            tracing::warn!(reason = failure.reason.as_str(), message = failure.message, "a write failed");
            context.metrics.writes.batch_failed(failure.reason);
            applied.failed = true;
            // The next passes repair the machines that lack a disk. The backoff limits how many at the same time.
            if disks_refused {
                memory.repairing.failed(failure.clone(), uptime, retry_after, jitter(context));
            }
            memory.backoff_mut(stage).failed(failure, uptime, retry_after, jitter(context));
        }
        None if complete => memory.backoff_mut(stage).succeeded(),
        None => {}
    }
    complete
}

/// How many writes of the pool's machines and disks can start without waiting for each other.
fn open_slots<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>) -> usize {
    let namespace = &pool.facts.namespace;
    let machines = context.writer.room(&collection::<P::Machine>(namespace));
    let disks = if P::Disks::EXIST { collection::<DiskOf<P>>(namespace) } else { return machines };
    machines.min(context.writer.room(&disks))
}

/// Whether the next plan puts objects with a rejected write of this stage last. In the other stages the planners have
/// an order of their own.
fn retries_refused_last(stage: Stage, naming: Naming) -> bool {
    match stage {
        Stage::Relabel
        | Stage::Repair
        | Stage::Remove
        | Stage::Restart
        | Stage::CollectDisks
        | Stage::ExpandDisks => true,
        // Ordinals return.
        Stage::Create => naming == Naming::Ordinal,
        Stage::Prepare | Stage::Update | Stage::RecordRevision | Stage::CleanUp => false,
    }
}

/// A random number between 0 and 1.
#[expect(clippy::cast_precision_loss, reason = "a random fraction needs no precision")]
pub(crate) fn jitter<P: Platform>(context: &Context<P>) -> f64 {
    context.env.random() as f64 / u64::MAX as f64
}

/// Whether the cache shows no newer spec of the pool than the one that the plan used.
fn is_current<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>) -> bool {
    let planned = &pool.facts;
    context.pools.get(&planned.namespace, &planned.id.name).is_some_and(|cached| {
        let cached = &cached.facts.facts;
        // The cache can be behind the live read that the plan used, but not ahead of it.
        cached.id == planned.id
            && (planned.deleting || !cached.deleting)
            && cached.generation <= planned.generation
    })
}

async fn perform<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    basis: &Basis,
    action: &Action,
) -> Outcome {
    match action {
        Action::Relabel { machine } => repair::relabel(context, pool, machine).await,
        Action::AddPoolFinalizer => finalizer::add_to_pool(context, pool).await,
        Action::RemovePoolFinalizer => finalizer::remove_from_pool(context, pool).await,
        Action::AddFinalizer { machine } => repair::add_finalizer(context, pool, machine).await,
        Action::RemoveFinalizer { machine, preserve_storage } => {
            finalizer::remove(context, pool, machine, *preserve_storage).await
        }
        Action::Restart { machine, instance, revision } => {
            restart::restart(context, pool, machine, instance, revision).await
        }
        Action::EndRestart { machine } => repair::end_restart(context, pool, machine).await,
        Action::ShortenProtection { machine, until } => {
            repair::shorten_protection(context, pool, machine, *until).await
        }
        Action::Release { machine, shared } => repair::release(context, pool, machine, shared).await,
        Action::CreateDisk { machine, disk } => repair::disk(context, pool, machine, disk).await,
        Action::AdoptDisk { machine, disk, template } => {
            disk::adopt_restored(context, pool, machine, disk, template).await
        }
        Action::Repoint { machine, position, from, to } => {
            repair::repoint(context, pool, basis, machine, (*position, from), to).await
        }
        Action::Detach { machine, position, disk } => {
            repair::detach(context, pool, machine, *position, disk).await
        }
        Action::Delete { machine, reason: reason @ DeleteReason::Targeted } => {
            delete::by_uid(context, pool, machine, *reason).await
        }
        Action::Delete { machine, reason } => {
            delete::at_version(context, pool, machine, *reason, basis.machine(machine)).await
        }
        Action::Update { machine, base, to, disks, disruption } => {
            let wanted = update::Wanted { machine, base: base.as_ref(), to, disks, disruption: *disruption };
            update::update(context, pool, basis, &wanted).await
        }
        Action::RecordRevision { machine, instance: Some(instance), to } => {
            restart::record_revision(context, pool, machine, instance, to).await
        }
        Action::RecordRevision { machine, instance: None, to } => {
            update::record_revision(context, pool, machine, to).await
        }
        Action::StoreRevision { revision } => revision::store(context, pool, basis, revision).await,
        Action::RestoreCopies { revision } => revision::restore(context, pool, basis, revision).await,
        Action::PruneRevision { revision } => revision::prune(context, pool, basis, revision).await,
        Action::DeleteCopy { copy } => pin::delete(context, pool, copy).await,
        Action::OpenNameBlock { block } => pool::open_name_block(context, pool, *block).await,
        Action::Create { draft } => create::unit(context, pool, basis, draft).await,
        Action::AnnotateDisk { disk, annotations, absent } => {
            disk::annotate(context, pool, basis, disk, annotations, absent.as_ref()).await
        }
        Action::ExpandDisk { disk, to } => disk::expand(context, pool, basis, disk, *to).await,
        Action::DeleteDisk { disk, reason } => disk::delete(context, pool, basis, disk, *reason).await,
        Action::PruneRecord { gone, expired, block } => {
            pool::prune_record(context, pool, gone, expired, *block).await
        }
    }
}

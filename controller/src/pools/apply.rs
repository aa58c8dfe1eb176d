//! The apply step of a pass: sends the writes of the plan and records the results in the memory. It decides
//! nothing.

mod basis;
mod copy;
mod create;
mod delete;
mod disk;
mod finalizer;
mod machine_patch;
mod outcome;
mod overridden;
mod pool;
mod record;
mod rejected_disks;
mod repair;
mod restart;
mod revision;
mod standby;
mod storage_names;
mod update;
mod window;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use vmpool_engine::failure::{FailureReason, PoolFailure};
use vmpool_engine::limits::shorten_message;
use vmpool_engine::model::Naming;
use vmpool_engine::plan::{ApplyStage, DeleteReason, PoolSnapshot};
use vmpool_engine::{PassMemory, PoolAction};
use vmpool_kit::object::collection_path;
use vmpool_kit::write::WriteError;
use vmpool_platforms::{DiskOf, Disks, Platform};

use crate::pools::context::PoolContext;
use crate::pools::events::PoolEvent;
use crate::pools::pool_entry::PoolEntry;
use crate::pools::revisions::pool_revisions::RevisionChange;
use crate::pools::revisions::templates::Templates;
use basis::PlanBasis;
pub(crate) use finalizer::storage_of;
use outcome::ActionOutcome;
pub(crate) use outcome::PlanValidity;
use window::Window;

/// The age of a plan at which no further action starts. The next pass plans with the state of that time, so
/// slow writes delay neither a changed spec nor the status.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The age of a plan at which it removes no further machine of its own choice. The number of machines was
/// counted when it was made, and users can remove machines, too.
const REMOVALS_MAX_AGE: Duration = Duration::from_secs(1);

/// The result of applying a plan.
#[derive(Default)]
pub(crate) struct AppliedPlan {
    /// The events to report.
    pub(crate) events: Vec<PoolEvent>,
    /// Whether further actions wait for the next plan.
    pub(crate) validity: PlanValidity,
    /// A write failed.
    pub(crate) failed: bool,
    /// The lease ends too soon for another write.
    pub(crate) fenced: bool,
    /// Changes of the stored revisions.
    pub(crate) revisions: Vec<RevisionChange>,
}

/// Applies `actions`: the stages in sequence, and the actions of one stage in parallel.
///
/// A failure stops the rest of its stage. A change of the pool's spec stops all stages, so that no machine is
/// created for an outdated count. A stage runs only if the stages that it depends on succeeded: the
/// controller creates no machine without a recorded name block or while other machines lack disks, and
/// neither creates nor updates a machine without a stored revision.
pub(crate) async fn apply_plan<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    snapshot: &PoolSnapshot,
    actions: &[PoolAction],
    templates: Templates,
    memory: &mut PassMemory,
) -> AppliedPlan {
    let mut applied = AppliedPlan::default();
    let mut basis = PlanBasis::of(context, &pool.facts, snapshot, actions, memory);
    basis.templates = templates;
    let mut failed = Vec::new();
    for stage in ApplyStage::ALL {
        let batch: Vec<PoolAction> =
            actions.iter().filter(|action| action.stage() == stage).cloned().collect();
        let rests_on: &[ApplyStage] = match stage {
            ApplyStage::Create => &[ApplyStage::Repair, ApplyStage::Prepare],
            ApplyStage::Refill => &[ApplyStage::Repair, ApplyStage::Prepare, ApplyStage::Create],
            ApplyStage::Update | ApplyStage::Restart | ApplyStage::Activate => &[ApplyStage::Prepare],
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
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    stage: ApplyStage,
    batch: Vec<PoolAction>,
    basis: &PlanBasis,
    memory: &mut PassMemory,
    applied: &mut AppliedPlan,
) -> bool {
    let (stop, begun) = (AtomicBool::new(false), basis.begun);
    let mut complete = true;
    let mut failure: Option<(PoolFailure, Option<Duration>)> = None;
    let mut disks_refused = false;
    let creates = matches!(stage, ApplyStage::Create | ApplyStage::Refill);
    {
        let stop = &stop;
        let is_slow = creates && memory.creates_start_slowly(context.leader.env.uptime());
        let mut window = Window::new(context.settings.writes_in_flight, is_slow);
        let (mut waiting, mut running) = (batch.into_iter(), FuturesUnordered::new());
        loop {
            // Actions that would only wait for slow ones begin later, with a newer plan.
            let room = open_slots(context, pool).max(usize::from(running.is_empty()));
            for action in waiting.by_ref().take(window.free(running.len()).min(room)) {
                running.push(async move {
                    if stop.load(Ordering::Relaxed) || !context.has_no_newer_spec(&pool.facts) {
                        return (action, ActionOutcome::outdated());
                    }
                    if context.leader.env.uptime().saturating_sub(begun) > max_plan_age(&action) {
                        return (action, ActionOutcome::aged());
                    }
                    let outcome = perform_action(context, pool, basis, &action).await;
                    (action, outcome)
                });
            }
            let Some((action, outcome)) = running.next().await else { break };
            let ActionOutcome { effects, events, done, validity, error, reason } = outcome;
            record::record_effects(effects, error.as_ref(), context, pool, memory, &mut applied.revisions);
            applied.events.extend(events);
            applied.validity = applied.validity.max(validity);
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
                disks_refused |= creates && reason == FailureReason::DiskFailure;
                failure =
                    Some((PoolFailure { reason, message: shorten_message(message) }, error.retry_after()));
            }
        }
    }
    let uptime = context.leader.env.uptime();
    match failure {
        // Lost leadership is not a failure of the pool.
        _ if applied.fenced => {}
        Some((failure, retry_after)) => {
            tracing::warn!(reason = failure.reason.as_str(), message = failure.message, "a write failed");
            context.metrics.writes.batch_failed(failure.reason);
            applied.failed = true;
            // The next passes repair the machines that lack a disk. The backoff limits how many at the same
            // time.
            if disks_refused {
                memory.backoff_mut(ApplyStage::Repair).failed(
                    failure.clone(),
                    uptime,
                    retry_after,
                    random_jitter(context),
                );
            }
            memory.backoff_mut(stage).failed(failure, uptime, retry_after, random_jitter(context));
        }
        None if complete => memory.backoff_mut(stage).succeeded(),
        None => {}
    }
    complete
}

/// The age of a plan at which this action does not begin.
fn max_plan_age(action: &PoolAction) -> Duration {
    match action {
        PoolAction::Delete { reason, .. } if !matches!(reason, DeleteReason::Targeted { .. }) => {
            REMOVALS_MAX_AGE
        }
        _ => MAX_AGE,
    }
}

/// How many writes of the pool's machines and disks can start without waiting for each other.
fn open_slots<P: Platform>(context: &PoolContext<P>, pool: &PoolEntry<P>) -> usize {
    let namespace = &pool.facts.namespace;
    let machines = context.leader.writer.available_slots(&collection_path::<P::Machine>(namespace));
    let disks = if P::Disks::EXIST { collection_path::<DiskOf<P>>(namespace) } else { return machines };
    machines.min(context.leader.writer.available_slots(&disks))
}

/// Whether the next plan puts objects with a rejected write of this stage last. In the other stages the
/// planners have an order of their own.
fn retries_refused_last(stage: ApplyStage, naming: Naming) -> bool {
    match stage {
        ApplyStage::Relabel
        | ApplyStage::Repair
        | ApplyStage::Remove
        | ApplyStage::Restart
        | ApplyStage::Activate
        | ApplyStage::Standby
        | ApplyStage::CollectDisks
        | ApplyStage::ExpandDisks => true,
        // Ordinals return.
        ApplyStage::Create | ApplyStage::Refill => naming == Naming::Ordinal,
        ApplyStage::Prepare | ApplyStage::Update | ApplyStage::RecordRevision | ApplyStage::CleanUp => false,
    }
}

/// A random number between 0 and 1.
#[expect(clippy::cast_precision_loss, reason = "a random fraction needs no precision")]
pub(crate) fn random_jitter<P: Platform>(context: &PoolContext<P>) -> f64 {
    context.leader.env.random() as f64 / u64::MAX as f64
}

async fn perform_action<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    basis: &PlanBasis,
    action: &PoolAction,
) -> ActionOutcome {
    match action {
        PoolAction::Relabel { machine } => repair::restore_machine_labels(context, pool, machine).await,
        PoolAction::AddPoolFinalizer => finalizer::add_to_pool(context, pool).await,
        PoolAction::RemovePoolFinalizer => finalizer::remove_from_pool(context, pool).await,
        PoolAction::AddFinalizer { machine } => repair::add_finalizer(context, pool, machine).await,
        PoolAction::RemoveFinalizer { machine, preserve_storage } => {
            finalizer::remove_machine_finalizer(context, pool, machine, *preserve_storage).await
        }
        PoolAction::EndDeletion { machine } => finalizer::end_deletion(context, pool, machine).await,
        PoolAction::Restart { machine, instance, revision } => {
            restart::restart_instance(context, pool, machine, instance, revision).await
        }
        PoolAction::EndRestart { machine } => repair::end_restart(context, pool, machine).await,
        PoolAction::BeginDrain { machine, mark } => repair::begin_drain(context, pool, machine, mark).await,
        PoolAction::EndDrain { machine } => repair::end_drain(context, pool, machine).await,
        PoolAction::ShortenProtection { machine, until } => {
            repair::shorten_protection(context, pool, machine, *until).await
        }
        PoolAction::Release { machine, shared } => {
            repair::release_from_pool(context, pool, machine, shared).await
        }
        PoolAction::CreateDisk { machine, disk } => {
            repair::create_missing_disk(context, pool, machine, disk).await
        }
        PoolAction::AdoptDisk { machine, disk, template } => {
            disk::adopt_restored(context, pool, machine, disk, template).await
        }
        PoolAction::Repoint { machine, position, from, to } => {
            let wanted = repair::PlannedRepoint { machine, position: *position, from, to };
            repair::repoint_machine_disk(context, pool, basis, &wanted).await
        }
        PoolAction::Detach { machine, position, disk } => {
            repair::detach_shared_disk(context, pool, machine, *position, disk).await
        }
        PoolAction::Delete { machine, reason: reason @ DeleteReason::Targeted { forced: true } } => {
            delete::delete_by_uid(context, pool, machine, *reason).await
        }
        PoolAction::Delete { machine, reason } => {
            delete::delete_at_version(context, pool, machine, *reason, basis.machine(machine)).await
        }
        PoolAction::Update { machine, base, to, disks, disruption } => {
            let wanted =
                update::PlannedUpdate { machine, base: base.as_ref(), to, disks, disruption: *disruption };
            update::update_machine_to_revision(context, pool, basis, &wanted).await
        }
        PoolAction::RecordRevision { machine, instance: Some(instance), to } => {
            restart::record_instance_revision(context, pool, machine, instance, to).await
        }
        PoolAction::RecordRevision { machine, instance: None, to } => {
            update::record_machine_revision(context, pool, machine, to).await
        }
        PoolAction::Activate { machine, base, to, disks } => {
            let wanted = standby::PlannedActivation { machine, base: base.as_ref(), to, disks };
            standby::activate_machine(context, pool, basis, &wanted).await
        }
        PoolAction::StartActivated { machine } => standby::start_activated(context, pool, machine).await,
        PoolAction::StopStandby { machine } => standby::stop_standby(context, pool, machine).await,
        PoolAction::StoreRevision { revision } => {
            revision::store_current_revision(context, pool, basis, revision).await
        }
        PoolAction::RestoreCopies { revision } => {
            revision::restore_revision_copies(context, pool, basis, revision).await
        }
        PoolAction::PruneRevision { revision } => {
            revision::prune_revision(context, pool, basis, revision).await
        }
        PoolAction::DeleteCopy { copy } => copy::delete_unused_copy(context, pool, copy).await,
        PoolAction::OpenNameBlock { block } => pool::open_name_block(context, pool, *block).await,
        PoolAction::Create { draft } => create::create_machine_with_disks(context, pool, basis, draft).await,
        PoolAction::AnnotateDisk { disk, annotations, absent } => {
            disk::annotate_disk(context, pool, basis, disk, annotations, absent.as_ref()).await
        }
        PoolAction::ExpandDisk { disk, to } => disk::expand_disk(context, pool, basis, disk, *to).await,
        PoolAction::DeleteDisk { disk, reason } => {
            disk::delete_unused_disk(context, pool, basis, disk, *reason).await
        }
        PoolAction::PruneRecord { gone, expired, block } => {
            pool::prune_record(context, pool, gone, expired, *block).await
        }
    }
}

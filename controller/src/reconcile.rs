//! One pass over one pool: observe, plan, apply, report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmpool_engine::failure::{Failure, FailureReason};
use vmpool_engine::status::detached;
use vmpool_engine::{Action, Machine, Plan, Pool, Uid, plan, status};
use vmpool_platforms::{Platform, controller_of};

use crate::apply::{Applied, apply};
use crate::context::{Context, Names, PoolMemory};
use crate::live::{MetadataOnly, ReadError};
use crate::metrics::{PassResult, PassStep, PassTimer, PoolReport};
use crate::object::version;
use crate::observe::{Snapshot, settle_overdue};
use crate::pool_entry::PoolEntry;
use crate::queue::Requeue;
use crate::report::{detached_disk_events, invalid_settings_event, report};
use crate::revisions;
use crate::revisions::known::Revisions;
use crate::revisions::templates::Templates;

/// Time until the next pass after a failed read.
const AFTER_FAILED_READ: Duration = Duration::from_secs(1);
/// Maximum age of the live count of machines when the plan deletes surplus machines. A scale-down of a large pool takes
/// several passes of about this duration, and the watch shows the deletions of one pass before the next.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// Time until the next pass after the state differed from the plan, so that the watch can show the difference.
const AFTER_OUTDATED: Duration = Duration::from_millis(50);
/// The maximum of this time after several consecutive differences.
const AFTER_MANY_OUTDATED: Duration = Duration::from_secs(5);
/// Time until the next pass after the lease was too short for a write. By then it is renewed or lost.
const AFTER_FENCE: Duration = Duration::from_secs(1);

/// Runs one pass over the pool with this UID. The pass is level-triggered: it starts from the current state and does
/// not use the reason of its wakeup. Returns when to start the next pass, and the computing time.
pub(crate) async fn reconcile<P: Platform>(context: &Context<P>, uid: &Uid) -> (Requeue, Duration) {
    let Some(pool) = context.pool(uid) else {
        // The garbage collector deletes its machines. The memory is dropped, so a new pool with the same name starts
        // with an empty one.
        context.states.lock().remove(uid);
        context.pool_counts.forget(uid);
        context.metrics.passes.ended(PassResult::Gone);
        return (Requeue::Never, Duration::ZERO);
    };
    let facts = &pool.facts;
    let span = tracing::info_span!(
        "pass",
        pool = format!("{}/{}", facts.namespace, facts.id.name),
        uid = uid.as_str(),
        generation = facts.generation
    );
    let mut state = context.states.lock().remove(uid).unwrap_or_default();
    state.effort = Duration::ZERO;
    let mut timer = PassTimer::start(&context.env);
    let Ended { result, again } = pass(context, pool.clone(), &mut state, &mut timer).instrument(span).await;
    let effort = state.effort;
    context.states.lock().insert(uid.clone(), state);
    context.metrics.passes.ended(result);
    context.metrics.passes.took(&timer);
    if again.is_some() {
        context.metrics.queue.requeued.inc();
    }
    (Requeue::After(again.unwrap_or(context.settings.resync)), effort)
}

/// The end of a pass.
struct Ended {
    result: PassResult,
    /// When to start the next pass, if earlier than the resync.
    again: Option<Duration>,
}

impl Ended {
    fn early(result: PassResult, again: Option<Duration>) -> Self {
        Self { result, again }
    }
}

async fn pass<P: Platform>(
    context: &Context<P>,
    cached: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
    timer: &mut PassTimer,
) -> Ended {
    if let Err(error) = settle_overdue(context, &cached, &mut state.memory).await {
        let error = vmpool_runtime::telemetry::with_causes(&error);
        tracing::warn!(error, "resolving pending writes with live reads failed");
        timer.record(&context.env, PassStep::Observe);
        return Ended::early(PassResult::Unread, Some(AFTER_FAILED_READ));
    }
    state.memory.reservation_timeout = Some(context.settings.reservation_timeout);
    let cached = match revise(context, cached, state).await {
        Ok(pool) => pool,
        Err(again) => return Ended::early(PassResult::Unread, Some(again)),
    };
    observe_pool(context, &cached, state);
    timer.record(&context.env, PassStep::Observe);

    // Read before the snapshot, which can only be newer.
    let proven = context.machines.proven();
    // Machines and disks are read before the pool. If the pass sees that a machine is gone, it also sees the spec of
    // the pool that caused this.
    let snapshot = Snapshot::take(context, &cached.facts, &mut state.memory);
    let machines = snapshot.machines().filter(is_pool_machine(&cached));
    state.memory.rollout_attempts.observe(machines, context.env.uptime());
    state.effort += timer.record(&context.env, PassStep::Observe);
    let (mut plan, mut snapshot) = decide(context, &cached, snapshot, state, None);
    state.effort += timer.record(&context.env, PassStep::Plan);
    let mut pool = cached;
    if plan.needs_live_pool() {
        let live = read_live(context, &pool).await;
        timer.record(&context.env, PassStep::Observe);
        match live {
            Ok(Some(live)) => match revise(context, Arc::new(live), state).await {
                Ok(live) => pool = live,
                Err(again) => return Ended::early(PassResult::Unread, Some(again)),
            },
            Ok(None) => return Ended::early(PassResult::Gone, Some(after_outdated(state))),
            Err(again) => return Ended::early(PassResult::Unread, Some(again)),
        }
        observe_pool(context, &pool, state);
        (plan, snapshot) = decide(context, &pool, snapshot, state, None);
        timer.record(&context.env, PassStep::Plan);
    }
    if plan.deletes_surplus() && must_count(&pool.facts, proven, context.env.uptime()) {
        let staying = live_machines(context, &pool.facts).await;
        timer.record(&context.env, PassStep::Observe);
        let staying = match staying {
            Ok(staying) => staying,
            Err(again) => return Ended::early(PassResult::Unread, Some(again)),
        };
        (plan, snapshot) = decide(context, &pool, snapshot, state, Some(&staying));
        timer.record(&context.env, PassStep::Plan);
    }
    if pool.facts.deleting {
        let (machines, terminating) = snapshot.machine_counts(&pool.facts);
        let disks = snapshot.disk_counts(&pool.facts);
        let facts = PoolReport::deleting(&pool.facts, machines, terminating, disks, &state.memory);
        context.pool_counts.record(&pool.facts.id.uid, facts);
        return Ended::early(PassResult::Gone, None);
    }

    let plan = if state.status_conflict.is_active() { Plan::default() } else { plan };
    let Plan { actions, requeue_after, blockers, wants, failure, awaited } = plan;
    let templates = match templates(context, &pool, state, &actions).await {
        Ok(templates) => templates,
        Err(again) => return Ended::early(PassResult::Unread, Some(again)),
    };
    for blocker in &blockers {
        tracing::debug!(%blocker, "blocked");
    }
    state.memory.reset_unwanted(wants);
    state.memory.await_disks(&awaited, context.env.uptime());
    let acted = !actions.is_empty();
    let mut applied = apply(context, &pool, &snapshot, (actions, templates), &mut state.memory).await;
    if let Some(revisions) = &mut state.revisions {
        applied.revisions.drain(..).for_each(|change| revisions.record(change));
    }
    let result = match &applied {
        Applied { fenced: true, .. } => PassResult::Fenced,
        Applied { failed: true, .. } => PassResult::Failed,
        Applied { outdated: true, .. } => PassResult::Outdated,
        _ if acted => PassResult::Acted,
        _ => PassResult::Idle,
    };
    if acted {
        timer.record(&context.env, PassStep::Apply);
        // The status includes the writes of this pass.
        snapshot = Snapshot::take(context, &pool.facts, &mut state.memory);
    }
    let again = requeue_after.and_then(|after| planned(after, result));
    let after_outdated_plan = match (applied.fenced, applied.outdated) {
        (true, _) => Some(AFTER_FENCE),
        (false, true) => Some(after_outdated(state)),
        (false, false) => {
            state.outdated_passes = 0;
            None
        }
    };

    let unwritten = publish(context, &pool, snapshot, (applied, failure), state).await;
    timer.record(&context.env, PassStep::Report);

    let uptime = context.env.uptime();
    let memory = &state.memory;
    let disputed = state.status_conflict.remaining(uptime).filter(|_| state.status_conflict.is_active());
    let paused = memory.remaining_backoff(uptime).into_iter().chain(disputed);
    let overdue = memory.machines.due_in(uptime).into_iter().chain(memory.disks.due_in(uptime));
    Ended {
        result,
        again: paused.chain(overdue).chain(again).chain(after_outdated_plan).chain(unwritten).min(),
    }
}

/// Publishes the result of a pass. Returns the time until a retry, if the status could not be written now.
async fn publish<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: Snapshot,
    (mut applied, plan_failure): (Applied, Option<Failure>),
    state: &mut PoolMemory,
) -> Option<Duration> {
    let own = with_own_status(pool, state);
    let pool = own.as_ref().unwrap_or(pool);
    let (_, terminating) = snapshot.machine_counts(&pool.facts);
    let disks = snapshot.disk_counts(&pool.facts);
    let names = Names { context, namespace: &pool.facts.namespace };
    let status_conflict = state.status_conflict.failure();
    let failure = status_conflict.as_ref().or(state.memory.failure()).or(plan_failure.as_ref());
    let (status, detached) = {
        let observed = snapshot.observed(&pool.facts, &state.memory, &names);
        (status(&observed, failure), detached(&observed))
    };
    applied.events.extend(detached_disk_events(&pool.facts, detached, &mut state.detached));
    let facts = PoolReport::served(&pool.facts, &status, terminating, disks, &state.memory);
    context.pool_counts.record(&pool.facts.id.uid, facts);
    applied.events.extend(invalid_settings_event(&pool.facts, &status, &mut state.warned));
    report(context, pool, status, applied, state).await
}

/// The pool with the last written status, if `pool` is older than that write. Otherwise the status would be written
/// again.
fn with_own_status<P: Platform>(pool: &PoolEntry<P>, state: &PoolMemory) -> Option<PoolEntry<P>> {
    let last = state.last_status.as_ref()?;
    let unseen = version(&*pool.object) < last.version;
    unseen.then(|| PoolEntry {
        facts: Pool { published: last.became.clone(), ..pool.facts.clone() },
        object: pool.object.clone(),
    })
}

/// The time until the next pass that the plan requests, depending on the result of this pass.
fn planned(after: Duration, result: PassResult) -> Option<Duration> {
    match result {
        // The plan did not include the failure. The backoff determines the next pass.
        PassResult::Fenced | PassResult::Failed => None,
        // Without writes an immediate pass would find the same state. This prevents a busy loop.
        PassResult::Idle => Some(after.max(AFTER_OUTDATED)),
        _ => Some(after),
    }
}

/// The watch may be stalled, so the time doubles with every consecutive difference.
fn after_outdated(state: &mut PoolMemory) -> Duration {
    let pause = AFTER_OUTDATED.saturating_mul(1 << state.outdated_passes.min(16)).min(AFTER_MANY_OUTDATED);
    state.outdated_passes = state.outdated_passes.saturating_add(1);
    pause
}

/// Computes the plan. If `staying` is given, only those machines count as machines that stay.
fn decide<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: Snapshot,
    state: &PoolMemory,
    staying: Option<&BTreeSet<Uid>>,
) -> (Plan, Snapshot) {
    let names = Names { context, namespace: &pool.facts.namespace };
    let mut observed = snapshot.observed(&pool.facts, &state.memory, &names);
    if let Some(staying) = staying {
        observed.count_live(staying);
    }
    observed.stored = state.revisions.as_ref().map(Revisions::ids).unwrap_or_default();
    let plan = plan(&observed);
    (plan, Snapshot::recover(observed))
}

/// Updates the memory with the current pool.
fn observe_pool<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, state: &mut PoolMemory) {
    let uptime = context.env.uptime();
    state.memory.observe(&pool.facts, uptime);
    let was_on = state.status_conflict.is_active();
    state.status_conflict.observe(&pool.facts.published, version(&*pool.object), uptime);
    if state.status_conflict.is_active() && !was_on {
        context.metrics.writes.batch_failed(FailureReason::StatusDisputed);
        tracing::error!(
            "another client keeps overwriting the status of the pool: the controller stops writing to the pool"
        );
    }
}

fn is_pool_machine<P: Platform>(pool: &PoolEntry<P>) -> impl Fn(&&Arc<Machine>) -> bool + Clone {
    |machine| machine.owner.as_ref() == Some(&pool.facts.id.uid)
}

/// The pool with its current revision.
async fn revise<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<PoolEntry<P>>, Duration> {
    if pool.facts.deleting {
        return Ok(pool);
    }
    let result = async {
        let revisions = match &mut state.revisions {
            Some(revisions) => revisions,
            None => state.revisions.insert(revisions::list(context, &pool).await?),
        };
        revisions::resolve(context, pool, revisions).await
    };
    result.await.map_err(|error| unread(&error, "reading the revisions of the template"))
}

/// The templates that the writes need.
async fn templates<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    state: &mut PoolMemory,
    actions: &[Action],
) -> Result<Templates, Duration> {
    let Some(revisions) = &mut state.revisions else { return Ok(Templates::default()) };
    let templates = revisions::templates(context, pool, revisions, actions).await;
    templates.map_err(|error| unread(&error, "reading the revisions that machines have"))
}

fn unread(error: &ReadError, doing: &'static str) -> Duration {
    let error = vmpool_runtime::telemetry::with_causes(error);
    tracing::warn!(error, doing, "a read failed");
    AFTER_FAILED_READ
}

/// Reads the pool live; `None` if it is gone or has another UID.
async fn read_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
) -> Result<Option<PoolEntry<P>>, Duration> {
    let facts = &pool.facts;
    match context.get_live::<P::Pool>(&facts.namespace, &facts.id.name).await {
        Ok(live) => Ok(live.map(PoolEntry::read).filter(|live| live.facts.id == facts.id)),
        Err(error) => Err(after_unread(&error, "reading the pool before writing")),
    }
}

/// Whether the controller must list the machines live before it deletes surplus machines. The cache is complete up to
/// `proven`.
fn must_count(pool: &Pool, proven: Option<Duration>, uptime: Duration) -> bool {
    // With `replicas: 0` the live count cannot change the result, so it is skipped.
    pool.desired > 0 && proven.is_none_or(|proven| uptime.saturating_sub(proven) > COUNTED_FOR)
}

/// Lists the live machines of the pool from the API server.
async fn live_machines<P: Platform>(context: &Context<P>, pool: &Pool) -> Result<BTreeSet<Uid>, Duration> {
    let mut staying = BTreeSet::new();
    let visit = |machine: MetadataOnly| {
        let meta = &machine.metadata;
        let owned = controller_of(meta).is_some_and(|owner| owner.uid == pool.id.uid);
        if owned && meta.deletion_timestamp.is_none() {
            staying.extend(meta.uid.as_deref().map(Uid::from));
        }
    };
    match context.list_live_metadata::<P::Machine>(&pool.namespace, visit).await {
        Ok(()) => Ok(staying),
        Err(error) => Err(after_unread(&error, "listing the machines before a scale-down")),
    }
}

/// Logs a failed live read. Returns the time until a retry.
fn after_unread(error: &ReadError, what: &str) -> Duration {
    let error = vmpool_runtime::telemetry::with_causes(error);
    tracing::warn!(error, "{what}");
    AFTER_FAILED_READ
}

#[cfg(test)]
mod tests;

//! One pass over one pool: observe, plan, apply, report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmpool_engine::backoff::{Failure, FailureReason};
use vmpool_engine::status::detached;
use vmpool_engine::{Action, Machine, Plan, Pool, Uid, plan, status};

use crate::apply::{Applied, apply};
use crate::context::{Context, Names, PoolEntry, PoolState, ReadError, Slim};
use crate::metrics::{Laps, PassResult, PoolFacts, Stage};
use crate::observe::{Snapshot, settle_overdue};
use crate::platform::{Platform, controller_of};
use crate::queue::Again;
use crate::report::{detachments, report, unreadable_settings};
use crate::revisions::{self, Revisions, Templates};
use crate::watch::version;

/// When to come back after a read failed.
const AFTER_FAILED_READ: Duration = Duration::from_secs(1);
/// How old a count of the members may be when some of them leave for it. A large pool shrinks in several passes, each of
/// which takes about as long; the watch tells of the deletions of one before the next begins.
const COUNTED_FOR: Duration = Duration::from_secs(1);
/// When to come back after the world turned out to be another one: time for the watch to show it.
const AFTER_SURPRISE: Duration = Duration::from_millis(50);
/// The same after many surprises in a row.
const AFTER_MANY_SURPRISES: Duration = Duration::from_secs(5);
/// When to come back after the lease was too short for a write: it is renewed, or this leader is over.
const AFTER_FENCE: Duration = Duration::from_secs(1);

/// One pass over the pool with this UID. Level-triggered: it starts from the world as it is and never asks why it was
/// woken. Returns when it wants the next one, and for how long it computed.
pub(crate) async fn reconcile<P: Platform>(context: &Context<P>, uid: &Uid) -> (Again, Duration) {
    let Some(pool) = context.pool(uid) else {
        // The garbage collector takes its machines; nothing of it is remembered for a pool that may come after it.
        context.states.lock().remove(uid);
        context.census.forget(uid);
        context.metrics.passes.ended(PassResult::Gone);
        return (Again::Never, Duration::ZERO);
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
    let mut laps = Laps::begin(&context.env);
    let Ended { result, again } = pass(context, pool.clone(), &mut state, &mut laps).instrument(span).await;
    let effort = state.effort;
    context.states.lock().insert(uid.clone(), state);
    context.metrics.passes.ended(result);
    context.metrics.passes.took(&laps);
    if again.is_some() {
        context.metrics.queue.requeued.inc();
    }
    (Again::After(again.unwrap_or(context.settings.resync)), effort)
}

/// How a pass ended.
struct Ended {
    result: PassResult,
    /// When it wants the next one, if before the resync.
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
    state: &mut PoolState,
    laps: &mut Laps,
) -> Ended {
    if let Err(error) = settle_overdue(context, &cached, &mut state.memory).await {
        let error = vmpool_runtime::telemetry::with_causes(&error);
        tracing::warn!(error, "reading live what the cache does not show");
        laps.lap(&context.env, Stage::Observe);
        return Ended::early(PassResult::Unread, Some(AFTER_FAILED_READ));
    }
    state.memory.reservation_timeout = Some(context.settings.reservation_timeout);
    let cached = match revise(context, cached, state).await {
        Ok(pool) => pool,
        Err(again) => return Ended::early(PassResult::Unread, Some(again)),
    };
    meet(context, &cached, state);
    laps.lap(&context.env, Stage::Observe);

    // Asked for before the snapshot is taken, which may only be newer.
    let proven = context.machines.proven();
    // Machines and disks are read before the pool is: whoever sees a machine gone also sees the pool that let it go.
    let snapshot = Snapshot::take(context, &cached.facts, &mut state.memory);
    let members = snapshot.machines().filter(is_member(&cached));
    state.memory.rollout_attempts.observe(members, context.env.uptime());
    state.effort += laps.lap(&context.env, Stage::Observe);
    let (mut plan, mut snapshot) = decide(context, &cached, snapshot, state, None);
    state.effort += laps.lap(&context.env, Stage::Plan);
    let mut pool = cached;
    if plan.rests_on_the_count() {
        let live = read_live(context, &pool).await;
        laps.lap(&context.env, Stage::Observe);
        match live {
            Ok(Some(live)) => match revise(context, Arc::new(live), state).await {
                Ok(live) => pool = live,
                Err(again) => return Ended::early(PassResult::Unread, Some(again)),
            },
            Ok(None) => return Ended::early(PassResult::Gone, Some(after_surprise(state))),
            Err(again) => return Ended::early(PassResult::Unread, Some(again)),
        }
        meet(context, &pool, state);
        (plan, snapshot) = decide(context, &pool, snapshot, state, None);
        laps.lap(&context.env, Stage::Plan);
    }
    if plan.takes_surplus() && must_count(&pool.facts, proven, context.env.uptime()) {
        let staying = live_members(context, &pool.facts).await;
        laps.lap(&context.env, Stage::Observe);
        let staying = match staying {
            Ok(staying) => staying,
            Err(again) => return Ended::early(PassResult::Unread, Some(again)),
        };
        (plan, snapshot) = decide(context, &pool, snapshot, state, Some(&staying));
        laps.lap(&context.env, Stage::Plan);
    }
    if pool.facts.deleting {
        let (members, terminating) = snapshot.members(&pool.facts);
        let disks = snapshot.census(&pool.facts);
        let facts = PoolFacts::deleting(&pool.facts, members, terminating, disks, &state.memory);
        context.census.record(&pool.facts.id.uid, facts);
        return Ended::early(PassResult::Gone, None);
    }

    let plan = if state.status_conflict.is_on() { Plan::default() } else { plan };
    let Plan { actions, again, blockers, wants, complaint, awaited } = plan;
    let templates = match templates(context, &pool, state, &actions).await {
        Ok(templates) => templates,
        Err(again) => return Ended::early(PassResult::Unread, Some(again)),
    };
    for blocker in &blockers {
        tracing::debug!(%blocker, "blocked");
    }
    state.memory.keep_wanted(wants);
    state.memory.await_disks(&awaited, context.env.uptime());
    let acted = !actions.is_empty();
    let mut applied = apply(context, &pool, &snapshot, (actions, templates), &mut state.memory).await;
    if let Some(revisions) = &mut state.revisions {
        applied.revisions.drain(..).for_each(|change| revisions.learn(change));
    }
    let result = match &applied {
        Applied { fenced: true, .. } => PassResult::Fenced,
        Applied { failed: true, .. } => PassResult::Failed,
        Applied { outdated: true, .. } => PassResult::Outdated,
        _ if acted => PassResult::Acted,
        _ => PassResult::Idle,
    };
    if acted {
        laps.lap(&context.env, Stage::Apply);
        // The status tells of the writes of this pass, not of the world before them.
        snapshot = Snapshot::take(context, &pool.facts, &mut state.memory);
    }
    let again = again.and_then(|after| planned(after, result));
    let surprised = match (applied.fenced, applied.outdated) {
        (true, _) => Some(AFTER_FENCE),
        (false, true) => Some(after_surprise(state)),
        (false, false) => {
            state.surprises = 0;
            None
        }
    };

    let unwritten = tell(context, &pool, snapshot, (applied, complaint), state).await;
    laps.lap(&context.env, Stage::Report);

    let uptime = context.env.uptime();
    let memory = &state.memory;
    let disputed = state.status_conflict.left(uptime).filter(|_| state.status_conflict.is_on());
    let paused = memory.pause(uptime).into_iter().chain(disputed);
    let overdue = memory.machines.due_in(uptime).into_iter().chain(memory.disks.due_in(uptime));
    Ended { result, again: paused.chain(overdue).chain(again).chain(surprised).chain(unwritten).min() }
}

/// Publishes what a pass left behind. Returns when to come back for what could not be written now.
async fn tell<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: Snapshot,
    (mut applied, complaint): (Applied, Option<Failure>),
    state: &mut PoolState,
) -> Option<Duration> {
    let own = with_own_status(pool, state);
    let pool = own.as_ref().unwrap_or(pool);
    let (_, terminating) = snapshot.members(&pool.facts);
    let disks = snapshot.census(&pool.facts);
    let names = Names { context, namespace: &pool.facts.namespace };
    let status_conflict = state.status_conflict.complaint();
    let failure = status_conflict.as_ref().or(state.memory.failure()).or(complaint.as_ref());
    let (status, detached) = {
        let observed = snapshot.observed(&pool.facts, &state.memory, &names);
        (status(&observed, failure), detached(&observed))
    };
    applied.happenings.extend(detachments(&pool.facts, detached, &mut state.detached));
    let facts = PoolFacts::served(&pool.facts, &status, terminating, disks, &state.memory);
    context.census.record(&pool.facts.id.uid, facts);
    applied.happenings.extend(unreadable_settings(&pool.facts, &status, &mut state.warned));
    report(context, pool, status, applied, state).await
}

/// The pool with the status that was written last, if it is from before that write: it would be written again.
fn with_own_status<P: Platform>(pool: &PoolEntry<P>, state: &PoolState) -> Option<PoolEntry<P>> {
    let last = state.last_status.as_ref()?;
    let unseen = version(&*pool.object) < last.version;
    unseen.then(|| PoolEntry {
        facts: Pool { published: last.became.clone(), ..pool.facts.clone() },
        object: pool.object.clone(),
    })
}

/// When to come back because the plan says so, after a pass that ended like this.
fn planned(after: Duration, result: PassResult) -> Option<Duration> {
    match result {
        // The plan knew nothing of the failure: the pause after it says when.
        PassResult::Fenced | PassResult::Failed => None,
        // Nothing was done, so nothing is different a moment later: this must not become a loop.
        PassResult::Idle => Some(after.max(AFTER_SURPRISE)),
        _ => Some(after),
    }
}

/// The watch may be stalled: whoever is surprised again and again asks less and less often.
fn after_surprise(state: &mut PoolState) -> Duration {
    let pause = AFTER_SURPRISE.saturating_mul(1 << state.surprises.min(16)).min(AFTER_MANY_SURPRISES);
    state.surprises = state.surprises.saturating_add(1);
    pause
}

/// Plans, with only the members that are known to be `staying` as such, if they were read.
fn decide<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: Snapshot,
    state: &PoolState,
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

/// Takes note of the pool as it is.
fn meet<P: Platform>(context: &Context<P>, pool: &PoolEntry<P>, state: &mut PoolState) {
    let uptime = context.env.uptime();
    state.memory.meet(&pool.facts, uptime);
    let was_on = state.status_conflict.is_on();
    state.status_conflict.meet(&pool.facts.published, version(&*pool.object), uptime);
    if state.status_conflict.is_on() && !was_on {
        context.metrics.writes.batch_failed(FailureReason::StatusDisputed);
        tracing::error!(
            "somebody else keeps writing the status of the pool: nothing is done about it any more"
        );
    }
}

fn is_member<P: Platform>(pool: &PoolEntry<P>) -> impl Fn(&&Arc<Machine>) -> bool + Clone {
    |machine| machine.owner.as_ref() == Some(&pool.facts.id.uid)
}

/// The pool with the revision that its machines shall have.
async fn revise<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolState,
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

/// What the writes need of the revisions.
async fn templates<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    state: &mut PoolState,
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

/// The pool as the API server has it now; `None` if it is gone or another one by now.
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

/// Whether members are counted live before some of them leave for the count, where the cache shows everything up to `proven`.
fn must_count(pool: &Pool, proven: Option<Duration>, uptime: Duration) -> bool {
    // Where nobody stays, nobody can be missing among those who do.
    pool.desired > 0 && proven.is_none_or(|proven| uptime.saturating_sub(proven) > COUNTED_FOR)
}

/// The members of the pool that are not on their way out, as the API server has them now.
async fn live_members<P: Platform>(context: &Context<P>, pool: &Pool) -> Result<BTreeSet<Uid>, Duration> {
    let mut staying = BTreeSet::new();
    let visit = |machine: Slim| {
        let meta = &machine.metadata;
        let owned = controller_of(meta).is_some_and(|owner| owner.uid == pool.id.uid);
        if owned && meta.deletion_timestamp.is_none() {
            staying.extend(meta.uid.as_deref().map(Uid::from));
        }
    };
    match context.list_live_metadata::<P::Machine>(&pool.namespace, visit).await {
        Ok(()) => Ok(staying),
        Err(error) => Err(after_unread(&error, "counting the machines before some of them leave")),
    }
}

/// Tells of a live read that failed, and when to try it again.
fn after_unread(error: &ReadError, what: &str) -> Duration {
    let error = vmpool_runtime::telemetry::with_causes(error);
    tracing::warn!(error, "{what}");
    AFTER_FAILED_READ
}

#[cfg(test)]
mod tests;

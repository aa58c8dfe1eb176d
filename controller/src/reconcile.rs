//! One pass over one pool: observe, plan, apply, report.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmpool_engine::{Plan, Uid, plan, status};

use crate::apply::{Applied, apply};
use crate::context::{Context, Names, PoolEntry, PoolState};
use crate::metrics::{Laps, PassResult, PoolFacts, Stage};
use crate::observe::{Snapshot, settle_overdue};
use crate::platform::Platform;
use crate::queue::Again;
use crate::report::report;

/// When to come back after a read failed.
const AFTER_FAILED_READ: Duration = Duration::from_secs(1);
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
    state.memory.meet(&cached.facts, context.env.uptime());
    laps.lap(&context.env, Stage::Observe);

    // Machines and disks are read before the pool is: whoever sees a machine gone also sees the pool that let it go.
    let snapshot = Snapshot::take(context, &cached.facts, &mut state.memory);
    state.effort += laps.lap(&context.env, Stage::Observe);
    let (mut plan, mut snapshot) = decide(context, &cached, snapshot, state);
    state.effort += laps.lap(&context.env, Stage::Plan);
    let mut pool = cached;
    if plan.rests_on_the_count() {
        let live = read_live(context, &pool).await;
        laps.lap(&context.env, Stage::Observe);
        match live {
            Ok(Some(live)) => pool = Arc::new(live),
            Ok(None) => return Ended::early(PassResult::Gone, Some(after_surprise(state))),
            Err(again) => return Ended::early(PassResult::Unread, Some(again)),
        }
        state.memory.meet(&pool.facts, context.env.uptime());
        (plan, snapshot) = decide(context, &pool, snapshot, state);
        laps.lap(&context.env, Stage::Plan);
    }
    let uid = &pool.facts.id.uid;
    if pool.facts.deleting {
        let (members, terminating) = snapshot.members(&pool.facts);
        context.census.record(uid, PoolFacts::deleting(&pool.facts, members, terminating, &state.memory));
        return Ended::early(PassResult::Gone, None);
    }

    let Plan { actions, again, waits, wants, complaint } = plan;
    for wait in &waits {
        tracing::debug!(%wait, "postponed");
    }
    state.memory.keep_wanted(wants);
    let acted = !actions.is_empty();
    let applied = apply(context, &pool, &snapshot, actions, &mut state.memory).await;
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
    // A plan that wanted to go on at once knew nothing of a failure: the pause after it says when.
    let again = again.filter(|_| !matches!(result, PassResult::Fenced | PassResult::Failed));
    let surprised = match (applied.fenced, applied.outdated) {
        (true, _) => Some(AFTER_FENCE),
        (false, true) => Some(after_surprise(state)),
        (false, false) => {
            state.surprises = 0;
            None
        }
    };

    let (_, terminating) = snapshot.members(&pool.facts);
    let status = {
        let names = Names { context, namespace: &pool.facts.namespace };
        let observed = snapshot.observed(&pool.facts, &state.memory, &names);
        status(&observed, state.memory.failure().or(complaint.as_ref()))
    };
    let facts = PoolFacts::served(&pool.facts, &status, terminating, &state.memory);
    context.census.record(uid, facts);
    let unwritten = report(context, &pool, status, applied, state).await;
    laps.lap(&context.env, Stage::Report);

    let uptime = context.env.uptime();
    let memory = &state.memory;
    let pauses = [&memory.creating, &memory.removing, &memory.repairing, &memory.recording];
    let paused = pauses.into_iter().filter_map(|pacing| pacing.width(uptime).err());
    let overdue = memory.machines.due_in(uptime).into_iter().chain(memory.disks.due_in(uptime));
    Ended { result, again: paused.chain(overdue).chain(again).chain(surprised).chain(unwritten).min() }
}

/// The watch may be stalled: whoever is surprised again and again asks less and less often.
fn after_surprise(state: &mut PoolState) -> Duration {
    let pause = AFTER_SURPRISE.saturating_mul(1 << state.surprises.min(16)).min(AFTER_MANY_SURPRISES);
    state.surprises += 1;
    pause
}

fn decide<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    snapshot: Snapshot,
    state: &PoolState,
) -> (Plan, Snapshot) {
    let names = Names { context, namespace: &pool.facts.namespace };
    let observed = snapshot.observed(&pool.facts, &state.memory, &names);
    let plan = plan(&observed);
    (plan, Snapshot::recover(observed))
}

/// The pool as the API server has it now; `None` if it is gone or another one by now.
async fn read_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
) -> Result<Option<PoolEntry<P>>, Duration> {
    let facts = &pool.facts;
    match context.get_live::<P::Pool>(&facts.namespace, &facts.id.name).await {
        Ok(live) => Ok(live.map(PoolEntry::read).filter(|live| live.facts.id == facts.id)),
        Err(error) => {
            let error = vmpool_runtime::telemetry::with_causes(&error);
            tracing::warn!(error, "reading the pool before writing");
            Err(AFTER_FAILED_READ)
        }
    }
}

#[cfg(test)]
mod tests;

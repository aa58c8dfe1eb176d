//! One pass over one pool: observe, plan, apply, report.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmpool_engine::{Plan, Uid, plan, status};

use crate::apply::apply;
use crate::context::{Context, Names, PoolEntry, PoolState};
use crate::observe::{Snapshot, settle_overdue};
use crate::platform::Platform;
use crate::queue::Again;
use crate::report::report;

/// When to come back after a read failed.
const AFTER_FAILED_READ: Duration = Duration::from_secs(1);
/// When to come back after the world turned out to be another one: time for the watch to show it.
const AFTER_SURPRISE: Duration = Duration::from_millis(50);
/// When to come back after the lease was too short for a write: it is renewed, or this leader is over.
const AFTER_FENCE: Duration = Duration::from_secs(1);

/// One pass over the pool with this UID. Level-triggered: it starts from the world as it is and never asks why it was
/// woken.
pub(crate) async fn reconcile<P: Platform>(context: &Context<P>, uid: &Uid) -> Again {
    let Some(pool) = context.pool(uid) else {
        // The garbage collector takes its machines; nothing of it is remembered for a pool that may come after it.
        context.states.lock().remove(uid);
        return Again::Never;
    };
    let facts = &pool.facts;
    let span = tracing::info_span!(
        "pass",
        pool = format!("{}/{}", facts.namespace, facts.id.name),
        uid = uid.as_str(),
        generation = facts.generation
    );
    let mut state = context.states.lock().remove(uid).unwrap_or_default();
    let again = pass(context, pool.clone(), &mut state).instrument(span).await;
    context.states.lock().insert(uid.clone(), state);
    Again::After(again.unwrap_or(context.settings.resync))
}

async fn pass<P: Platform>(
    context: &Context<P>,
    cached: Arc<PoolEntry<P>>,
    state: &mut PoolState,
) -> Option<Duration> {
    if let Err(error) = settle_overdue(context, &cached, &mut state.memory).await {
        let error = vmpool_runtime::telemetry::with_causes(&error);
        tracing::warn!(error, "reading live what the cache does not show");
        return Some(AFTER_FAILED_READ);
    }
    state.memory.meet(&cached.facts);

    // Machines and disks are read before the pool is: whoever sees a machine gone also sees the pool that let it go.
    let snapshot = Snapshot::take(context, &cached.facts, &mut state.memory);
    let (mut plan, snapshot) = decide(context, &cached, snapshot, state);
    let mut pool = cached;
    let mut snapshot = snapshot;
    if plan.rests_on_the_count() {
        match read_live(context, &pool).await {
            Ok(Some(live)) => pool = Arc::new(live),
            Ok(None) => return Some(AFTER_SURPRISE),
            Err(again) => return Some(again),
        }
        state.memory.meet(&pool.facts);
        (plan, snapshot) = decide(context, &pool, snapshot, state);
    }
    if pool.facts.deleting {
        return None;
    }

    let Plan { actions, again, waits, wants } = plan;
    for wait in &waits {
        tracing::debug!(%wait, "postponed");
    }
    let acted = !actions.is_empty();
    let applied = apply(context, &pool, actions, &mut state.memory).await;
    if acted {
        // The status tells of the writes of this pass, not of the world before them.
        snapshot = Snapshot::take(context, &pool.facts, &mut state.memory);
    }
    state.memory.keep_wanted(wants);
    let surprised =
        if applied.fenced { Some(AFTER_FENCE) } else { applied.outdated.then_some(AFTER_SURPRISE) };

    let status = {
        let names = Names { context, namespace: &pool.facts.namespace };
        let observed = snapshot.observed(&pool.facts, &state.memory, &names);
        status(&observed, state.memory.failure())
    };
    let unwritten = report(context, &pool, status, applied, state).await;

    let uptime = context.env.uptime();
    let memory = &state.memory;
    let pauses = [&memory.creating, &memory.removing, &memory.repairing];
    let paused = pauses.into_iter().filter_map(|pacing| pacing.width(uptime).err());
    paused.chain(again).chain(surprised).chain(unwritten).min()
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

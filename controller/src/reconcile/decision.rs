//! The first half of a pass: all reads, and the plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::failure::FailureReason;
use vmpool_engine::{Action, Machine, Plan, Pool, Uid, plan};
use vmpool_platforms::{Platform, controller_of};

use super::ended::{Ended, after_outdated};
use crate::context::{Context, Names, PoolMemory};
use crate::live::{MetadataOnly, ReadError};
use crate::metrics::{PassResult, PassStep, PassTimer};
use crate::object::version;
use crate::observe::{Snapshot, settle_overdue};
use crate::pool_entry::PoolEntry;
use crate::revisions;
use crate::revisions::known::Revisions;
use crate::revisions::templates::Templates;

/// Time until the next pass after a failed read.
const AFTER_FAILED_READ: Duration = Duration::from_secs(1);
/// Maximum age of the live count of machines when the plan deletes surplus machines. A scale-down of a large pool takes
/// several passes of about this duration, and the watch shows the deletions of one pass before the next.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// The plan, and what it was made from.
pub(super) struct Decision<P: Platform> {
    /// The pool, read live if the plan depends on its spec.
    pub(super) pool: Arc<PoolEntry<P>>,
    /// The machines and disks.
    pub(super) snapshot: Snapshot,
    /// The writes; none while another client overwrites the status of the pool.
    pub(super) plan: Plan,
    /// The stored templates that the writes need.
    pub(super) templates: Templates,
}

/// Reads the cached state and plans. If the plan depends on the live pool, or on the live number of machines, reads that
/// as well and plans again.
///
/// # Errors
/// The end of the pass, if a read failed or the pool is gone.
pub(super) async fn observe_and_plan<P: Platform>(
    context: &Context<P>,
    cached: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
    timer: &mut PassTimer,
) -> Result<Decision<P>, Ended> {
    if let Err(error) = settle_overdue(context, &cached, &mut state.memory).await {
        timer.record(&context.env, PassStep::Observe);
        return Err(after_failed_read(&error, "resolving pending writes with live reads"));
    }
    state.memory.reservation_timeout = Some(context.settings.reservation_timeout);
    let mut pool = observe_pool(context, cached, state).await?;
    timer.record(&context.env, PassStep::Observe);

    // Read before the snapshot, which can only be newer.
    let proven = context.machines.proven();
    // Machines and disks are read before the pool. If the pass sees that a machine is gone, it also sees the spec of
    // the pool that caused this.
    let mut snapshot = Snapshot::take(context, &pool.facts, &mut state.memory);
    let machines = snapshot.machines().filter(is_pool_machine(&pool));
    state.memory.observe_machines(machines, context.env.uptime());
    state.effort += timer.record(&context.env, PassStep::Observe);

    let mut is_live = false;
    let mut staying = None;
    loop {
        let plan;
        (plan, snapshot) = decide(context, &pool, snapshot, state, staying.as_ref());
        state.effort += timer.record(&context.env, PassStep::Plan);
        if plan.needs_live_pool() && !is_live {
            let live = read_live(context, &pool, state).await;
            timer.record(&context.env, PassStep::Observe);
            pool = observe_pool(context, Arc::new(live?), state).await?;
            is_live = true;
        } else if plan.deletes_surplus()
            && staying.is_none()
            && must_count(&pool.facts, proven, context.env.uptime())
        {
            let live = live_machines(context, &pool.facts).await;
            timer.record(&context.env, PassStep::Observe);
            staying = Some(live?);
        } else {
            let plan = if state.status_conflict.is_active() { Plan::default() } else { plan };
            let templates = templates(context, &pool, state, &plan.actions).await?;
            return Ok(Decision { pool, snapshot, plan, templates });
        }
    }
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

/// The pool with its current revision. Updates the memory with it.
async fn observe_pool<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<PoolEntry<P>>, Ended> {
    let pool = revise(context, pool, state).await?;
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
    Ok(pool)
}

fn is_pool_machine<P: Platform>(pool: &PoolEntry<P>) -> impl Fn(&&Arc<Machine>) -> bool + Clone {
    |machine| machine.owner.as_ref() == Some(&pool.facts.id.uid)
}

async fn revise<P: Platform>(
    context: &Context<P>,
    pool: Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<PoolEntry<P>>, Ended> {
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
    result.await.map_err(|error| after_failed_read(&error, "reading the revisions of the template"))
}

/// Reads the pool live. A pool that is gone, or has another UID, ends the pass.
async fn read_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    state: &mut PoolMemory,
) -> Result<PoolEntry<P>, Ended> {
    let facts = &pool.facts;
    let live = context.get_live::<P::Pool>(&facts.namespace, &facts.id.name).await;
    let live = live.map_err(|error| after_failed_read(&error, "reading the pool before writing"))?;
    live.map(PoolEntry::read)
        .filter(|live| live.facts.id == facts.id)
        .ok_or_else(|| Ended { result: PassResult::Gone, again: Some(after_outdated(state)) })
}

/// Whether the controller must list the machines live before it deletes surplus machines. The cache is complete up to
/// `proven`.
fn must_count(pool: &Pool, proven: Option<Duration>, uptime: Duration) -> bool {
    // With `replicas: 0` the live count cannot change the result, so it is skipped.
    pool.desired > 0 && proven.is_none_or(|proven| uptime.saturating_sub(proven) > COUNTED_FOR)
}

/// Lists the live machines of the pool from the API server.
async fn live_machines<P: Platform>(context: &Context<P>, pool: &Pool) -> Result<BTreeSet<Uid>, Ended> {
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
        Err(error) => Err(after_failed_read(&error, "listing the machines before a scale-down")),
    }
}

/// The templates that the writes need.
async fn templates<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    state: &mut PoolMemory,
    actions: &[Action],
) -> Result<Templates, Ended> {
    let Some(revisions) = &mut state.revisions else { return Ok(Templates::default()) };
    let templates = revisions::templates(context, pool, revisions, actions).await;
    templates.map_err(|error| after_failed_read(&error, "reading the revisions of machines"))
}

/// Logs a failed read. The pass ends, and the next one reads again.
fn after_failed_read(error: &ReadError, attempt: &'static str) -> Ended {
    let error = vmpool_runtime::telemetry::with_causes(error);
    tracing::warn!(error, attempt, "a read failed");
    Ended { result: PassResult::Unread, again: Some(AFTER_FAILED_READ) }
}

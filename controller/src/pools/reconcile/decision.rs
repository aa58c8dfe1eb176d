//! The first half of a pass: all reads, and the plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use vmpool_engine::failure::{FailureReason, PoolFailure};
use vmpool_engine::limits::shorten_message;
use vmpool_engine::model::{Finalizer, UnusableTemplate};
use vmpool_engine::plan::{ApplyStage, PoolSnapshot};
use vmpool_engine::scale_up::class_slots::ClassSlots;
use vmpool_engine::{Machine, ObservedPool, Plan, Pool, PoolAction, Uid, plan_pass};
use vmpool_kit::object::object_version;
use vmpool_platforms::{Platform, former_pool, is_controlled_by};

use super::ended::{Ended, after_outdated};
use super::lost::observe_losses;
use super::unread::{NoPlan, at_shown_revision, may_read, record_failed_read};
use crate::metrics::{PassResult, PassStep, PassTimer};
use crate::pools::apply::random_jitter;
use crate::pools::class_slots::request_slots;
use crate::pools::context::{CachedNames, PoolContext, PoolMemory};
use crate::pools::events::PoolEvent;
use crate::pools::live::{MetadataOnly, ReadError};
use crate::pools::observe::{self, resolve_overdue_ledgers};
use crate::pools::pool_entry::{CachedPool, PoolEntry};
use crate::pools::pool_key::PoolKey;
use crate::pools::revisions;
use crate::pools::revisions::pool_revisions::PoolRevisions;
use crate::pools::revisions::templates::Templates;

/// Maximum age of the live count of machines when the plan deletes surplus machines. A scale-down of a large
/// pool takes several passes of about this duration, and the watch shows the deletions of one pass before the
/// next.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// The plan, and what it was made from.
pub(super) struct PassDecision<P: Platform> {
    /// The pool, read live if the plan depends on its spec.
    pub(super) pool: Arc<PoolEntry<P>>,
    /// The machines and disks.
    pub(super) snapshot: PoolSnapshot,
    /// The writes; none while another client overwrites the status of the pool.
    pub(super) plan: Plan,
    /// The stored templates that the writes need.
    pub(super) templates: Templates,
    /// The events about what was observed.
    pub(super) events: Vec<PoolEvent>,
}

/// Reads the cached state and plans. If the plan depends on the live pool, or on the live number of machines,
/// reads that as well and plans again.
///
/// # Errors
/// A read failed, or the pool is gone.
pub(super) async fn observe_and_plan<P: Platform>(
    context: &PoolContext<P>,
    cached: Arc<CachedPool<P>>,
    state: &mut PoolMemory,
    timer: &mut PassTimer,
) -> Result<PassDecision<P>, NoPlan<P>> {
    if let Err(error) = resolve_overdue_writes(context, &cached, state).await {
        timer.record(&context.leader.env, PassStep::Observe);
        let shown = at_shown_revision(&cached, state);
        return Err(record_failed_read(
            context,
            shown,
            state,
            &error,
            "resolving pending writes with live reads",
        ));
    }
    // The watch can be behind a live read of an earlier pass. What that pass wrote must not be undone with an
    // older spec.
    let is_behind = cached.facts.generation < state.memory.generation;
    let cached = if is_behind {
        let shown = at_shown_revision(&cached, state);
        read_live(context, &shown, state).await?
    } else {
        cached
    };
    let mut pool = observe_pool(context, cached, state).await?;
    timer.record(&context.leader.env, PassStep::Observe);

    // Read before the snapshot, which can only be newer.
    let proven = context.caches.machines.proven();
    // Machines and disks are read before the pool. If the pass sees that a machine is gone, it also sees the
    // spec of the pool that caused this.
    let mut snapshot = observe::observe_pool_snapshot(context, &pool.facts, &mut state.memory);
    let machines = snapshot.machines.iter().filter(is_pool_machine(&pool));
    state.memory.observe_machines(machines, context.leader.env.uptime());
    state.memory.forget_healed(snapshot.machines.iter());
    state.effort += timer.record(&context.leader.env, PassStep::Observe);

    let events = observe_losses(context, &pool, &mut state.memory).await;
    timer.record(&context.leader.env, PassStep::Observe);

    let mut is_live = is_behind;
    let mut is_counted = false;
    loop {
        let plan = plan_pool(context, &pool, &snapshot, state, None);
        state.effort += timer.record(&context.leader.env, PassStep::Plan);
        if plan.needs_live_pool() && !is_live {
            let live = read_live(context, &pool, state).await;
            timer.record(&context.leader.env, PassStep::Observe);
            pool = observe_pool(context, live?, state).await?;
            is_live = true;
        } else if plan.deletes_surplus()
            && !is_counted
            && must_count(&pool.facts, proven, context.leader.env.uptime())
        {
            let live = live_machines(context, &pool, state).await;
            timer.record(&context.leader.env, PassStep::Observe);
            snapshot.count_live(&pool.facts.id, &live?);
            is_counted = true;
        } else {
            // A pool that is being deleted has no status that matters.
            let is_disputed = state.status_conflict.is_active() && !pool.facts.deleting;
            let mut plan = match is_disputed {
                // Otherwise the pool would keep an object that is being deleted.
                true if pool.facts.revision.copies.wanted => plan.revision_only(),
                true => Plan::default(),
                false => match request_slots(context, &pool, &snapshot, state, &plan) {
                    Some(slots) => plan_pool(context, &pool, &snapshot, state, Some(slots)),
                    None => plan,
                },
            };
            let templates = read_planned_templates(context, &pool, state, &plan.actions).await?;
            state.memory.reading.reset();
            withhold_unresolved(context, &pool, state, &mut plan, &templates);
            if state.unresolved.is_some() {
                // The pool would keep slots from others that it cannot use.
                context.class_slots.withdraw(&PoolKey::of(&pool.facts), context.leader.env.uptime());
            }
            return Ok(PassDecision { pool, snapshot, plan, templates, events });
        }
    }
}

/// If the current template refers to objects that are missing or do not fit, removes the writes that need it,
/// until a later attempt succeeds.
fn withhold_unresolved<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    state: &mut PoolMemory,
    plan: &mut Plan,
    templates: &Templates,
) {
    if let Some(unresolved) = &templates.unresolved {
        tracing::warn!(
            reason = unresolved.reason.as_str(),
            message = unresolved.message,
            "the template cannot be used"
        );
        context.metrics.writes.batch_failed(FailureReason::FailedCreate);
        let failure = PoolFailure {
            reason: FailureReason::FailedCreate,
            message: shorten_message(unresolved.message.clone()),
        };
        let backoff = state.memory.backoff_mut(ApplyStage::Prepare);
        backoff.failed(failure, context.leader.env.uptime(), None, random_jitter(context));
        let message = shorten_message(unresolved.message.clone());
        state.unresolved = Some(UnusableTemplate { message, ..unresolved.clone() });
    } else if plan.stores_revision() || pool.facts.revision.stored || !plan.wants.create {
        state.unresolved = None;
    }
    if state.unresolved.is_some() {
        plan.withhold_template(templates.is_partial);
    }
}

fn plan_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    snapshot: &PoolSnapshot,
    state: &PoolMemory,
    class_slots: Option<ClassSlots>,
) -> Plan {
    let names = CachedNames { context, namespace: &pool.facts.namespace };
    let stored = state.revisions.as_ref().map(PoolRevisions::ids).unwrap_or_default();
    let settings = context.settings.of_plans();
    let observed = ObservedPool::new(snapshot, &pool.facts, &stored, settings, &state.memory, &names);
    let mut plan = plan_pass(&ObservedPool { class_slots, ..observed });
    // Before anything is read live for the plan: a pool that waits sends no request. The change of the image
    // wakes it, and the resync is the safety interval.
    if pool.facts.images.is_some() {
        plan.withhold_template(pool.facts.revision.copies.wanted);
    }
    plan
}

/// The pool with its current revision. Updates the memory with it.
async fn observe_pool<P: Platform>(
    context: &PoolContext<P>,
    pool: Arc<CachedPool<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<PoolEntry<P>>, NoPlan<P>> {
    let pool = observe_current_revision(context, pool, state).await?;
    let uptime = context.leader.env.uptime();
    state.memory.observe(&pool.facts, uptime);
    let sources = context.sources.version();
    if state.unresolved.is_some() && state.sources_version != sources {
        // An object that the template refers to may exist now.
        state.memory.backoff_mut(ApplyStage::Prepare).succeeded();
    }
    state.sources_version = sources;
    let was_on = state.status_conflict.is_active();
    state.status_conflict.observe(&pool.facts.published, object_version(&*pool.object), uptime);
    if state.status_conflict.is_active() && !was_on {
        context.metrics.writes.batch_failed(FailureReason::StatusDisputed);
        tracing::error!(
            "another client keeps overwriting the status of the pool: the controller stops writing to the pool"
        );
    }
    Ok(pool)
}

fn is_pool_machine<P: Platform>(pool: &PoolEntry<P>) -> impl Fn(&&Arc<Machine>) -> bool + Clone {
    |machine| machine.belongs_to(&pool.facts.id)
}

async fn observe_current_revision<P: Platform>(
    context: &PoolContext<P>,
    pool: Arc<CachedPool<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<PoolEntry<P>>, NoPlan<P>> {
    // Only a finalizer gives the controller the time to delete revisions.
    if pool.facts.deleting && pool.facts.finalizer != Finalizer::Present {
        return Ok(Arc::new(pool.at(revisions::unstored_revision(&pool))));
    }
    let is_copy = former_pool(pool.object.meta(), P::MACHINES_OF, &pool.facts.id).is_some();
    if std::mem::replace(&mut state.was_copy, is_copy) && !is_copy {
        state.revisions = None;
    }
    let may_read = may_read(context, state);
    let result = async {
        if state.revisions.is_none() {
            may_read?;
            state.revisions = Some(revisions::list_revisions(context, &pool).await?);
        }
        let revisions = state.revisions.get_or_insert_default();
        revisions.in_backoff = state.memory.reading.batch_size(context.leader.env.uptime()).is_err();
        let cache = context.caches.revisions.of(&pool.facts.namespace);
        revisions.drop_deleted(&cache);
        revisions::read_unconfirmed(context, &pool, revisions).await?;
        revisions.observe_copies(&pool.facts.id, &cache);
        revisions::resolve_pool_revision(context, &pool, revisions).await
    };
    match result.await {
        Ok(pool) => Ok(Arc::new(pool)),
        // They are not worth a delay of the deletion.
        Err(_) if pool.facts.deleting => Ok(Arc::new(pool.at(revisions::unstored_revision(&pool)))),
        Err(error) => {
            let shown = at_shown_revision(&pool, state);
            Err(record_failed_read(context, shown, state, &error, "reading the revisions of the template"))
        }
    }
}

/// Resolves overdue pending writes with live reads.
async fn resolve_overdue_writes<P: Platform>(
    context: &PoolContext<P>,
    pool: &CachedPool<P>,
    state: &mut PoolMemory,
) -> Result<(), ReadError> {
    let uptime = context.leader.env.uptime();
    if state.memory.machines.overdue(uptime).is_empty() && state.memory.disks.overdue(uptime).is_empty() {
        return Ok(());
    }
    may_read(context, state)?;
    resolve_overdue_ledgers(context, pool, &mut state.memory).await
}

/// Reads the pool live. A pool that is gone, or has another UID, ends the pass.
async fn read_live<P: Platform>(
    context: &PoolContext<P>,
    pool: &Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
) -> Result<Arc<CachedPool<P>>, NoPlan<P>> {
    let facts = &pool.facts;
    let live = match may_read(context, state) {
        Ok(()) => context.get_live::<P::Pool>(&facts.namespace, &facts.id.name).await,
        Err(error) => Err(error),
    };
    let live = live.map_err(|error| {
        record_failed_read(context, pool.clone(), state, &error, "reading the pool before writing")
    })?;
    live.map(CachedPool::read)
        .filter(|live| live.facts.id == facts.id)
        .map(Arc::new)
        .ok_or_else(|| NoPlan::Ended(Ended { result: PassResult::Gone, again: Some(after_outdated(state)) }))
}

/// Whether the controller must list the machines live before it deletes surplus machines. The watch has shown
/// a write of the controller, and so all changes up to `proven`. A list alone is no proof: after a change of
/// leaders, the first deletion is always counted live.
fn must_count(pool: &Pool, proven: Option<Duration>, uptime: Duration) -> bool {
    // If no machine stays, the live count cannot change the result, so it is skipped.
    let keeps_some = pool.desired > 0 || pool.standby.is_some_and(|standby| standby.replicas > 0);
    keeps_some && proven.is_none_or(|proven| uptime.saturating_sub(proven) > COUNTED_FOR)
}

/// Lists the live machines of the pool from the API server.
async fn live_machines<P: Platform>(
    context: &PoolContext<P>,
    pool: &Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
) -> Result<BTreeSet<Uid>, NoPlan<P>> {
    let mut staying = BTreeSet::new();
    let visit = |machine: MetadataOnly| {
        let meta = &machine.metadata;
        if is_controlled_by::<P::Pool>(meta, &pool.facts.id) && meta.deletion_timestamp.is_none() {
            staying.extend(meta.uid.as_deref().map(Uid::from));
        }
    };
    let listed = match may_read(context, state) {
        Ok(()) => context.list_live_metadata::<P::Machine>(&pool.facts.namespace, visit).await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(()) => Ok(staying),
        Err(error) => Err(record_failed_read(
            context,
            pool.clone(),
            state,
            &error,
            "listing the machines before a scale-down",
        )),
    }
}

/// The templates that the writes need.
async fn read_planned_templates<P: Platform>(
    context: &PoolContext<P>,
    pool: &Arc<PoolEntry<P>>,
    state: &mut PoolMemory,
    actions: &[PoolAction],
) -> Result<Templates, NoPlan<P>> {
    let Some(revisions) = &mut state.revisions else { return Ok(Templates::default()) };
    let templates = revisions::read_templates_for_actions(context, pool, revisions, actions).await;
    templates.map_err(|error| {
        record_failed_read(context, pool.clone(), state, &error, "reading the revisions of machines")
    })
}

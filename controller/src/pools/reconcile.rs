//! One pass over one pool: observe, plan, apply, report.

mod decision;
mod ended;
mod lost;
mod orphans;
mod unread;

pub(crate) use orphans::release_former_machines;

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use vmpool_engine::failure::PoolFailure;
use vmpool_engine::healing::count_unhealthy;
use vmpool_engine::plan::{FinishedDrain, PoolSnapshot};
use vmpool_engine::scale_up::provisioning::count_provisioning;
use vmpool_engine::status::{
    Availability, describe_blocked_healing, find_delaying_limit, find_detached_disks, first_start_problem,
    measure_distance,
};
use vmpool_engine::{ObservedPool, Plan, compute_status};
use vmpool_kit::object::object_version;
use vmpool_kit::passes::PassEnd;
use vmpool_kit::queue::Requeue;
use vmpool_platforms::Platform;

use self::decision::{PassDecision, observe_and_plan};
use self::ended::{AFTER_OUTDATED, Ended, after_outdated};
use self::unread::NoPlan;
use crate::metrics::{DelayingLimit, PassResult, PassStep, PassTimer, PoolReport};
use crate::pools::apply::{AppliedPlan, PlanValidity, apply_plan};
use crate::pools::context::{CachedNames, PoolContext, PoolMemory};
use crate::pools::events::{EventReason, PoolEvent};
use crate::pools::observe::{self, disk_counts, machine_counts};
use crate::pools::pool_entry::{CachedPool, PoolEntry};
use crate::pools::pool_key::PoolKey;
use crate::pools::report::{
    blocked_healing_event, detached_disk_events, invalid_settings_event, overdue_event, problem_event,
    report_pass, unresolved_event,
};
use crate::pools::waiting_storage::add_storage_problem;

/// Time until the next pass after the lease was too short for a write. By then it is renewed or lost.
const AFTER_FENCE: Duration = Duration::from_secs(1);

/// Runs one pass over this pool. The pass is level-triggered: it starts from the current state and does
/// not use the reason of its wakeup.
pub(crate) async fn reconcile_pool<P: Platform>(context: &PoolContext<P>, key: &PoolKey) -> PassEnd {
    let Some(pool) = context.pool(key) else {
        // The garbage collector deletes its machines. The memory is dropped, so a new pool with the same name
        // starts with an empty one.
        context.states.lock().remove(key);
        context.pool_counts.forget(key);
        context.images.forget(key);
        context.disk_sources.forget(key);
        context.class_slots.forget(key, context.leader.env.uptime());
        let again = orphans::release_pool_orphans(context, key).await;
        context.metrics.passes.ended(PassResult::Gone);
        return again.map_or(Requeue::Never, Requeue::After).into();
    };
    let facts = &pool.facts;
    let span = tracing::info_span!(
        "pass",
        pool = format!("{}/{}", facts.namespace, facts.id.name),
        uid = key.uid.as_str(),
        generation = facts.generation
    );
    let mut state = context.states.lock().remove(key).unwrap_or_default();
    state.effort = Duration::ZERO;
    let mut timer = PassTimer::start(&context.leader.env);
    let Ended { result, again } =
        run_pool_pass(context, pool.clone(), &mut state, &mut timer).instrument(span).await;
    let effort = state.effort;
    context.states.lock().insert(key.clone(), state);
    context.metrics.passes.ended(result);
    context.metrics.passes.took(&timer);
    if again.is_some() {
        context.metrics.queue.requeued.inc();
    }
    let resync = context.settings.resync;
    PassEnd { again: Requeue::After(again.unwrap_or(resync).min(resync)), effort }
}

async fn run_pool_pass<P: Platform>(
    context: &PoolContext<P>,
    cached: Arc<CachedPool<P>>,
    state: &mut PoolMemory,
    timer: &mut PassTimer,
) -> Ended {
    let decision = match observe_and_plan(context, cached, state, timer).await {
        Ok(decision) => decision,
        Err(NoPlan::Ended(ended)) => return ended,
        Err(NoPlan::Unread { pool, event }) => {
            return without_plan(context, &pool, event, state, timer).await;
        }
    };
    let PassDecision { pool, mut snapshot, plan, templates, events } = decision;
    if pool.facts.deleting && plan.actions.is_empty() {
        let (machines, terminating) = machine_counts(&snapshot, &pool.facts);
        let disks = disk_counts(&snapshot, &pool.facts);
        let facts = PoolReport::deleting(&pool.facts, machines, terminating, disks, &state.memory);
        context.pool_counts.record(&PoolKey::of(&pool.facts), facts);
        return Ended { result: PassResult::Gone, again: plan.requeue_after };
    }
    let Plan { actions, requeue_after, blockers, wants, failure, awaited, finished_drains } = plan;
    for blocker in &blockers {
        tracing::debug!(%blocker, "blocked");
    }
    state.memory.reset_unwanted(wants);
    state.memory.await_disks(&awaited, context.leader.env.uptime());
    state.memory.record_blockers(&blockers);

    let acted = !actions.is_empty();
    let mut applied = apply_plan(context, &pool, &snapshot, &actions, templates, &mut state.memory).await;
    applied.events.extend(events);
    context.metrics.drains.finished(&finished_drains);
    applied.events.extend(finished_drains.iter().filter_map(expired_drain_event));
    if let Some(revisions) = &mut state.revisions {
        let uptime = context.leader.env.uptime();
        applied.revisions.drain(..).for_each(|change| revisions.record(change, uptime));
    }
    let result = match &applied {
        AppliedPlan { fenced: true, .. } => PassResult::Fenced,
        AppliedPlan { failed: true, .. } => PassResult::Failed,
        AppliedPlan { validity: PlanValidity::Aged | PlanValidity::Outdated, .. } => PassResult::Outdated,
        _ if acted => PassResult::Acted,
        _ => PassResult::Idle,
    };
    if acted {
        timer.record(&context.leader.env, PassStep::Apply);
        // The status includes the writes of this pass.
        snapshot = observe::observe_pool_snapshot(context, &pool.facts, &mut state.memory);
    }
    let planned = requeue_after.and_then(|after| planned_requeue_delay(after, result));
    let outdated = after_writes(&applied, state);

    add_storage_problem(context, &pool, &mut snapshot, state).await;
    let unwritten = publish_pass_result(context, &pool, &snapshot, applied, failure, state).await;
    timer.record(&context.leader.env, PassStep::Report);
    let times = state.deadlines(context.leader.env.uptime());
    Ended { result, again: times.chain(planned).chain(outdated).chain(unwritten).min() }
}

/// Reports a pass without a plan. The status shows the failed read, and continues to count the machines.
async fn without_plan<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    event: Option<PoolEvent>,
    state: &mut PoolMemory,
    timer: &mut PassTimer,
) -> Ended {
    let mut unwritten = None;
    if !pool.facts.deleting {
        let snapshot = observe::observe_pool_snapshot(context, &pool.facts, &mut state.memory);
        let applied = AppliedPlan { events: event.into_iter().collect(), ..AppliedPlan::default() };
        unwritten = publish_pass_result(context, pool, &snapshot, applied, None, state).await;
        timer.record(&context.leader.env, PassStep::Report);
    }
    let left = state.memory.reading.batch_size(context.leader.env.uptime()).err().unwrap_or_default();
    Ended { result: PassResult::Unread, again: unwritten.into_iter().chain([left]).min() }
}

/// The time until the next pass after these writes: the lease was too short, or the state differed from the
/// plan, or writes took long.
fn after_writes(applied: &AppliedPlan, state: &mut PoolMemory) -> Option<Duration> {
    match applied {
        AppliedPlan { fenced: true, .. } => Some(AFTER_FENCE),
        AppliedPlan { validity: PlanValidity::Outdated, .. } => Some(after_outdated(state)),
        AppliedPlan { validity, .. } => {
            state.outdated_passes = 0;
            (*validity == PlanValidity::Aged).then_some(AFTER_OUTDATED)
        }
    }
}

/// Publishes the result of a pass. Returns the time until it must be published again: if the status could not
/// be written now, at the progress deadline, or when protection ends.
async fn publish_pass_result<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    snapshot: &PoolSnapshot,
    mut applied: AppliedPlan,
    plan_failure: Option<PoolFailure>,
    state: &mut PoolMemory,
) -> Option<Duration> {
    let own = as_published(pool, state);
    let pool = own.as_ref().unwrap_or(pool);
    let (_, terminating) = machine_counts(snapshot, &pool.facts);
    let disks = disk_counts(snapshot, &pool.facts);
    let names = CachedNames { context, namespace: &pool.facts.namespace };
    let failure = combine_failures(state.status_conflict.failure(), state.memory.failure(), plan_failure);
    let settings = context.settings.of_plans();
    let distance =
        measure_distance(&ObservedPool::new(snapshot, &pool.facts, &[], settings, &state.memory, &names));
    state.memory.record_distance(distance, snapshot.uptime);
    let (status, detached, problem, availability, provisioning, unhealthy, blocked_healing) = {
        let observed = ObservedPool::new(snapshot, &pool.facts, &[], settings, &state.memory, &names);
        let availability = Availability::of(&observed);
        (
            compute_status(&observed, failure.as_ref()),
            find_detached_disks(&observed),
            first_start_problem(&observed),
            availability,
            settings.limits_provisioning.then(|| {
                (count_provisioning(&observed), DelayingLimit::from(find_delaying_limit(&observed)))
            }),
            count_unhealthy(&observed),
            describe_blocked_healing(&observed),
        )
    };
    applied.events.extend(detached_disk_events(&pool.facts, detached, &mut state.announced));
    let problem = problem.filter(|_| status.summary.ready < pool.facts.desired);
    applied.events.extend(problem_event(&pool.facts, problem, &mut state.announced));
    let mut facts = PoolReport::served(&pool.facts, &status, terminating, availability, disks, &state.memory);
    if let Some((machines, limit)) = provisioning {
        facts = facts.with_provisioning(machines, limit);
    }
    if pool.facts.healing.is_some() {
        facts = facts.with_health(unhealthy, blocked_healing.is_some());
    }
    context.pool_counts.record(&PoolKey::of(&pool.facts), facts);
    applied.events.extend(blocked_healing_event(&pool.facts, blocked_healing, &mut state.announced));
    applied.events.extend(unresolved_event(&pool.facts, &mut state.announced));
    applied.events.extend(invalid_settings_event(&pool.facts, &status, &mut state.announced));
    applied.events.extend(overdue_event(&pool.facts, &status, &mut state.announced));
    let unwritten = report_pass(context, pool, status, applied, state).await;
    // Then the pool is stalled.
    let overdue = state.memory.progress().time_left(pool.facts.progress_deadline, snapshot.uptime);
    // At the first end of protection, the metrics change.
    unwritten.into_iter().chain(overdue).chain(availability.first_end).min()
}

/// The event about a machine whose step follows although hooks are not released; `None` if all are.
fn expired_drain_event(drain: &FinishedDrain) -> Option<PoolEvent> {
    if drain.hooks.is_empty() {
        return None;
    }
    let note = format!(
        "machine {} leaves or restarts, because the deadline of its drain has passed: not released are {}",
        drain.machine,
        drain.hooks.join(", ")
    );
    Some(PoolEvent { reason: EventReason::DrainDeadlinePassed, name: drain.machine.to_string(), note })
}

/// The failure that the conditions report. A plan that creates nothing because machines do not stay in the
/// pool comes before the last failed write, which is not repeated meanwhile: the reason must be what a user
/// has to remove.
fn combine_failures(
    disputed: Option<PoolFailure>,
    written: Option<PoolFailure>,
    planned: Option<PoolFailure>,
) -> Option<PoolFailure> {
    let (lost, planned) = match planned {
        Some(planned) if planned.reason.is_loss() => (Some(planned), None),
        planned => (None, planned),
    };
    PoolFailure::combine([disputed, lost, written, planned].iter().flatten())
}

/// The pool with the last written status, if `pool` is older than that write, with the reason why its
/// template cannot be used, and with the copies of a revision that this pass has stored. Without the first,
/// the status would be written again, and without the last, the next pass would write it once more.
fn as_published<P: Platform>(pool: &PoolEntry<P>, state: &PoolMemory) -> Option<PoolEntry<P>> {
    let unseen = state.last_status.as_ref().filter(|last| object_version(&*pool.object) < last.version);
    let current = &pool.facts.revision;
    let used_copies = state.revisions.as_ref().map(|revisions| revisions.used_copies(current));
    let used_copies = used_copies.filter(|used| *used != current.copies.used);
    if unseen.is_none() && state.unresolved.is_none() && used_copies.is_none() {
        return None;
    }
    let mut facts = pool.facts.clone();
    facts.unresolved.clone_from(&state.unresolved);
    if let Some(used_copies) = used_copies {
        facts.revision.copies.used = used_copies;
    }
    if let Some(last) = unseen {
        facts.published = last.became.clone();
    }
    Some(PoolEntry { facts, object: pool.object.clone() })
}

/// The time until the next pass that the plan requests, depending on the result of this pass.
fn planned_requeue_delay(after: Duration, result: PassResult) -> Option<Duration> {
    match result {
        // The plan did not include the failure. The backoff determines the next pass.
        PassResult::Fenced | PassResult::Failed => None,
        // Without writes an immediate pass would find the same state. This prevents a busy loop.
        PassResult::Idle => Some(after.max(AFTER_OUTDATED)),
        _ => Some(after),
    }
}

#[cfg(test)]
mod tests;

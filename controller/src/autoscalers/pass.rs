//! One pass of an autoscaler: observe, decide, apply, report.

use std::time::Duration;

use vmpool_api::ObjectKey;
use vmpool_api::autoscaler::PoolAutoscaler;
use vmpool_autoscaler::limits::AutoscalerSettings;
use vmpool_autoscaler::status::{AutoscalerActivity, AutoscalerReport, LastScale, ScaledPoolReport};
use vmpool_kit::queue::Requeue;

use super::apply::{AGAIN, Applied, ScaledPool, apply_decision};
use super::context::AutoscalerContext;
use super::decide::{decide_pass, find_activity, next_pass};
use super::hub::PoolsOfGroup;
use super::pool_facts::AutoscaledPoolFacts;
use super::report::{STATUS_INTERVAL, StatusWrite, autoscaler_subject, write_autoscaler_status};
use super::store::KnownAutoscaler;
use crate::plain_events::publish_plain_event;

/// Runs a pass.
pub(super) async fn reconcile_autoscaler(context: &AutoscalerContext, key: &ObjectKey) -> Requeue {
    let Some(KnownAutoscaler { object, settings }) = context.store.get(key) else {
        context.forget(key);
        return Requeue::Never;
    };
    if object.metadata.deletion_timestamp.is_some() {
        return Requeue::Never;
    }
    let pool = ObjectKey::new(key.namespace.as_str(), settings.pool.name.as_str());
    let (pools, removal) = match context.hub.find(&settings.pool.group) {
        PoolsOfGroup::Served(pools, removal) => (pools, removal),
        PoolsOfGroup::NotServed => {
            let report = report_without_pool(&object, &settings, AutoscalerActivity::PoolNotServed);
            return end_pass(context, key, &object, &report, None).await;
        }
        PoolsOfGroup::NotRead => {
            context.hub.note_user(key, None);
            return Requeue::After(AGAIN);
        }
    };
    // Registered before the look, so that no change comes in between.
    context.hub.note_user(key, None);
    let Some((pool_key, facts)) = pools.observe(&pool) else {
        let report = report_without_pool(&object, &settings, AutoscalerActivity::PoolNotFound);
        return end_pass(context, key, &object, &report, None).await;
    };
    context.hub.note_user(key, Some(pool_key));
    let scaled = ScaledPool { pools, removal, settings, key: pool };
    reconcile_scaled_pool(context, key, &object, &scaled, facts).await
}

async fn reconcile_scaled_pool(
    context: &AutoscalerContext,
    key: &ObjectKey,
    object: &PoolAutoscaler,
    scaled: &ScaledPool,
    facts: AutoscaledPoolFacts,
) -> Requeue {
    let decided = decide_pass(context, key, &scaled.settings, &facts);
    let mut activity = find_activity(context, key, object, &scaled.settings, &facts);
    let mut next = next_pass(context, &facts, &decided);
    let mut replicas = facts.replicas;
    let backoff = context.with_memory(key, &facts.id.uid, |memory| memory.backoff.clone());
    let remaining = |until: Duration| until.saturating_sub(context.leader.env.uptime());
    let backoff = backoff.map(|(until, message)| (remaining(until), message));
    if let Some((wait, message)) = backoff.filter(|(wait, _)| !wait.is_zero()) {
        if activity == AutoscalerActivity::Scaling {
            next = Some(next.unwrap_or(wait).min(wait));
            activity = AutoscalerActivity::FailedScale(message);
        }
    } else if activity == AutoscalerActivity::Scaling {
        match apply_decision(context, key, scaled, &facts, &decided).await {
            Applied::Nothing => {}
            Applied::Outdated => next = Some(AGAIN),
            Applied::Scaled { from, to, reason } => {
                announce_scale(context, key, object, &scaled.settings.pool.name, from, to, &reason);
                replicas = to;
                let last = LastScale { time: context.leader.env.now(), reason };
                context.with_memory(key, &facts.id.uid, |memory| memory.last_scale = Some(last));
            }
            Applied::Failed { message, again } => {
                tracing::warn!(autoscaler = %key, message, "the pool of an autoscaler was not scaled");
                next = Some(again);
                let until = context.leader.env.uptime() + again;
                context.with_memory(key, &facts.id.uid, |memory| {
                    memory.backoff = Some((until, message.clone()));
                });
                activity = AutoscalerActivity::FailedScale(message);
            }
        }
    }
    let report = AutoscalerReport {
        generation: object.metadata.generation,
        activity,
        problems: scaled.settings.problems.clone(),
        pool: Some(ScaledPoolReport {
            replicas,
            counts: facts.counts(),
            standby: facts.standby,
            explanation: decided.explanation,
        }),
        // A status waits for its turn, and must then have the changes of earlier passes.
        scaled: context.with_memory(key, &facts.id.uid, |memory| memory.last_scale.clone()),
    };
    end_pass(context, key, object, &report, next).await
}

fn report_without_pool(
    object: &PoolAutoscaler,
    settings: &AutoscalerSettings,
    activity: AutoscalerActivity,
) -> AutoscalerReport {
    AutoscalerReport {
        generation: object.metadata.generation,
        activity,
        problems: settings.problems.clone(),
        pool: None,
        scaled: None,
    }
}

/// The event of a change of the replicas.
fn announce_scale(
    context: &AutoscalerContext,
    key: &ObjectKey,
    object: &PoolAutoscaler,
    pool: &str,
    from: u32,
    to: u32,
    reason: &str,
) {
    let note = format!("the replicas of pool {pool} changed from {from} to {to}: {reason}");
    tracing::info!(autoscaler = %key, note, "scaling");
    let subject = autoscaler_subject(key, object);
    publish_plain_event(&context.leader.events, &subject, "Scaled", false, note);
}

/// Publishes the status, at most once in [`STATUS_INTERVAL`], and says when the next pass is due.
async fn end_pass(
    context: &AutoscalerContext,
    key: &ObjectKey,
    object: &PoolAutoscaler,
    report: &AutoscalerReport,
    next: Option<Duration>,
) -> Requeue {
    let uptime = context.leader.env.uptime();
    let next = next.unwrap_or(context.resync).min(context.resync);
    let wait = context.status_wait(key, uptime, STATUS_INTERVAL);
    if !wait.is_zero() {
        return Requeue::After(next.min(wait));
    }
    match write_autoscaler_status(context, key, object, report).await {
        StatusWrite::Unchanged => Requeue::After(next),
        StatusWrite::Written => {
            context.note_status_attempt(key, uptime);
            Requeue::After(next)
        }
        StatusWrite::Failed => {
            context.note_status_attempt(key, uptime);
            Requeue::After(next.min(STATUS_INTERVAL))
        }
    }
}

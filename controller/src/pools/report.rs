//! The report step of a pass: status and events. It runs after a failure, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_engine::condition::{ConditionReason, ConditionType, StatusCondition};
use vmpool_engine::standby::StandbyCounts;
use vmpool_engine::status::{DetachedDiskReport, StartProblem, StatusSummary};
use vmpool_engine::{ComputedStatus, Pool};
use vmpool_kit::object::{collection_path, object_version};
use vmpool_kit::write::WriteError;
use vmpool_platforms::{Platform, StatusFields, Wording};

use crate::metrics::WriteKind;
use crate::pools::announced_problems::AnnouncedProblems;
use crate::pools::apply::AppliedPlan;
use crate::pools::context::{LastStatus, PoolContext, PoolMemory};
use crate::pools::events::{EventReason, PoolEvent, publish_pool_events, publish_transitions};
use crate::pools::kstatus_conditions::has_kstatus_conditions;
use crate::pools::pool_entry::{CachedPool, PoolEntry};
use crate::pools::status_conflict;

/// Publishes the events, and publishes `status` if it differs from the published one. Returns the time until
/// a retry, if the status could not be written now.
pub(crate) async fn report_pass<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    mut status: ComputedStatus,
    applied: AppliedPlan,
    state: &mut PoolMemory,
) -> Option<Duration> {
    let policy = context.settings.kubevirt_conditions;
    let with_kstatus = has_kstatus_conditions(policy, pool);
    if !with_kstatus {
        status.conditions.retain(|condition| !condition.is_kstatus());
    }
    publish_pool_events::<P::Wording>(&context.leader.events, &pool.subject(), applied.events);
    let published = &pool.facts.published;
    // One definition serves all pools of a platform.
    let fields = if context.status_is_pruned.load(Ordering::Relaxed) {
        StatusFields::OfPlatform
    } else {
        StatusFields::All
    };
    let body = P::status(&pool.object, &status, fields);
    let wanted = P::published(&pool.object, &body);
    if wanted.shows_the_same(published) {
        return None;
    }
    // A CRD that prunes fields does not store the complete status. The comparison therefore uses the status
    // as the API server stored it.
    if state
        .last_status
        .as_ref()
        .is_some_and(|last| last.wrote.shows_the_same(&status) && last.became.shows_the_same(published))
    {
        return None;
    }
    let uptime = context.leader.env.uptime();
    let usual = context.settings.status_interval;
    let interval =
        if state.status_conflict.is_active() { status_conflict::INTERVAL.max(usual) } else { usual };
    let too_soon = state
        .status_attempt
        .and_then(|last| interval.checked_sub(uptime.saturating_sub(last)))
        .filter(|left| !left.is_zero());
    if too_soon.is_some() {
        return too_soon;
    }
    state.status_attempt = Some(uptime);
    match patch_pool_status(context, pool, body).await {
        Ok(entry) => {
            if is_pruned(entry.facts.published.summary.as_ref(), wanted.summary.as_ref()) {
                context.status_is_pruned.store(true, Ordering::Relaxed);
            }
            let transitions =
                P::Wording::condition_events(&published.conditions, &entry.facts.published.conditions);
            publish_transitions::<P::Wording>(&context.leader.events, &pool.subject(), transitions);
            // Only this response shows whose definition it is, if another controller wrote the last status.
            let lacks_conditions = !with_kstatus && has_kstatus_conditions(policy, &entry);
            let last = LastStatus {
                wrote: status,
                version: object_version(&*entry.object),
                became: entry.facts.spec.published,
            };
            state.status_conflict.wrote(&last.became, last.version);
            state.last_status = Some(last);
            lacks_conditions.then_some(context.settings.status_interval)
        }
        Err(error) if error.is_gone() => None,
        Err(error) => {
            if matches!(error, WriteError::Unconfirmed(_)) {
                state.status_conflict.lost_response(uptime);
            }
            tracing::warn!(%error, "the status was not written");
            Some(context.settings.status_interval)
        }
    }
}

/// Whether the API server stores no fields of vmpool. A definition of an earlier version of vmpool drops only
/// the copies, the next number, the standby machines and the count of outdated images: the other fields are
/// still written.
fn is_pruned(stored: Option<&StatusSummary>, wanted: Option<&StatusSummary>) -> bool {
    let of_first_version = |summary: Option<&StatusSummary>| {
        Some(StatusSummary {
            used_copies: Arc::default(),
            next_number: None,
            standby: StandbyCounts::default(),
            image_outdated: 0,
            ..summary?.clone()
        })
    };
    of_first_version(stored) != of_first_version(wanted)
}

async fn patch_pool_status<P: Platform>(
    context: &PoolContext<P>,
    pool: &PoolEntry<P>,
    status: Value,
) -> Result<CachedPool<P>, WriteError> {
    // A merge patch could change a new pool of the same name, because the status endpoint ignores the
    // metadata of the patch. A JSON patch with a test of the UID cannot.
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": pool.facts.id.uid.as_str() },
        { "op": "add", "path": "/status", "value": status },
    ]);
    let operations = serde_json::from_value(operations).map_err(|error| WriteError::Invalid(error.into()))?;
    let path = collection_path::<P::Pool>(&pool.facts.namespace);
    let patch = Patch::<()>::Json(operations);
    let (writer, name) = (&context.leader.writer, &pool.facts.id.name);
    writer.patch(WriteKind::PatchStatus, path, name, Some("status"), patch).await.map(CachedPool::read)
}

/// The events about disks that users detached. Each disk is reported once, also if the leader changes.
pub(crate) fn detached_disk_events(
    pool: &Pool,
    found: Vec<DetachedDiskReport>,
    announced: &mut AnnouncedProblems,
) -> Vec<PoolEvent> {
    let key = |detached: &DetachedDiskReport| (detached.machine.uid.clone(), detached.disk.clone());
    let new = announced.detached.announce(found, key).into_iter();
    let events = new.map(|detached| {
        let name = detached.machine.name.to_string();
        PoolEvent { reason: EventReason::DiskDetachedByHand, name, note: detached.advice() }
    });
    events.filter(|event| !is_published(pool, |condition| condition.message.contains(&event.note))).collect()
}

/// The event about a machine that does not become ready by itself. Each message is reported once, also if the
/// leader changes.
pub(crate) fn problem_event(
    pool: &Pool,
    found: Option<StartProblem>,
    announced: &mut AnnouncedProblems,
) -> Option<PoolEvent> {
    let is_new = announced.unstarted.announce_one(found.as_ref().map(|found| found.message.clone()));
    let StartProblem { machine, message, .. } = found.filter(|_| is_new)?;
    if is_published(pool, |condition| condition.message.contains(&message)) {
        return None;
    }
    Some(PoolEvent { reason: EventReason::MachineNotStarted, name: machine.to_string(), note: message })
}

/// The event about a template that cannot be used. Each message is reported once, also if the leader changes.
pub(crate) fn unresolved_event(pool: &Pool, announced: &mut AnnouncedProblems) -> Option<PoolEvent> {
    let found = pool.unresolved.as_ref();
    let is_new = announced.unresolved.announce_one(found.map(|found| found.message.clone()));
    let unresolved = found.filter(|_| is_new)?;
    if is_published(pool, |condition| {
        condition.is(ConditionType::TemplateResolved) && condition.message == unresolved.message
    }) {
        return None;
    }
    let reason = EventReason::TemplateUnresolved(unresolved.reason);
    Some(PoolEvent { reason, name: pool.id.name.to_string(), note: unresolved.message.clone() })
}

/// The event about invalid settings. Each message is reported once, also if the leader changes.
pub(crate) fn invalid_settings_event(
    pool: &Pool,
    status: &ComputedStatus,
    announced: &mut AnnouncedProblems,
) -> Option<PoolEvent> {
    let invalid = status.conditions.iter().find(|condition| condition.is(ConditionType::InvalidSettings));
    let note = invalid.map(|condition| condition.message.clone());
    let is_new = announced.invalid.announce_one(note.clone());
    let note = note.filter(|_| is_new)?;
    if is_published(pool, |condition| {
        condition.is(ConditionType::InvalidSettings) && condition.message == note
    }) {
        return None;
    }
    Some(PoolEvent { reason: EventReason::InvalidSettings, name: pool.id.name.to_string(), note })
}

/// The event about healing that replaces no further machine. It is reported once until healing goes on, also
/// if the leader changes.
pub(crate) fn blocked_healing_event(
    pool: &Pool,
    message: Option<String>,
    announced: &mut AnnouncedProblems,
) -> Option<PoolEvent> {
    let is_new = announced.blocked_healing.announce_one(message.as_ref().map(|_| ()));
    let note = message.filter(|_| is_new)?;
    if is_published(pool, |condition| {
        condition.is(ConditionType::HealingBlocked) && condition.status == "True"
    }) {
        return None;
    }
    Some(PoolEvent { reason: EventReason::HealingBlocked, name: pool.id.name.to_string(), note })
}

/// The event about a pool that has made no progress until its deadline, with the causes at that time. It is
/// reported again only after the pool has made progress.
pub(crate) fn overdue_event(
    pool: &Pool,
    status: &ComputedStatus,
    announced: &mut AnnouncedProblems,
) -> Option<PoolEvent> {
    let is_overdue = |condition: &&StatusCondition| {
        condition.is(ConditionType::Stalled)
            && condition.reason == ConditionReason::ProgressDeadlineExceeded.as_str()
    };
    let found = status.conditions.iter().find(is_overdue);
    let is_new = announced.overdue.announce_one(found.map(|_| ()));
    let stalled = found.filter(|_| is_new)?;
    let name = pool.id.name.to_string();
    Some(PoolEvent { reason: EventReason::ProgressDeadlineExceeded, name, note: stalled.message.clone() })
}

/// Whether the published status has such a condition, so that a former leader has said the same.
fn is_published(pool: &Pool, says_the_same: impl Fn(&StatusCondition) -> bool) -> bool {
    pool.published.conditions.iter().any(says_the_same)
}

//! One pass of an image: observe, plan, apply, report.

use std::time::Duration;

use jiff::Timestamp;
use vmpool_api::diskimage::values::ImagePhase;
use vmpool_diskimage::failure::{DiskImageReason, without_queries};
use vmpool_diskimage::model::{DiskImage, DiskImageStatus, ObjectKey};
use vmpool_diskimage::plan::{self, ImageAction, ImagePassInput, ImagePlan, PlannedEvent, QueueDecision};
use vmpool_diskimage::status;
use vmpool_kit::queue::Requeue;
use vmpool_kit::write::WriteError;
use vmpool_runtime::telemetry::with_causes;

use super::apply::{ImageActionOutcome, apply_image_action};
use super::context::{ImageContext, ImageFacts};
use super::permission;
use super::writes::{error_text, to_json_value};
use crate::merge_patch::merge_patch_between;
use crate::metrics::{HealReason, HealResult, SourceLabel};
use crate::plain_events::publish_plain_event;

/// The wait after a request without an answer, and after a conflict that no event resolves.
const AGAIN: Duration = Duration::from_secs(2);
/// The wait after a refused write that is not part of an import.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// Runs a pass.
pub(super) async fn reconcile_image(context: &ImageContext, key: &ObjectKey) -> Requeue {
    let before = context.imports.lock().transferring();
    let again = run_image_pass(context, key).await;
    // A place in the queue became free: the images that waited for it get a pass.
    if context.imports.lock().transferring() < before {
        wake_next_imports(context);
    }
    again
}

/// The images that may start now get a pass.
fn wake_next_imports(context: &ImageContext) {
    let next = context.imports.lock().next(context.settings.limits.import_concurrency());
    for image in next {
        context.queues.images.wake(&image);
    }
}

/// The image did not start. Its turn goes to the next one.
fn return_import_slot(context: &ImageContext, image: &DiskImage) {
    context.imports.lock().revoke_admission(image);
    wake_next_imports(context);
}

async fn run_image_pass(context: &ImageContext, key: &ObjectKey) -> Requeue {
    let Some(mut facts) = context.facts(key) else {
        context.imports.lock().remove(key);
        return Requeue::Never;
    };
    restore_released_state(context, &mut facts);
    let turn = import_start_decision(context, &facts.image);
    let mut plan = plan_of(context, &facts, turn, false);
    let mut is_live = false;
    // A plan can need the references, and then the objects.
    for _ in 0..2 {
        if !plan.reads.references && !plan.reads.backing {
            break;
        }
        if plan.reads.references {
            match context.read_references(&facts.image).await {
                Ok(counted) => {
                    facts.counted = counted;
                    record_released_image(context, &facts);
                }
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(image = %key, error, "references cannot be counted, so nothing is removed");
                    break;
                }
            }
        }
        if plan.reads.backing {
            match context.read_backing(&facts.image, &facts.backing).await {
                Ok(backing) => (facts.backing, is_live) = (backing, true),
                Err(error) => {
                    let error = with_causes(&error);
                    tracing::warn!(image = %key, error, "the objects of the image cannot be read");
                    break;
                }
            }
        }
        plan = plan_of(context, &facts, turn, is_live);
    }
    carry_out_image_plan(context, &facts, plan, is_live, turn).await
}

/// One list decides about a deletion. While the objects of the image disappear, its passes do not list again,
/// unless the caches show a reference.
fn restore_released_state(context: &ImageContext, facts: &mut ImageFacts) {
    let mut released = context.released.lock();
    let uid = &facts.image.uid;
    if !facts.image.deleting || !facts.counted.references.counts.is_zero() {
        released.remove(uid);
    } else if released.contains(uid) {
        facts.counted.references.live = true;
    }
}

fn record_released_image(context: &ImageContext, facts: &ImageFacts) {
    if facts.image.deleting && facts.counted.references.counts.is_zero() {
        context.released.lock().insert(facts.image.uid.clone());
    }
}

/// Whether the queue lets the image start its import.
fn import_start_decision(context: &ImageContext, image: &DiskImage) -> QueueDecision {
    let mut imports = context.imports.lock();
    imports.observe(image);
    let is_queued = image.status.phase == Some(ImagePhase::Queued) && !image.deleting;
    if is_queued
        && (!image.needs_queue_place()
            || imports.admit_import(&image.key, context.settings.limits.import_concurrency()))
    {
        QueueDecision::MayStart
    } else if is_queued && imports.is_waiting(&image.key) {
        QueueDecision::MustWait
    } else {
        // An image that cannot start does not wait for others.
        QueueDecision::NotAsked
    }
}

fn plan_of(context: &ImageContext, facts: &ImageFacts, turn: QueueDecision, is_live: bool) -> ImagePlan {
    plan::plan_image(&image_plan_input(context, facts, turn, is_live))
}

fn image_plan_input<'a>(
    context: &'a ImageContext,
    facts: &'a ImageFacts,
    turn: QueueDecision,
    is_live: bool,
) -> ImagePassInput<'a> {
    ImagePassInput {
        now: context.now(),
        settings: &context.settings.limits,
        image: &facts.image,
        backing: &facts.backing,
        backing_is_live: is_live,
        references: &facts.counted.references,
        queue_decision: turn,
        corrections: &facts.corrections,
        uptime: facts.uptime,
    }
}

async fn carry_out_image_plan(
    context: &ImageContext,
    facts: &ImageFacts,
    mut plan: ImagePlan,
    is_live: bool,
    turn: QueueDecision,
) -> Requeue {
    let image = &facts.image;
    if turn == QueueDecision::MayStart && !plan.status.transfers() {
        return_import_slot(context, image);
    }
    let mut refused = None;
    for action in std::mem::take(&mut plan.actions) {
        match apply_image_action(context, facts, &action).await {
            ImageActionOutcome::Done => {}
            ImageActionOutcome::Gone => {
                if matches!(action, ImageAction::Expire { .. }) {
                    context.metrics.images.expired(&image.key.namespace);
                }
                publish_image_events(context, facts, plan.events);
                context.imports.lock().remove(&image.key);
                context.released.lock().remove(&image.uid);
                return Requeue::After(context.settings.resync);
            }
            ImageActionOutcome::Outdated => return Requeue::After(AGAIN),
            ImageActionOutcome::Unknown(error) => {
                let message = error_text(&error);
                tracing::warn!(image = %image.key, message, "a write is not confirmed");
                return Requeue::After(error.retry_after().unwrap_or(AGAIN));
            }
            ImageActionOutcome::Failed(error) if plan::is_optional(&plan, &action) => {
                let message = error_text(&error);
                tracing::warn!(image = %image.key, ?action, message, "a write was refused");
                match action {
                    // A quota can refuse snapshots for long. The plan looks again.
                    ImageAction::CreateSnapshot => plan::with_refused_snapshot(&mut plan, &message),
                    _ => plan.again = Some(plan.again.unwrap_or(AFTER_REFUSAL).min(AFTER_REFUSAL)),
                }
            }
            ImageActionOutcome::Failed(error) => {
                refused = Some((action, error));
                break;
            }
        }
    }
    let mut again = plan.again;
    if let Some((action, error)) = refused {
        again = Some(again.unwrap_or(AFTER_REFUSAL).min(AFTER_REFUSAL));
        let failed = plan_after_refusal(context, facts, is_live, &action, &error);
        return_import_slot(context, image);
        // Other writes are repeated later, and the status of the plan does not describe the objects.
        if failed.status == image.status {
            return Requeue::After(AFTER_REFUSAL);
        }
        plan = failed;
    }
    match permission::apply_clone_permission(context, facts).await {
        Ok(conflict) => {
            plan::with_clone_conflict(&mut plan, image, conflict);
            again = again.into_iter().chain(plan.again).min();
        }
        Err(error) => {
            let message = error_text(&error);
            tracing::warn!(image = %image.key, message, "the permission to clone the image cannot be written");
            again = Some(again.unwrap_or(AFTER_REFUSAL).min(AFTER_REFUSAL));
        }
    }
    match report_image_status(context, facts, &plan).await {
        Ok(()) => {
            count_status_changes(context, facts, &plan);
            publish_image_events(context, facts, plan.events);
        }
        Err(error) if error.is_gone() => {}
        Err(error) => {
            let message = error_text(&error);
            // A conflict is common, and the next pass repeats the write with what it reads.
            let is_refused = matches!(ImageActionOutcome::from(error), ImageActionOutcome::Failed(_));
            if is_refused {
                tracing::warn!(image = %image.key, message, "the status was refused");
            }
            again = Some(if is_refused { AFTER_REFUSAL } else { AGAIN });
        }
    }
    let resync = context.settings.resync;
    Requeue::After(again.or(plan.again).unwrap_or(resync).min(resync))
}

/// The plan after the API server refused a write.
fn plan_after_refusal(
    context: &ImageContext,
    facts: &ImageFacts,
    is_live: bool,
    action: &ImageAction,
    error: &WriteError,
) -> ImagePlan {
    let message = error_text(error);
    tracing::warn!(image = %facts.image.key, ?action, message, "a write was refused");
    plan::plan_after_failed_write(
        &image_plan_input(context, facts, QueueDecision::NotAsked, is_live),
        action,
        &message,
    )
}

/// Writes the status if it differs from the stored one.
async fn report_image_status(
    context: &ImageContext,
    facts: &ImageFacts,
    plan: &ImagePlan,
) -> Result<(), WriteError> {
    // An action may have written the image since.
    let key = &facts.image.key;
    let stored = context.store.lock().images.get(key).cloned();
    let Some(stored) = stored.filter(|stored| stored.metadata.uid == facts.object.metadata.uid) else {
        return Ok(());
    };
    let references = &facts.counted.references.list;
    let now = context.now();
    let old = stored.status.as_ref();
    let rendered =
        status::render_image_status(&facts.image, old, &plan.status, &facts.backing, references, now);
    if old == Some(&rendered) {
        return Ok(());
    }
    let patch = merge_patch_between(&old.map(to_json_value).unwrap_or_default(), &to_json_value(&rendered));
    context.patch_image(&stored, serde_json::json!({ "status": patch }), Some("status")).await
}

/// Counts what ended or began with this status.
fn count_status_changes(context: &ImageContext, facts: &ImageFacts, plan: &ImagePlan) {
    let metrics = &context.metrics.images;
    for (namespace, count) in &facts.counted.denied {
        metrics.denied(&facts.image.key.namespace, namespace, *count);
    }
    let (before, after) = (&facts.image.status, &plan.status);
    let source = SourceLabel::of(&facts.object.spec.source_type);
    let now = context.now();
    let since = |moment: Option<Timestamp>| {
        let passed = moment.and_then(|moment| now.duration_since(moment).try_into().ok());
        passed.unwrap_or_default()
    };
    if after.transfers() && !before.transfers() {
        metrics.attempt_began(since(earliest_attempt_start(context, before)));
    }
    if after.failures > before.failures {
        metrics.attempt_ended(source, after.reason, since(before.sync_started_at));
    } else if after.is_ready() && before.ready_at.is_none() {
        metrics.attempt_ended(source, None, since(before.sync_started_at));
    }
    // A new snapshot can be refused at once.
    let of_snapshot = [DiskImageReason::SnapshotLost, DiskImageReason::ResourceCreationFailed];
    let heal = |reason: Option<DiskImageReason>| {
        let is_snapshot = reason.is_some_and(|reason| of_snapshot.contains(&reason));
        if is_snapshot { HealReason::Snapshot } else { HealReason::Data }
    };
    if after.heal_count > before.heal_count {
        metrics.heal(heal(after.reason), HealResult::Began);
    }
    if after.reason == Some(DiskImageReason::HealLimitExceeded) && before.reason != after.reason {
        let has_claim = facts.backing.usable_claim().is_some();
        metrics.heal(if has_claim { HealReason::Snapshot } else { HealReason::Data }, HealResult::Refused);
    }
    if plan.events.iter().any(|event| event.reason == "Healed") {
        metrics.heal(heal(before.reason), HealResult::Healed);
    }
}

/// When the next attempt could begin, if it does not have to wait for other images.
fn earliest_attempt_start(context: &ImageContext, status: &DiskImageStatus) -> Option<Timestamp> {
    let backoff = context.settings.limits.backoff(status.failures);
    let after_failure = status.last_failure.and_then(|failed| failed.checked_add(backoff).ok());
    status.queued_at.max(after_failure)
}

fn publish_image_events(context: &ImageContext, facts: &ImageFacts, events: Vec<PlannedEvent>) {
    let subject = facts.subject();
    for PlannedEvent { warning, reason, message } in events {
        publish_plain_event(&context.leader.events, &subject, reason, warning, without_queries(&message));
    }
}

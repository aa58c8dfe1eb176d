//! One pass of a wrapper: observe, plan, apply, report.

use std::time::Duration;

use serde_json::json;
use vmpool_api::diskimage::VirtualMachine;
use vmpool_api::diskimage::values::WrapperPhase;
use vmpool_decision::Needs;
use vmpool_diskimage::failure::without_queries;
use vmpool_diskimage::model::ObjectKey;
use vmpool_diskimage::plan::PlannedEvent;
use vmpool_diskimage::wrapper::{self, WrapperAction, WrapperPlan, WrapperRead, status};
use vmpool_kit::object::collection_path;
use vmpool_kit::queue::Requeue;
use vmpool_kit::write::WriteError;
use vmpool_runtime::telemetry::with_causes;

use super::apply::ImageActionOutcome;
use super::context::ImageContext;
use super::table::ObjectOrigin;
use super::wrapper_apply::apply_wrapper_action;
use super::wrapper_facts::WrapperFacts;
use super::writes::{error_text, to_json_value};
use crate::merge_patch::merge_patch_between;
use crate::metrics::WriteKind;
use crate::plain_events::publish_plain_event;

/// The wait after a request without an answer, and after a conflict that no event resolves.
const AGAIN: Duration = Duration::from_secs(2);
/// The wait after a refused write.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);

/// Runs a pass.
pub(super) async fn reconcile_wrapper(context: &ImageContext, key: &ObjectKey) -> Requeue {
    let Some(mut facts) = context.wrapper_facts(key) else { return Requeue::Never };
    let plan = loop {
        let Needs(needs) = match context.wrapper_plan(&facts) {
            Ok(plan) => break plan,
            Err(needs) => needs,
        };
        for read in needs {
            if let Err(error) = context.read_wrapper_fact(&mut facts, read).await {
                let (error, consequence) = (with_causes(&error), unread_consequence(read));
                tracing::warn!(wrapper = %key, error, "{consequence}");
                return Requeue::After(AGAIN);
            }
        }
    };
    let again = carry_out_wrapper_plan(context, &facts, plan).await;
    Requeue::After(again.unwrap_or(context.settings.resync).min(context.settings.resync))
}

/// What does not happen if a read fails.
fn unread_consequence(read: WrapperRead) -> &'static str {
    match read {
        WrapperRead::Image => "the image cannot be read, so the wrapper is not bound",
        WrapperRead::DiskName => "the name of the disk cannot be checked, so no machine is created",
    }
}

async fn carry_out_wrapper_plan(
    context: &ImageContext,
    facts: &WrapperFacts,
    mut plan: WrapperPlan,
) -> Option<Duration> {
    let before = &facts.wrapper.status;
    let kicks = plan.actions.iter().any(|action| matches!(action, WrapperAction::Kick { .. }));
    let binds = (&plan.status.mark, plan.status.bound) != (&before.mark, before.bound);
    // A mark protects the image only if it is stored, and a kick must count even if its response is lost.
    if (kicks || binds)
        && let Err(again) = report_wrapper_status(context, facts, &plan).await
    {
        return again;
    }
    let mut again = plan.again;
    for action in std::mem::take(&mut plan.actions) {
        match apply_wrapper_action(context, facts, &action).await {
            ImageActionOutcome::Done => announce_wrapper_action(context, facts, &action),
            ImageActionOutcome::Gone => {}
            ImageActionOutcome::Outdated => {
                again = Some(AGAIN);
                break;
            }
            ImageActionOutcome::Unknown(error) => {
                let message = error_text(&error);
                tracing::warn!(wrapper = %facts.wrapper.key, message, "a write is not confirmed");
                return Some(error.retry_after().unwrap_or(AGAIN));
            }
            ImageActionOutcome::Failed(error) => {
                let message = error_text(&error);
                tracing::warn!(wrapper = %facts.wrapper.key, ?action, message, "a write was refused");
                wrapper::report_failed_write(&mut plan, &action, before, &message);
                again = Some(again.unwrap_or(AFTER_REFUSAL).min(AFTER_REFUSAL));
                break;
            }
        }
    }
    if plan.status.image.is_some_and(wrapper::WrapperImageReason::is_denied) {
        context.metrics.images.denied(&facts.wrapper.image.namespace, &facts.wrapper.key.namespace, 1);
    }
    match report_wrapper_status(context, facts, &plan).await {
        Ok(()) => again,
        Err(sooner) => sooner.or(again),
    }
}

/// Writes the status if it differs from the stored one. `Err` says when to look again.
async fn report_wrapper_status(
    context: &ImageContext,
    facts: &WrapperFacts,
    plan: &WrapperPlan,
) -> Result<(), Option<Duration>> {
    let key = &facts.wrapper.key;
    // This pass may have written the status already.
    let stored = {
        let store = context.store.lock();
        store.wrapped.as_ref().and_then(|wrapped| wrapped.wrappers.get(key).cloned())
    };
    let Some(stored) = stored.filter(|stored| stored.metadata.uid == facts.object.metadata.uid) else {
        return Err(None);
    };
    let rendered = status::render_wrapper_status(&stored, &plan.status, context.now());
    let old = stored.status.as_ref();
    if old == Some(&rendered) || facts.wrapper.deleting {
        return Ok(());
    }
    let events = status::wrapper_events(old, &rendered);
    let patch = merge_patch_between(&old.map(to_json_value).unwrap_or_default(), &to_json_value(&rendered));
    match write_status(context, &stored, patch).await {
        Ok(()) => {
            observe_provisioning_time(context, facts, plan);
            for PlannedEvent { warning, reason, message } in events {
                if reason == status::DISK_RECREATED {
                    context.metrics.wrappers.disk_recreated(&key.namespace);
                }
                publish_plain_event(
                    &context.leader.events,
                    &facts.subject(),
                    reason,
                    warning,
                    without_queries(&message),
                );
            }
            Ok(())
        }
        Err(error) if error.is_gone() => Err(None),
        Err(error) => {
            let message = error_text(&error);
            // A conflict is common, and the next pass repeats the write with what it reads.
            let is_refused = matches!(ImageActionOutcome::from(error), ImageActionOutcome::Failed(_));
            if is_refused {
                tracing::warn!(wrapper = %key, message, "the status was refused");
            }
            Err(Some(if is_refused { AFTER_REFUSAL } else { AGAIN }))
        }
    }
}

/// Writes the status at the version that was read: the mark of another leader must not be lost.
async fn write_status(
    context: &ImageContext,
    stored: &VirtualMachine,
    status: serde_json::Value,
) -> Result<(), WriteError> {
    let metadata = &stored.metadata;
    let patch = json!({
        "metadata": { "uid": metadata.uid, "resourceVersion": metadata.resource_version },
        "status": status,
    });
    let path = collection_path::<VirtualMachine>(metadata.namespace.as_deref().unwrap_or_default());
    let name = metadata.name.as_deref().unwrap_or_default();
    let patch = kube::api::Patch::Merge(patch);
    let stored: VirtualMachine =
        context.leader.writer.patch(WriteKind::PatchWrapperStatus, path, name, Some("status"), patch).await?;
    context.update(|store, _| store.set_wrapper(stored, ObjectOrigin::Written));
    Ok(())
}

/// The event and the counter of an action that was carried out.
fn announce_wrapper_action(context: &ImageContext, facts: &WrapperFacts, action: &WrapperAction) {
    let key = &facts.wrapper.key;
    let (reason, warning, note) = match action {
        WrapperAction::CreateImage => {
            let image = &facts.wrapper.image;
            (
                "ImageCreated",
                false,
                format!("the image {image} did not exist, and was created from the template"),
            )
        }
        WrapperAction::CreateMachine => {
            ("VirtualMachineCreated", false, format!("the machine {key} was created"))
        }
        WrapperAction::UpdateMachine { .. } => return,
        WrapperAction::Kick { .. } => {
            context.metrics.wrappers.kicked(&key.namespace);
            let note = "the image is ready, but the clone of the disk did not begin: the controller deleted the DataVolume, \
                        and KubeVirt creates it again";
            ("Kicked", true, note.to_owned())
        }
    };
    publish_plain_event(&context.leader.events, &facts.subject(), reason, warning, note);
}

/// Measures how long a wrapper took until it was ready for the first time.
fn observe_provisioning_time(context: &ImageContext, facts: &WrapperFacts, plan: &WrapperPlan) {
    let ready = Some(WrapperPhase::Ready);
    let metrics = &context.metrics.wrappers;
    if plan.status.phase != ready || facts.wrapper.status.phase == ready {
        return;
    }
    let created = |metadata: &kube::api::ObjectMeta| metadata.creation_timestamp.as_ref().map(|time| time.0);
    let Some(began) = created(&facts.object.metadata) else { return };
    let took = Duration::try_from(context.now().duration_since(began)).unwrap_or_default();
    let image = context.store.lock().images.get(&facts.wrapper.image).cloned();
    let existed = image.and_then(|image| created(&image.metadata)).is_some_and(|image| image < began);
    metrics.provisioned(existed, took);
}

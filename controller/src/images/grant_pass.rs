//! One pass of a grant: its finalizer.
//!
//! Kubernetes deletes the grants of a namespace together with its images. While an image of the namespace
//! exists, the finalizer keeps the grants, so that the references that they permit still count.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Patch;
use serde_json::json;
use vmpool_api::diskimage::VmDiskImageGrant;
use vmpool_api::diskimage::finalizers::GRANT_PROTECTION;
use vmpool_diskimage::grants::{GrantAction, GrantContext, plan_grant};
use vmpool_diskimage::model::ObjectKey;
use vmpool_diskimage::read;
use vmpool_kit::object::collection_path;
use vmpool_kit::queue::Requeue;
use vmpool_runtime::telemetry::with_causes;

use super::context::ImageContext;
use super::live::ImageReadError;
use super::table::ObjectOrigin;
use super::writes::error_text;
use crate::metrics::WriteKind;

/// The wait after a request without an answer, and after a conflict that no event resolves.
const AGAIN: Duration = Duration::from_secs(2);
/// The wait after a refused write.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// How often a grant looks for images whose end no event announced.
const RECHECK: Duration = Duration::from_mins(1);

/// Runs a pass.
pub(super) async fn reconcile_grant(context: &ImageContext, key: &ObjectKey) -> Requeue {
    let Some(object) = context.store.lock().grant(key) else { return Requeue::Never };
    let grant = read::read_grant(&object);
    let surroundings = match read_grant_surroundings(context, &object).await {
        Ok(surroundings) => surroundings,
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(grant = %key, error, "the namespace of the grant cannot be read, so its finalizer stays");
            return Requeue::After(AGAIN);
        }
    };
    match plan_grant(&grant, surroundings) {
        GrantAction::None => Requeue::Never,
        GrantAction::Hold => Requeue::After(RECHECK),
        step @ (GrantAction::Protect | GrantAction::Release) => {
            write_grant_finalizer(context, &object, step == GrantAction::Protect).await
        }
    }
}

/// What decides about the end of a grant. It is read from the API server, because a cache may be behind, and
/// a grant that is gone permits no reference.
async fn read_grant_surroundings(
    context: &ImageContext,
    object: &VmDiskImageGrant,
) -> Result<GrantContext, ImageReadError> {
    let metadata = &object.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    // A controller of one namespace serves no references from others.
    let mut found =
        GrantContext { serves_others: context.leader.namespace.is_none(), ..GrantContext::default() };
    if metadata.deletion_timestamp.is_none() || !found.serves_others {
        return Ok(found);
    }
    found.terminating = context
        .get_namespace(namespace)
        .await?
        .and_then(|stored: Namespace| read::deletion_time(&stored.metadata));
    if found.terminating.is_some() {
        found.has_images = context.has_image(namespace, |_| true).await?;
    }
    Ok(found)
}

/// Adds or removes the finalizer, at the version that was read.
async fn write_grant_finalizer(context: &ImageContext, object: &VmDiskImageGrant, protects: bool) -> Requeue {
    let metadata = &object.metadata;
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != GRANT_PROTECTION);
    if protects {
        finalizers.push(GRANT_PROTECTION.to_owned());
    }
    let patch = json!({ "metadata": {
        "uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers,
    } });
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default());
    let path = collection_path::<VmDiskImageGrant>(namespace.unwrap_or_default());
    let written: Result<VmDiskImageGrant, _> =
        context.leader.writer.patch(WriteKind::PatchImageGrant, path, name, None, Patch::Merge(patch)).await;
    match written {
        // The watch shows the end of a released grant.
        Ok(stored) if protects => {
            context.update(|store, _| store.set_grant(stored, ObjectOrigin::Written));
            Requeue::Never
        }
        Ok(_) => Requeue::Never,
        Err(error) if error.is_gone() => Requeue::Never,
        Err(error) if error.is_conflict() => Requeue::After(AGAIN),
        Err(error) => {
            tracing::warn!(%name, error = error_text(&error), "the finalizer of the grant was not written");
            Requeue::After(error.retry_after().unwrap_or(AFTER_REFUSAL))
        }
    }
}

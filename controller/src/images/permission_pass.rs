//! One pass of a Role and a RoleBinding that permit to clone an image: they end with their image.
//!
//! They have no owner reference, so the garbage collector keeps them. The controller deletes them before it
//! removes the finalizer of the image. If a user removes the finalizer, the image is gone before that. The
//! permission is one for a name, so it would be one for the next object of this name.

use std::time::Duration;

use vmpool_diskimage::model::ObjectKey;
use vmpool_kit::queue::Requeue;
use vmpool_runtime::telemetry::with_causes;

use super::context::ImageContext;
use super::permission::withdraw_clone_permission;
use super::writes::error_text;

/// The wait after a failed request.
const AGAIN: Duration = Duration::from_secs(30);
/// How often a permission looks for an image that the watch does not show.
const RECHECK: Duration = Duration::from_mins(1);

/// Runs a pass.
pub(super) async fn reconcile_orphan_permission(context: &ImageContext, key: &ObjectKey) -> Requeue {
    let Some(image_uid) = context.store.lock().image_of_orphan(key) else { return Requeue::Never };
    // The watch of images may be behind that of permissions.
    match context.has_image(&key.namespace, |image| image.uid.as_ref() == Some(&image_uid)).await {
        Ok(true) => return Requeue::After(RECHECK),
        Ok(false) => {}
        Err(error) => {
            let error = with_causes(&error);
            tracing::warn!(permission = %key, error, "the image of a permission to clone cannot be looked for");
            return Requeue::After(AGAIN);
        }
    }
    tracing::warn!(permission = %key, image_uid, "the image of a permission to clone is gone, so the controller deletes it");
    match withdraw_clone_permission(context, &key.namespace, &image_uid).await {
        // The watch shows the end.
        Ok(()) => Requeue::Never,
        Err(error) => {
            let message = error_text(&error);
            tracing::warn!(permission = %key, message, "the permission to clone cannot be deleted");
            Requeue::After(error.retry_after().unwrap_or(AGAIN))
        }
    }
}

//! The status and the events of an autoscaler.

use std::time::Duration;

use kube::api::Patch;
use serde_json::{Value, json};
use vmpool_api::ObjectKey;
use vmpool_api::autoscaler::{API_VERSION, KIND, PoolAutoscaler};
use vmpool_autoscaler::status::{AutoscalerReport, render_status};
use vmpool_kit::events::EventSubject;
use vmpool_kit::object::{collection_path, object_id};

use super::context::AutoscalerContext;
use crate::merge_patch::merge_patch_between;
use crate::metrics::WriteKind;

/// The minimum time between two writes of the status of an autoscaler.
pub(super) const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// An autoscaler as the subject of events.
pub(super) fn autoscaler_subject(key: &ObjectKey, object: &PoolAutoscaler) -> EventSubject {
    EventSubject {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        namespace: key.namespace.as_str().into(),
        id: object_id(object),
    }
}

/// Writes the status if it differs from the stored one. A failed write is repeated by a later pass.
pub(super) async fn write_autoscaler_status(
    context: &AutoscalerContext,
    key: &ObjectKey,
    object: &PoolAutoscaler,
    report: &AutoscalerReport,
) -> StatusWrite {
    let rendered = render_status(object.status.as_ref(), report, context.leader.env.now());
    if object.status.as_ref() == Some(&rendered) {
        return StatusWrite::Unchanged;
    }
    let to_value = |status| serde_json::to_value(status).unwrap_or_default();
    let old: Value = object.status.as_ref().map(to_value).unwrap_or_default();
    let patch = json!({
        "metadata": { "uid": object.metadata.uid, "resourceVersion": object.metadata.resource_version },
        "status": merge_patch_between(&old, &to_value(&rendered)),
    });
    let path = collection_path::<PoolAutoscaler>(&key.namespace);
    let written = context.leader.writer.patch(
        WriteKind::PatchAutoscalerStatus,
        path,
        &key.name,
        Some("status"),
        Patch::Merge(patch),
    );
    match written.await {
        Ok(stored) => {
            context.store.wrote(key, stored);
            StatusWrite::Written
        }
        Err(error) => {
            if !error.is_conflict() && !error.is_gone() {
                tracing::warn!(autoscaler = %key, %error, "the status of an autoscaler was not written");
            }
            StatusWrite::Failed
        }
    }
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusWrite {
    /// It is stored already.
    Unchanged,
    /// It was written.
    Written,
    /// It was not written.
    Failed,
}

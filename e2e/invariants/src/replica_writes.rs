//! I7: in the controller, only autoscalers write `spec.replicas`: in their pools, through the scale, at the
//! version that they read.

use serde_json::Value;
use vmpool_test_cluster::control_plane::AuditEntry;

use super::{UserActions, Violation};
use crate::object::TestedKind;
use crate::recorder::RecordedHistory;

/// The controller's field manager, or a prefix of it.
const MANAGER: &str = "vmpool-controller";

/// Writes of the controller to `spec.replicas` that no autoscaler may request, in the audit log or in the
/// managed fields.
pub fn check_replica_writes(
    history: &RecordedHistory,
    actions: &UserActions,
    audit: &[AuditEntry],
    controller_user: &str,
) -> Vec<Violation> {
    let requests = audit
        .iter()
        .filter(|entry| entry.user == controller_user && entry.is_write())
        .filter(|entry| entry.resource == TestedKind::Pool.plural())
        .filter(|entry| asks_for_replicas(entry) && !is_write_of_autoscaler(entry, actions))
        .map(|entry| format!("the controller requested a write of spec.replicas: {entry} {}", entry.body));
    let recorded = history
        .changes()
        .iter()
        .filter(|change| {
            change.kind == TestedKind::Pool
                && !actions.autoscaled.contains(change.object.name())
                && owns_replicas(change.object.at("/metadata/managedFields"))
        })
        .map(|change| {
            format!(
                "the controller owns spec.replicas of {} since revision {}",
                change.object.name(),
                change.revision
            )
        })
        .take(1);
    requests.chain(recorded).map(|what| Violation { invariant: "I7", what }).collect()
}

/// Whether the request sets the replicas of an autoscaled pool through its scale, and requires the version
/// that the autoscaler read.
fn is_write_of_autoscaler(entry: &AuditEntry, actions: &UserActions) -> bool {
    let version = entry.body.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    actions.autoscaled.contains(&entry.name)
        && is_scale_write(entry)
        && version.is_some_and(|version| !version.is_empty())
}

/// Whether the request patches the scale of a pool.
pub(super) fn is_scale_write(entry: &AuditEntry) -> bool {
    entry.resource == TestedKind::Pool.plural() && entry.subresource == "scale" && entry.verb == "patch"
}

fn asks_for_replicas(entry: &AuditEntry) -> bool {
    match entry.subresource.as_str() {
        "scale" => true,
        // The API server ignores the spec in a write of the status.
        "" => match &entry.body {
            Value::Array(operations) => operations.iter().any(|operation| {
                let path = operation["path"].as_str().unwrap_or_default();
                operation["op"] != "test" && ["", "/spec", "/spec/replicas"].contains(&path)
            }),
            body => body.pointer("/spec/replicas").is_some(),
        },
        _ => false,
    }
}

fn owns_replicas(managed_fields: &Value) -> bool {
    managed_fields.as_array().into_iter().flatten().any(|entry| {
        entry["manager"].as_str().is_some_and(|manager| manager.starts_with(MANAGER))
            && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
    })
}

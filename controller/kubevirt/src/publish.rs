//! The status of the engine and the removal record as KubeVirt's pools store them.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations;
use vmpool_engine::ComputedStatus;
use vmpool_engine::condition::{ConditionType, StatusCondition};
use vmpool_engine::model::{PublishedStatus, StatusSummary, UsedCopy};
use vmpool_engine::scale_down::removal::{RemovalRecord, RemovedMachines};
use vmpool_engine::standby::StandbyCounts;
use vmpool_instancetype::model::{TypeFamily, TypeMatcher};
use vmpool_instancetype::pins::FAMILIES;
use vmpool_instancetype::status_ref::StatusRef;
use vmpool_platform::{StatusFields, activity};

use super::events::failed_step;
use super::objects::{KubeVirtPoolObject, KubeVirtPoolStatus};

/// The merge patch that writes the removal record.
pub(super) fn removal_record(record: &RemovalRecord) -> Value {
    let text = (!record.is_empty()).then(|| record.to_string());
    json!({ "metadata": { "annotations": { (annotations::SCALE_IN_TARGETS): text } } })
}

/// The merge patch that writes the removed machines.
pub(super) fn removed_machines(removed: &RemovedMachines) -> Value {
    let text = (!removed.is_empty()).then(|| removed.to_string());
    json!({ "metadata": { "annotations": { (annotations::REMOVED_MACHINES): text } } })
}

/// The status object. With the fields of the platform, it has those of KubeVirt.
///
/// Most counters with the value zero are written as well, so that
/// `kubectl wait --for=jsonpath='{.status.replicas}'=0` works.
pub(super) fn status_object(
    pool: &KubeVirtPoolObject,
    status: &ComputedStatus,
    fields: StatusFields,
) -> Value {
    let conditions =
        status.conditions.iter().map(|condition| published_condition(pool, condition)).collect::<Vec<_>>();
    let summary = &status.summary;
    let mut object = json!({
        "replicas": summary.replicas,
        "readyReplicas": summary.ready,
        "labelSelector": &*pool.selector,
        "conditions": conditions,
    });
    if fields == StatusFields::All {
        object["observedGeneration"] = summary.observed_generation.into();
        object["availableReplicas"] = summary.available.into();
        object["updatedReplicas"] = summary.updated.into();
        object["restartPendingReplicas"] = summary.restart_pending.into();
        if summary.draining > 0 {
            object["drainingReplicas"] = summary.draining.into();
        }
        if summary.image_outdated > 0 {
            object["imageOutdatedReplicas"] = summary.image_outdated.into();
        }
        object["healedReplicas"] = summary.healed.into();
        // A pool without standby machines has the status of earlier versions.
        if summary.standby.total > 0 {
            object["standbyReplicas"] = summary.standby.total.into();
            object["readyStandbyReplicas"] = summary.standby.ready.into();
        }
        object["currentRevision"] = summary.revision.as_str().into();
        for used in &*summary.used_copies {
            if let Some((family, reference)) = used_copy_reference(used) {
                object[family.status_field()] = reference.to_json();
            }
        }
        if !status.activity.is_empty() {
            object["activity"] = activity::write_activity_entries(&status.activity);
        }
    }
    object
}

/// The reference in the status of a pool, in the form that references in the status of a machine have.
fn used_copy_reference(used: &UsedCopy) -> Option<(TypeFamily, StatusRef)> {
    let UsedCopy { field, name, kind, copy, volume, volume_policy } = used;
    let family = FAMILIES.into_iter().find(|family| family.field() == *field)?;
    let matcher = TypeMatcher {
        name: name.to_string(),
        kind: kind.to_string(),
        infer_from_volume: volume.to_string(),
        infer_from_volume_failure_policy: volume_policy.to_string(),
        ..TypeMatcher::default()
    };
    Some((family, StatusRef { matcher, revision: copy.to_string() }))
}

/// A condition of another controller stays as it is, with fields that vmpool does not know.
fn published_condition(pool: &KubeVirtPoolObject, condition: &StatusCondition) -> Value {
    let others = || pool.status.conditions.iter().find(|other| other["type"] == *condition.kind);
    if !condition.is_of_engine() {
        return others().cloned().unwrap_or_default();
    }
    let reason = if condition.is(ConditionType::ReplicaFailure) {
        failed_step(&condition.reason)
    } else {
        &condition.reason
    };
    json!({
        "type": condition.kind,
        "status": condition.status,
        "reason": reason,
        "message": condition.message,
        // In whole seconds, as the API server stores times.
        "lastTransitionTime": condition.last_transition.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "lastProbeTime": null,
    })
}

/// Whether the API server stores the fields of vmpool. Its definition has a default for this one, which also
/// a new pool has. A status that another controller wrote does not show it.
pub(super) fn has_own_fields(pool: &KubeVirtPoolObject) -> bool {
    pool.status.observed_generation.is_some()
}

/// The JSON patch that removes the conditions in the meaning of kstatus from the status. It tests what it
/// removes, and leaves all other conditions as they are.
pub(super) fn remove_kstatus_conditions(pool: &KubeVirtPoolObject) -> Option<Value> {
    let is_removed = |kind: &str| ConditionType::KSTATUS.iter().any(|known| known.as_str() == kind);
    let conditions = pool.status.conditions.iter().enumerate();
    let found = conditions.filter_map(|(index, condition)| {
        let kind = condition["type"].as_str().filter(|kind| is_removed(kind))?;
        Some((index, kind))
    });
    // From the last one, so that the indexes of the others do not change.
    let mut operations: Vec<Value> = found.flat_map(|(index, kind)| remove_condition(index, kind)).collect();
    if operations.is_empty() {
        return None;
    }
    operations.reverse();
    operations.insert(0, json!({ "op": "test", "path": "/metadata/uid", "value": pool.metadata.uid }));
    Some(operations.into())
}

/// The operations that remove one condition, the last one first.
fn remove_condition(index: usize, kind: &str) -> [Value; 2] {
    let path = format!("/status/conditions/{index}");
    [
        json!({ "op": "remove", "path": path }),
        json!({ "op": "test", "path": format!("{path}/type"), "value": kind }),
    ]
}

/// What a status object shows.
pub(super) fn published_from_status(pool: &KubeVirtPoolObject, status: &Value) -> PublishedStatus {
    read_published_status(pool, &serde_json::from_value(status.clone()).unwrap_or_default())
}

/// What the stored pool shows.
pub(super) fn published_from_pool(pool: &KubeVirtPoolObject) -> PublishedStatus {
    read_published_status(pool, &pool.status)
}

/// KubeVirt omits counters that are zero. Without the current selector the status is not complete.
fn read_published_status(pool: &KubeVirtPoolObject, status: &KubeVirtPoolStatus) -> PublishedStatus {
    let is_complete = status.label_selector.as_ref().is_some_and(|text| **text == *pool.selector);
    // KubeVirt's own definition of pools has no other counters.
    let summary = is_complete.then(|| StatusSummary {
        observed_generation: status.observed_generation.unwrap_or_default(),
        replicas: status.replicas.unwrap_or_default(),
        ready: status.ready_replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        updated: status.updated_replicas.unwrap_or_default(),
        restart_pending: status.restart_pending_replicas.unwrap_or_default(),
        draining: status.draining_replicas.unwrap_or_default(),
        image_outdated: status.image_outdated_replicas.unwrap_or_default(),
        next_number: None,
        healed: status.healed_replicas.unwrap_or_default(),
        revision: status.current_revision.as_deref().unwrap_or_default().into(),
        used_copies: status.used_copies().collect(),
        standby: StandbyCounts {
            total: status.standby_replicas.unwrap_or_default(),
            ready: status.ready_standby_replicas.unwrap_or_default(),
        },
    });
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let conditions =
        status.conditions.iter().filter(|condition| condition["type"].is_string()).map(|condition| {
            let time = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
            StatusCondition {
                kind: text(condition, "type"),
                status: text(condition, "status"),
                reason: text(condition, "reason"),
                message: text(condition, "message"),
                last_transition: time.unwrap_or(Timestamp::UNIX_EPOCH),
                observed_generation: None,
            }
        });
    let activity = activity::read_activity_entries(&status.activity);
    PublishedStatus { conditions: conditions.collect(), summary, desired_revision: None, activity }
}

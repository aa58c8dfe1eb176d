//! The status of the engine and the removal record as KubeVirt's pools store them.

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_api::kubevirt::annotations;
use vmpool_engine::Status;
use vmpool_engine::condition::{Condition, OWN, REPLICA_FAILURE};
use vmpool_engine::model::{Published, Summary};
use vmpool_engine::removal::RemovalRecord;

use super::events::FailedStep;
use super::objects::{PoolObject, PoolStatus};

/// The merge patch that writes the removal record.
pub(super) fn removal_record(record: &RemovalRecord) -> Value {
    let text = (!record.is_empty()).then(|| record.to_string());
    json!({ "metadata": { "annotations": { (annotations::SCALE_IN_TARGETS): text } } })
}

/// The status object. It has the fields of KubeVirt only, because its own CRD removes all others, and a status that never
/// reads back would be written again.
///
/// Counters with the value zero are written as well, so that `kubectl wait --for=jsonpath='{.status.replicas}'=0`
/// works.
pub(super) fn status(pool: &PoolObject, status: &Status) -> Value {
    let conditions = status.conditions.iter().map(|condition| written(pool, condition)).collect::<Vec<_>>();
    json!({
        "replicas": status.summary.replicas,
        "readyReplicas": status.summary.ready,
        "labelSelector": &*pool.selector,
        "conditions": conditions,
    })
}

/// A condition of another controller stays as it is, with fields that vmpool does not know.
fn written(pool: &PoolObject, condition: &Condition) -> Value {
    let others = || pool.status.conditions.iter().find(|other| other["type"] == *condition.kind);
    if !OWN.contains(&condition.kind.as_str()) {
        return others().cloned().unwrap_or_default();
    }
    let reason =
        if condition.kind == REPLICA_FAILURE { reason(&condition.reason) } else { &condition.reason };
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

/// KubeVirt's word for the step that failed.
fn reason(failure: &str) -> &'static str {
    let step = match failure {
        "FailedCreate" => FailedStep::ScaleOut,
        "FailedDelete" => FailedStep::ScaleIn,
        _ => FailedStep::Update,
    };
    step.reason()
}

/// What a status object shows.
pub(super) fn published(pool: &PoolObject, status: &Value) -> Published {
    read(pool, &serde_json::from_value(status.clone()).unwrap_or_default())
}

/// What the stored pool shows.
pub(super) fn stored(pool: &PoolObject) -> Published {
    read(pool, &pool.status)
}

/// KubeVirt omits counters that are zero. Without the current selector the status is not complete.
fn read(pool: &PoolObject, status: &PoolStatus) -> Published {
    let is_complete = status.label_selector.as_ref().is_some_and(|text| **text == *pool.selector);
    let summary = is_complete.then(|| Summary {
        observed_generation: 0,
        replicas: status.replicas.unwrap_or_default(),
        ready: status.ready_replicas.unwrap_or_default(),
        updated: 0,
        restart_pending: 0,
        revision: "".into(),
    });
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let conditions =
        status.conditions.iter().filter(|condition| condition["type"].is_string()).map(|condition| {
            let time = condition["lastTransitionTime"].as_str().and_then(|time| time.parse().ok());
            Condition {
                kind: text(condition, "type"),
                status: text(condition, "status"),
                reason: text(condition, "reason"),
                message: text(condition, "message"),
                last_transition: time.unwrap_or(Timestamp::UNIX_EPOCH),
                observed_generation: None,
            }
        });
    Published { conditions: conditions.collect(), summary, desired_revision: None }
}

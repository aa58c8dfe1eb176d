//! The settings of the rollout: fields of the spec, or equivalent annotations if the cluster's definition of
//! pools prunes these fields. A field overrides its annotation.

use serde_json::Value;
use vmpool_api::{Share, annotations};
use vmpool_engine::limits;
use vmpool_engine::model::{DisruptionBudget, RequestedRevision, RolloutPolicy};
use vmpool_engine::revisions::RevisionId;

use super::super::objects::{DvpPoolObject, DvpPoolSpec};
use super::annotation_value;
use vmpool_engine::revisions::HELD;

/// Reads the settings, and the revision that the pool requests. An unreadable setting gets its safe value,
/// which disrupts no machine, and a message is added to `invalid_settings`.
pub(super) fn read_rollout(
    pool: &DvpPoolObject,
    spec: &DvpPoolSpec,
    invalid_settings: &mut Vec<String>,
) -> (RolloutPolicy, RequestedRevision) {
    let rollout = &spec.rollout;
    let is_odd = !rollout.is_null() && !rollout.is_object();
    if is_odd {
        invalid_settings.push(format!("rollout {rollout} is not an object, so the rollout is paused"));
    }
    let annotation_entry = |key| annotation_value(&pool.metadata, key).map(|text| (key, text));
    let paused = match (&rollout["paused"], annotation_entry(annotations::ROLLOUT_PAUSED)) {
        (Value::Null, None) => Ok(is_odd),
        (Value::Null, Some((key, text))) => text
            .parse()
            .map(|paused: bool| paused || is_odd)
            .map_err(|_| format!("annotation {key}: {text:?} is neither true nor false")),
        (Value::Bool(paused), _) => Ok(*paused),
        (other, _) => Err(format!("rollout.paused {other} is neither true nor false")),
    };
    let budget = match (&rollout["maxUnavailable"], annotation_entry(annotations::ROLLOUT_MAX_UNAVAILABLE)) {
        (Value::Null, None) => Ok(DisruptionBudget::default()),
        (Value::Null, Some((key, text))) => {
            text.parse().map(disruption_budget).map_err(|error| format!("annotation {key}: {error}"))
        }
        (field, _) => Share::from_json(field)
            .map(disruption_budget)
            .map_err(|error| format!("rollout.maxUnavailable: {error}")),
    };
    let pinned = match (&rollout["revision"], annotation_entry(annotations::ROLLOUT_REVISION)) {
        (Value::Null, None) => Ok(None),
        (Value::Null, Some((key, ""))) => Err(format!("annotation {key} is empty")),
        (Value::Null, Some((_, id))) => Ok(Some(RevisionId::from(limits::clip_name(id)))),
        (Value::String(id), _) if !id.is_empty() => Ok(Some(RevisionId::from(limits::clip_name(id)))),
        (other, _) => Err(format!("rollout.revision {other} is not the name of a revision")),
    };
    let count = |limit: u64| usize::try_from(limit).ok();
    let history = match (&spec.revision_history_limit, annotation_entry(annotations::REVISION_HISTORY_LIMIT))
    {
        (Value::Null, None) => Ok(RolloutPolicy::default().history),
        (Value::Null, Some((key, text))) => text
            .parse()
            .ok()
            .and_then(count)
            .ok_or_else(|| format!("annotation {key}: {text:?} is not a count")),
        (field, _) => field
            .as_u64()
            .and_then(count)
            .ok_or_else(|| format!("revisionHistoryLimit {field} is not a count")),
    };
    let mut safe = |what: String, instead: &str| {
        invalid_settings.push(format!("{what}, so {instead}; correct or remove it"));
    };
    let is_unreadable = pinned.is_err();
    let rollout = RolloutPolicy {
        paused: paused.unwrap_or_else(|what| {
            safe(what, "the rollout is paused");
            true
        }),
        budget: budget.unwrap_or_else(|what| {
            safe(what, "one machine at a time is updated");
            DisruptionBudget::Machines(1)
        }),
        history: history.unwrap_or_else(|what| {
            let limit = RolloutPolicy::default().history;
            safe(what, &format!("{limit} earlier revisions are kept"));
            limit
        }),
        ..RolloutPolicy::default()
    };
    let pinned = pinned.unwrap_or_else(|what| {
        safe(what, HELD);
        None
    });
    (rollout, RequestedRevision { pinned, is_unreadable })
}

fn disruption_budget(share: Share) -> DisruptionBudget {
    match share {
        Share::Machines(machines) => {
            DisruptionBudget::Machines(usize::try_from(machines).unwrap_or(usize::MAX))
        }
        Share::Percent(percent) => DisruptionBudget::Percent(percent),
    }
}

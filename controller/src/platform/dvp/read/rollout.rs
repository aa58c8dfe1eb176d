//! How changes reach machines: fields of the spec and, where the cluster's definition of a pool prunes these, the
//! annotations that stand for them. A field wins over its annotation.

use serde_json::Value;
use vmpool_api::{Share, annotations};
use vmpool_engine::model::{Budget, Rollout};
use vmpool_engine::revision::RevisionId;

use super::super::objects::PoolObject;
use super::annotation;

/// Reads the settings. For one that cannot be read the value that disturbs machines least stands in; as long as it
/// matters for what happens to machines, it is a flaw, too.
pub(super) fn read(pool: &PoolObject, flaws: &mut Vec<String>) -> Rollout {
    let rollout = &pool.spec.rollout;
    if !rollout.is_null() && !rollout.is_object() {
        flaws.push(format!("rollout {rollout} is no object"));
    }
    let twin = |key| annotation(&pool.metadata, key).map(|text| (key, text));
    let paused = match (&rollout["paused"], twin(annotations::ROLLOUT_PAUSED)) {
        (Value::Null, None) => Ok(false),
        (Value::Null, Some((key, text))) => {
            text.parse().map_err(|_| format!("annotation {key}: {text:?} is neither true nor false"))
        }
        (Value::Bool(paused), _) => Ok(*paused),
        (other, _) => Err(format!("rollout.paused {other} is neither true nor false")),
    };
    let budget = match (&rollout["maxUnavailable"], twin(annotations::ROLLOUT_MAX_UNAVAILABLE)) {
        (Value::Null, None) => Ok(Budget::default()),
        (Value::Null, Some((key, text))) => {
            text.parse().map(budget).map_err(|error| format!("annotation {key}: {error}"))
        }
        (field, _) => {
            Share::from_json(field).map(budget).map_err(|error| format!("rollout.maxUnavailable: {error}"))
        }
    };
    let pinned = match (&rollout["revision"], twin(annotations::ROLLOUT_REVISION)) {
        (Value::Null, None) => Ok(None),
        (Value::Null, Some((key, ""))) => Err(format!("annotation {key} is empty; remove it")),
        (Value::Null, Some((_, id))) => Ok(Some(RevisionId::from(id))),
        (Value::String(id), _) if !id.is_empty() => Ok(Some(RevisionId::from(id.as_str()))),
        (other, _) => Err(format!("rollout.revision {other} names no revision")),
    };
    let history = match (&pool.spec.revision_history_limit, twin(annotations::REVISION_HISTORY_LIMIT)) {
        (Value::Null, None) => Some(Rollout::default().history),
        (Value::Null, Some((_, text))) => text.parse().ok(),
        (field, _) => field.as_u64().and_then(|limit| usize::try_from(limit).ok()),
    };
    let mut or = |flaw: String| flaws.push(flaw);
    Rollout {
        paused: paused.map_err(&mut or).unwrap_or(true),
        budget: budget.map_err(&mut or).unwrap_or(Budget::Machines(1)),
        pinned: pinned.map_err(&mut or).unwrap_or_default(),
        // Nothing is forgotten for a limit that nobody understands.
        history: history.unwrap_or(usize::MAX),
    }
}

fn budget(share: Share) -> Budget {
    match share {
        Share::Machines(machines) => Budget::Machines(usize::try_from(machines).unwrap_or(usize::MAX)),
        Share::Percent(percent) => Budget::Percent(percent),
    }
}

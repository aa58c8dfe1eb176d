//! The status of a pool, with its conditions.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::read::PublishedStatus;

/// Condition type: the last pass failed. The condition is removed after a pass without an error, and never False.
pub const REPLICA_FAILURE: &str = "ReplicaFailure";
/// Condition type: the pool is paused. The condition is removed on resume, and never False.
pub const REPLICA_PAUSED: &str = "ReplicaPaused";
/// Reason of [`REPLICA_PAUSED`].
pub const SUCCESSFUL_PAUSED: &str = "SuccessfulPaused";

/// The step of a pass that failed, as the reason of [`REPLICA_FAILURE`] and of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedStep {
    /// Creating machines.
    ScaleOut,
    /// Deleting machines.
    ScaleIn,
    /// Updating or restarting machines.
    Update,
    /// Deleting revisions that no machine names.
    RevisionPruning,
}

impl FailedStep {
    /// The reason.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ScaleOut => "FailedScaleOut",
            Self::ScaleIn => "FailedScaleIn",
            Self::Update => "FailedUpdate",
            Self::RevisionPruning => "FailedRevisionPruning",
        }
    }
}

/// A condition before it is compared with the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCondition {
    /// Its type.
    pub kind: &'static str,
    /// Whether it is True or False.
    pub holds: bool,
    /// The reason: one CamelCase word, for programs.
    pub reason: &'static str,
    /// The message: a sentence, for users.
    pub message: String,
}

impl WantedCondition {
    /// The condition after a failed pass.
    pub fn failure(step: FailedStep, message: impl Into<String>) -> Self {
        Self { kind: REPLICA_FAILURE, holds: true, reason: step.reason(), message: message.into() }
    }

    /// The condition of a paused pool.
    pub fn paused() -> Self {
        let message = "Pool is paused".to_owned();
        Self { kind: REPLICA_PAUSED, holds: true, reason: SUCCESSFUL_PAUSED, message }
    }
}

/// The status of a pool before it is compared with the published one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedStatus {
    /// Number of machines, including those that are being deleted.
    pub replicas: usize,
    /// Number of machines whose condition Ready is True, including those that are being deleted.
    pub ready: usize,
    /// The selector in its canonical form.
    pub label_selector: String,
    /// The conditions of vmpool. All its other conditions are removed.
    pub conditions: Vec<WantedCondition>,
    /// Fields that only vmpool's CRD has. With `None` the status contains upstream's fields only.
    pub extension: Option<Extension>,
}

/// Fields of the status that upstream does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The generation that the pass used.
    pub observed_generation: i64,
    /// Number of ready machines that are not being deleted.
    pub available: usize,
    /// Number of machines that run with the current template.
    pub updated: usize,
    /// Number of machines that have the current template and need a restart to run with it.
    pub restart_pending: usize,
    /// Number of machines that autohealing has replaced.
    pub healed: u64,
    /// Name of the current revision.
    pub current_revision: String,
}

/// The status object to publish. `own` lists the condition types of vmpool; all others belong to other controllers and
/// are kept.
///
/// Counters with the value zero are written as well, so that `kubectl wait --for=jsonpath='{.status.replicas}'=0`
/// works.
pub fn status(wanted: &WantedStatus, published: &PublishedStatus, own: &[&str], now: Timestamp) -> Value {
    let mut status = json!({
        "replicas": wanted.replicas,
        "readyReplicas": wanted.ready,
        "labelSelector": wanted.label_selector,
        "conditions": conditions(&wanted.conditions, &published.conditions, own, now),
    });
    if let Some(extension) = &wanted.extension {
        status["observedGeneration"] = extension.observed_generation.into();
        status["availableReplicas"] = extension.available.into();
        status["updatedReplicas"] = extension.updated.into();
        status["restartPendingReplicas"] = extension.restart_pending.into();
        status["healedReplicas"] = extension.healed.into();
        status["currentRevision"] = extension.current_revision.as_str().into();
    }
    status
}

/// The conditions to publish: those of other controllers at their positions, and the wanted ones. A condition whose
/// status stays keeps its transition time, while reason and message are refreshed.
pub fn conditions(
    wanted: &[WantedCondition],
    published: &[Value],
    own: &[&str],
    now: Timestamp,
) -> Vec<Value> {
    let kind = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    let mut missing: Vec<&WantedCondition> = wanted.iter().collect();
    let mut merged = Vec::new();
    for condition in published {
        let kind = kind(condition);
        let place = missing.iter().position(|wanted| wanted.kind == kind);
        match place.map(|place| missing.remove(place)) {
            Some(wanted) => merged.push(refreshed(condition, wanted, now)),
            None if own.contains(&&*kind) || wanted.iter().any(|wanted| wanted.kind == kind) => {}
            None => merged.push(condition.clone()),
        }
    }
    merged.extend(missing.into_iter().map(|wanted| refreshed(&Value::Null, wanted, now)));
    merged
}

fn refreshed(published: &Value, wanted: &WantedCondition, now: Timestamp) -> Value {
    let status = if wanted.holds { "True" } else { "False" };
    let mut condition = Map::new();
    // Fields that vmpool does not know stay.
    condition.extend(published.as_object().cloned().unwrap_or_default());
    let is_unchanged = published["status"] == status && published["lastTransitionTime"].is_string();
    if !is_unchanged {
        // In whole seconds, as the API server stores times.
        condition.insert("lastTransitionTime".into(), now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    }
    condition.insert("type".into(), wanted.kind.into());
    condition.insert("status".into(), status.into());
    condition.insert("reason".into(), wanted.reason.into());
    condition.insert("message".into(), wanted.message.as_str().into());
    Value::Object(condition)
}

#[cfg(test)]
mod tests;

//! The status of an autoscaler: numbers and conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use vmpool_api::autoscaler::PoolAutoscalerStatus;
use vmpool_api::conditions::autoscaler::{ACTIVE, CONFLICTING, LIMITED, READY, reason};

use crate::conflict::Conflict;
use crate::decision::{Explanation, LimitReached};
use crate::machines::DemandCounts;

/// The longest reason of a scale that the status has, in bytes.
const LONGEST_REASON: usize = 1024;

/// Whether the controller scales the pool, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AutoscalerActivity {
    /// It does.
    Scaling,
    /// A field outside the schedules cannot be read.
    InvalidSpec,
    /// The pool does not exist.
    PoolNotFound,
    /// The controller does not reconcile pools of this kind.
    PoolNotServed,
    /// The autoscaler is paused.
    Paused,
    /// The pool is paused.
    PoolPaused,
    /// The pool is being deleted.
    PoolDeleting,
    /// Another object scales the pool.
    Conflict(Conflict),
    /// The last write failed.
    FailedScale(String),
}

/// What a pass found, for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoscalerReport {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Whether the controller scales the pool.
    pub activity: AutoscalerActivity,
    /// What cannot be read.
    pub problems: Vec<String>,
    /// What the pool has and needs; `None` if there is no pool.
    pub pool: Option<ScaledPoolReport>,
    /// The last change of the replicas, if this pass made one.
    pub scaled: Option<LastScale>,
}

/// What the pool of an autoscaler has and needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaledPoolReport {
    /// The replicas that the pool requests.
    pub replicas: u32,
    /// Its active machines.
    pub counts: DemandCounts,
    /// Number of its standby machines.
    pub standby: u32,
    /// The numbers behind the decision.
    pub explanation: Explanation,
}

/// A change of the replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastScale {
    /// When.
    pub time: Timestamp,
    /// The numbers behind it.
    pub reason: String,
}

/// Renders the status. What a pass does not change is taken from the stored one.
pub fn render_status(
    stored: Option<&PoolAutoscalerStatus>,
    report: &AutoscalerReport,
    now: Timestamp,
) -> PoolAutoscalerStatus {
    let number = |number: u32| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let pool = report.pool.as_ref();
    let scaled = report.scaled.as_ref();
    let last_reason =
        scaled.map(|scaled| scaled.reason[..scaled.reason.floor_char_boundary(LONGEST_REASON)].to_owned());
    PoolAutoscalerStatus {
        active_schedule: pool.and_then(|pool| pool.explanation.schedule.clone()),
        busy: pool.and_then(|pool| number(pool.counts.busy)),
        conditions: Some(render_conditions(stored, report, now)),
        desired_replicas: pool.and_then(|pool| number(pool.explanation.desired.replicas)),
        free: pool.and_then(|pool| number(pool.counts.free)),
        last_scale_reason: last_reason.or_else(|| stored?.last_scale_reason.clone()),
        last_scale_time: scaled
            .map(|scaled| scaled.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
            .or_else(|| stored?.last_scale_time.clone()),
        observed_generation: report.generation,
        provisioning: pool.and_then(|pool| number(pool.counts.provisioning)),
        replicas: pool.and_then(|pool| number(pool.replicas)),
        standby: pool.and_then(|pool| number(pool.standby)),
        waiting: pool.and_then(|pool| number(pool.explanation.demand.waiting)),
    }
}

/// A condition without the fields that all of them share.
struct ConditionContent {
    kind: &'static str,
    holds: bool,
    reason: &'static str,
    message: String,
}

fn render_conditions(
    stored: Option<&PoolAutoscalerStatus>,
    report: &AutoscalerReport,
    now: Timestamp,
) -> Vec<Condition> {
    let stored = stored.and_then(|stored| stored.conditions.as_deref()).unwrap_or_default();
    let limited = report.pool.as_ref().map(limited_condition);
    let conditions = [
        Some(ready_condition(report)),
        Some(active_condition(report)),
        limited,
        Some(conflict_condition(report)),
    ];
    let render = |content: ConditionContent| {
        let status = if content.holds { "True" } else { "False" };
        let before = stored.iter().find(|before| before.type_ == content.kind && before.status == status);
        Condition {
            type_: content.kind.to_owned(),
            status: status.to_owned(),
            reason: content.reason.to_owned(),
            message: content.message,
            observed_generation: report.generation,
            last_transition_time: before.map_or(Time(now), |before| before.last_transition_time.clone()),
        }
    };
    conditions.into_iter().flatten().map(render).collect()
}

fn ready_condition(report: &AutoscalerReport) -> ConditionContent {
    let failed = |reason, message: &str| ConditionContent {
        kind: READY,
        holds: false,
        reason,
        message: message.to_owned(),
    };
    match &report.activity {
        AutoscalerActivity::PoolNotFound => failed(reason::POOL_NOT_FOUND, POOL_NOT_FOUND),
        AutoscalerActivity::PoolNotServed => failed(reason::POOL_NOT_SERVED, POOL_NOT_SERVED),
        AutoscalerActivity::Scaling
        | AutoscalerActivity::InvalidSpec
        | AutoscalerActivity::Paused
        | AutoscalerActivity::PoolPaused
        | AutoscalerActivity::PoolDeleting
        | AutoscalerActivity::Conflict(_)
        | AutoscalerActivity::FailedScale(_) => match report.problems.as_slice() {
            [] => {
                let message = "the controller can read all fields".to_owned();
                ConditionContent { kind: READY, holds: true, reason: reason::READABLE, message }
            }
            problems => failed(reason::INVALID_SPEC, &problems.join("; ")),
        },
    }
}

const POOL_NOT_FOUND: &str = "the pool does not exist";
const POOL_NOT_SERVED: &str =
    "the controller does not reconcile pools of this API group; check its flag --platforms and spec.poolRef";

fn active_condition(report: &AutoscalerReport) -> ConditionContent {
    let (reason, message) = match &report.activity {
        AutoscalerActivity::Scaling => {
            let message = report.pool.as_ref().map(|pool| pool.explanation.to_string());
            let message = message.unwrap_or_default();
            return ConditionContent { kind: ACTIVE, holds: true, reason: reason::SCALING, message };
        }
        AutoscalerActivity::InvalidSpec => {
            (reason::INVALID_SPEC, "the limits cannot be read, so the replicas stay; correct the fields")
        }
        AutoscalerActivity::PoolNotFound => (reason::POOL_NOT_FOUND, POOL_NOT_FOUND),
        AutoscalerActivity::PoolNotServed => (reason::POOL_NOT_SERVED, POOL_NOT_SERVED),
        AutoscalerActivity::Paused => (reason::PAUSED, "spec.paused is true"),
        AutoscalerActivity::PoolPaused => (reason::POOL_PAUSED, "the pool is paused"),
        AutoscalerActivity::PoolDeleting => (reason::POOL_DELETING, "the pool is being deleted"),
        AutoscalerActivity::Conflict(_) => {
            (reason::CONFLICT, "another object scales the pool, see the condition Conflicting")
        }
        AutoscalerActivity::FailedScale(message) => (reason::FAILED_SCALE, message.as_str()),
    };
    ConditionContent { kind: ACTIVE, holds: false, reason, message: message.to_owned() }
}

fn limited_condition(pool: &ScaledPoolReport) -> ConditionContent {
    let (holds, reason, message) = match pool.explanation.desired.limited {
        LimitReached::No => (false, reason::WITHIN_LIMITS, "the demand is between the limits"),
        LimitReached::Min => (true, reason::TOO_FEW_REPLICAS, "the demand is below minReplicas"),
        LimitReached::Max => (true, reason::TOO_MANY_REPLICAS, "the demand exceeds maxReplicas"),
    };
    ConditionContent { kind: LIMITED, holds, reason, message: message.to_owned() }
}

fn conflict_condition(report: &AutoscalerReport) -> ConditionContent {
    let (holds, reason, message) = match &report.activity {
        AutoscalerActivity::Conflict(Conflict::HorizontalPodAutoscaler(name)) => {
            let what = format!("the HorizontalPodAutoscaler {name} scales the pool; delete one of the two");
            (true, reason::HORIZONTAL_POD_AUTOSCALER, what)
        }
        AutoscalerActivity::Conflict(Conflict::OlderAutoscaler(name)) => {
            let what = format!("the older PoolAutoscaler {name} scales the pool; delete one of the two");
            (true, reason::OLDER_AUTOSCALER, what)
        }
        AutoscalerActivity::Scaling
        | AutoscalerActivity::InvalidSpec
        | AutoscalerActivity::PoolNotFound
        | AutoscalerActivity::PoolNotServed
        | AutoscalerActivity::Paused
        | AutoscalerActivity::PoolPaused
        | AutoscalerActivity::PoolDeleting
        | AutoscalerActivity::FailedScale(_) => {
            (false, reason::NO_CONFLICT, "no other object scales the pool".to_owned())
        }
    };
    ConditionContent { kind: CONFLICTING, holds, reason, message }
}

#[cfg(test)]
mod tests;

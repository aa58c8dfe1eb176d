//! The phase of a pool, as its status shows it.

use vmpool_engine::ParsedPool;
use vmpool_engine::condition::{ConditionReason, ConditionType, StatusCondition};
use vmpool_engine::model::{StatusContent, StatusSummary};

/// The phase of a pool, and what the controller says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedPhase {
    pub(crate) phase: String,
    pub(crate) message: String,
}

/// The phase of a pool; `None` if no controller has written its status. It is the reason of the condition
/// `Ready`. A pool of KubeVirt can lack that condition. Counters and the other conditions then show its
/// phase.
pub(crate) fn read_published_phase(pool: &ParsedPool) -> Option<PublishedPhase> {
    let mut conditions = pool.published.conditions.iter();
    if let Some(ready) = conditions.find(|condition| condition.is(ConditionType::Ready)) {
        return Some(PublishedPhase { phase: ready.reason.clone(), message: ready.message.clone() });
    }
    let summary = pool.published.summary.as_ref()?;
    (pool.status_content == StatusContent::FailureAndPause).then(|| derive_phase(pool, summary))
}

/// The phase of a pool without the condition `Ready`. It can be better than the one that the controller would
/// publish, because the definition of KubeVirt does not keep how many machines are up to date.
fn derive_phase(pool: &ParsedPool, summary: &StatusSummary) -> PublishedPhase {
    let &StatusSummary { replicas, ready, updated, .. } = summary;
    let desired = pool.desired;
    // The definition keeps the counters of vmpool.
    let is_complete = summary.observed_generation > 0;
    let problem = find_condition(pool, ConditionType::TemplateResolved, "False")
        .or_else(|| find_condition(pool, ConditionType::ReplicaFailure, "True"));
    if let Some(problem) = problem {
        return describe_phase(ConditionReason::Failing, problem.message.clone());
    }
    if pool.paused {
        return describe_phase(ConditionReason::Paused, "the pool is paused".to_owned());
    }
    if replicas != desired || ready < desired {
        let counts = format!("{replicas} machines exist, {ready} are ready, {desired} desired");
        return describe_phase(ConditionReason::Scaling, counts);
    }
    if is_complete && updated < replicas {
        let counts = format!("{updated} of {replicas} machines are up to date");
        return describe_phase(ConditionReason::RollingOut, counts);
    }
    describe_phase(ConditionReason::Ready, format!("{ready} of {desired} machines are ready"))
}

fn find_condition<'a>(
    pool: &'a ParsedPool,
    kind: ConditionType,
    status: &str,
) -> Option<&'a StatusCondition> {
    pool.published.conditions.iter().find(|condition| condition.is(kind) && condition.status == status)
}

fn describe_phase(phase: ConditionReason, message: String) -> PublishedPhase {
    PublishedPhase { phase: phase.as_str().to_owned(), message }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};
    use vmpool_platforms::KubeVirt;

    use super::*;
    use crate::pool::decode_pool;

    fn read(status: &Value) -> Option<PublishedPhase> {
        let stored = json!({
            "metadata": { "name": "web", "namespace": "a", "uid": "u", "generation": 4 },
            "spec": {
                "replicas": 3,
                "selector": { "matchLabels": { "app": "web" } },
                "virtualMachineTemplate": { "metadata": { "labels": { "app": "web" } }, "spec": {} },
            },
            "status": status,
        });
        read_published_phase(&decode_pool::<KubeVirt>(&stored).unwrap().1)
    }

    /// A status as the definition of KubeVirt keeps it.
    fn status(replicas: usize, ready: usize, conditions: &Value) -> Value {
        json!({ "labelSelector": "app=web", "replicas": replicas, "readyReplicas": ready, "conditions": conditions })
    }

    #[rstest]
    #[case::ready(3, 3, json!([]), "Ready", "3 of 3 machines are ready")]
    #[case::starting(3, 1, json!([]), "Scaling", "3 machines exist, 1 are ready, 3 desired")]
    #[case::surplus(4, 4, json!([]), "Scaling", "4 machines exist, 4 are ready, 3 desired")]
    #[case::failure(
        3, 3, json!([{ "type": "ReplicaFailure", "status": "True", "reason": "FailedScaleOut", "message": "quota" }]),
        "Failing", "quota",
    )]
    #[case::unresolved(
        0, 0, json!([{ "type": "TemplateResolved", "status": "False", "reason": "x", "message": "no small" }]),
        "Failing", "no small",
    )]
    #[case::published(
        3, 1, json!([{ "type": "Ready", "status": "False", "reason": "Blocked", "message": "why" }]),
        "Blocked", "why",
    )]
    fn a_pool_without_the_condition_ready_has_the_phase_of_its_counters(
        #[case] replicas: usize,
        #[case] ready: usize,
        #[case] conditions: Value,
        #[case] phase: &str,
        #[case] message: &str,
    ) {
        let expected = PublishedPhase { phase: phase.to_owned(), message: message.to_owned() };
        assert_eq!(read(&status(replicas, ready, &conditions)), Some(expected));
    }

    #[test]
    fn a_rollout_is_seen_if_the_definition_keeps_its_counter() {
        let mut status = status(3, 3, &json!([]));
        status["updatedReplicas"] = json!(1);
        status["observedGeneration"] = json!(4);
        assert_eq!(read(&status).unwrap().phase, "RollingOut");
    }

    #[test]
    fn a_pool_without_a_status_has_no_phase() {
        assert_eq!(read(&json!({})), None);
    }
}

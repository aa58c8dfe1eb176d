use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

const OWN: [&str; 2] = [REPLICA_FAILURE, REPLICA_PAUSED];
const BEFORE: &str = "2026-11-21T13:05:07Z";
const NOW: &str = "2026-11-21T14:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn failure(step: &str, message: &str, since: &str) -> Value {
    json!({
        "type": "ReplicaFailure", "status": "True", "reason": step, "message": message, "lastTransitionTime": since,
    })
}

fn paused(since: &str) -> Value {
    json!({
        "type": "ReplicaPaused", "status": "True", "reason": "SuccessfulPaused", "message": "Pool is paused",
        "lastTransitionTime": since,
    })
}

#[rstest]
#[case::nothing(vec![], json!([]), json!([]))]
#[case::a_failure_is_added(
    vec![WantedCondition::failure(FailedStep::ScaleOut, "quota")], json!([]), json!([failure("FailedScaleOut", "quota", NOW)]))]
#[case::a_failure_keeps_its_time(
    vec![WantedCondition::failure(FailedStep::ScaleOut, "quota")],
    json!([failure("FailedScaleOut", "quota", BEFORE)]),
    json!([failure("FailedScaleOut", "quota", BEFORE)]))]
#[case::reason_and_message_are_refreshed(
    vec![WantedCondition::failure(FailedStep::Update, "conflict")],
    json!([failure("FailedScaleOut", "quota", BEFORE)]),
    json!([failure("FailedUpdate", "conflict", BEFORE)]))]
#[case::a_failure_is_removed_and_never_false(
    vec![], json!([failure("FailedScaleIn", "conflict", BEFORE), paused(BEFORE)]), json!([]))]
#[case::a_pause_is_added(vec![WantedCondition::paused()], json!([]), json!([paused(NOW)]))]
#[case::foreign_conditions_are_kept_with_all_fields(
    vec![WantedCondition::paused()],
    json!([{"type": "Theirs", "status": "Unknown", "lastProbeTime": null, "new": {"a": 1}}]),
    json!([{"type": "Theirs", "status": "Unknown", "lastProbeTime": null, "new": {"a": 1}}, paused(NOW)]))]
#[case::a_status_that_changes_gets_a_new_time(
    vec![WantedCondition::paused()],
    json!([{"type": "ReplicaPaused", "status": "False", "reason": "x", "message": "", "lastTransitionTime": BEFORE}]),
    json!([paused(NOW)]))]
#[case::a_condition_without_a_time_gets_one(
    vec![WantedCondition::paused()],
    json!([{"type": "ReplicaPaused", "status": "True", "lastTransitionTime": null}]),
    json!([paused(NOW)]))]
#[case::of_two_with_one_type_the_first_is_kept(
    vec![WantedCondition::paused()], json!([paused(BEFORE), paused(NOW)]), json!([paused(BEFORE)]))]
#[case::the_order_stays(
    vec![WantedCondition::paused(), WantedCondition::failure(FailedStep::ScaleIn, "m")],
    json!([failure("FailedScaleIn", "m", BEFORE), paused(BEFORE)]),
    json!([failure("FailedScaleIn", "m", BEFORE), paused(BEFORE)]))]
fn publishes(#[case] wanted: Vec<WantedCondition>, #[case] published: Value, #[case] expected: Value) {
    let published = published.as_array().unwrap();
    assert_eq!(Value::from(conditions(&wanted, published, &OWN, now())), expected);
}

fn wanted(extension: Option<Extension>) -> WantedStatus {
    WantedStatus {
        replicas: 2,
        ready: 0,
        label_selector: "app=herd".into(),
        conditions: Vec::new(),
        extension,
    }
}

#[test]
fn without_extension_the_status_has_the_fields_of_upstream() {
    let status = status(&wanted(None), &PublishedStatus::default(), &OWN, now());
    let expected =
        json!({ "replicas": 2, "readyReplicas": 0, "labelSelector": "app=herd", "conditions": [] });
    assert_eq!(status, expected);
}

#[test]
fn with_extension_the_status_has_the_fields_of_our_schema() {
    let extension = Extension {
        observed_generation: 4,
        available: 1,
        updated: 2,
        restart_pending: 0,
        healed: 7,
        current_revision: "herd-4".into(),
    };
    let status = status(&wanted(Some(extension)), &PublishedStatus::default(), &OWN, now());
    let parsed: vmpool_api::kubevirt::VirtualMachinePoolStatus = serde_json::from_value(status).unwrap();
    assert!(parsed.unknown_fields.is_empty(), "{:?}", parsed.unknown_fields);
    assert_eq!(parsed.observed_generation, Some(4));
    assert_eq!(parsed.available_replicas, Some(1));
    assert_eq!(parsed.updated_replicas, Some(2));
    assert_eq!(parsed.restart_pending_replicas, Some(0));
    assert_eq!(parsed.healed_replicas, Some(7));
    assert_eq!(parsed.current_revision.as_deref(), Some("herd-4"));
}

proptest! {
    #[test]
    fn what_was_published_is_published_unchanged(
        published in prop::collection::vec(("[ABC]", any::<bool>()), 0..4),
        paused: bool,
        failure: bool,
    ) {
        let published: Vec<Value> =
            published.iter().map(|(kind, holds)| json!({ "type": kind, "status": holds.to_string() })).collect();
        let mut wanted = Vec::new();
        wanted.extend(paused.then(WantedCondition::paused));
        wanted.extend(failure.then(|| WantedCondition::failure(FailedStep::Update, "m")));
        let once = conditions(&wanted, &published, &OWN, now());
        prop_assert_eq!(&once[..published.len()], &published[..]);
        prop_assert_eq!(conditions(&wanted, &once, &OWN, Timestamp::UNIX_EPOCH), once);
    }
}

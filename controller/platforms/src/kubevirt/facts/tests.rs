use rstest::rstest;
use serde_json::{Value, json};

use super::super::fixtures;
use super::*;

const SINCE: &str = "2026-11-21T13:06:07Z";

fn health(count: u64, printable_status: &str, ready: &Value) -> StartHealth {
    let mut object = fixtures::machine();
    object["status"] = json!({
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": SINCE }],
        "printableStatus": printable_status,
        "startFailure": { "consecutiveFailCount": count },
    });
    machine(&serde_json::from_value(object).unwrap()).start_health
}

#[rstest]
#[case::crash_loop("CrashLoopBackOff")]
#[case::unschedulable("ErrorUnschedulable")]
#[case::data_volume("DataVolumeError")]
#[case::claim("ErrorPvcNotFound")]
#[case::image("ErrImagePull")]
#[case::image_backoff("ImagePullBackOff")]
fn a_bad_state_counts_while_ready_is_false(#[case] status: &str) {
    let not_ready = health(0, status, &json!("False"));
    let since = Some(SINCE.parse().unwrap());
    assert_eq!(not_ready, StartHealth { failed_starts: 0, failing: true, not_ready_since: since });
    assert!(!health(0, status, &json!("True")).failing);
    assert!(!health(0, status, &json!("Unknown")).failing);
}

#[test]
fn failed_starts_count_in_any_state() {
    let health = health(3, "Running", &json!("True"));
    assert_eq!((health.failed_starts, health.failing), (3, false));
}

#[rstest]
#[case("Starting")]
#[case("Running")]
#[case("Stopped")]
#[case("Provisioning")]
#[case("Unexpected")]
fn a_machine_that_is_not_ready_in_another_state_does_not_fail(#[case] status: &str) {
    assert!(!health(0, status, &json!("False")).failing);
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": operator, "values": values })
}

#[rstest]
#[case::absent(json!(null), true)]
#[case::empty(json!({}), true)]
#[case::empty_members(json!({"labelSelector": {}, "nodeSelectorRequirementMatcher": []}), true)]
#[case::labels(json!({"labelSelector": {"matchLabels": {"app": "herd"}}}), true)]
#[case::nodes(json!({"nodeSelectorRequirementMatcher": [expression("zone", "In", &["a"])]}), true)]
#[case::both(
    json!({
        "labelSelector": {"matchLabels": {"app": "herd"}},
        "nodeSelectorRequirementMatcher": [expression("zone", "In", &["a"])],
    }), true)]
#[case::only_one_of_both(
    json!({
        "labelSelector": {"matchLabels": {"app": "herd"}},
        "nodeSelectorRequirementMatcher": [expression("zone", "In", &["b"])],
    }), false)]
#[case::not_in(json!({"nodeSelectorRequirementMatcher": [expression("zone", "NotIn", &["a"])]}), false)]
#[case::exists(json!({"nodeSelectorRequirementMatcher": [expression("zone", "Exists", &[])]}), true)]
#[case::does_not_exist(json!({"nodeSelectorRequirementMatcher": [expression("disk", "DoesNotExist", &[])]}), true)]
#[case::greater(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Gt", &["15"])]}), true)]
#[case::not_greater(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Gt", &["16"])]}), false)]
#[case::less(json!({"nodeSelectorRequirementMatcher": [expression("cores", "Lt", &["17"])]}), true)]
#[case::no_number_to_compare(json!({"nodeSelectorRequirementMatcher": [expression("zone", "Lt", &["17"])]}), false)]
#[case::nothing_to_compare(json!({"nodeSelectorRequirementMatcher": [expression("none", "Gt", &["1"])]}), false)]
fn a_scale_in_considers_machines_by_inner_labels_and_node_selector(
    #[case] selectors: Value,
    #[case] considered: bool,
) {
    let mut object = fixtures::pool();
    object["spec"]["scaleInStrategy"] =
        json!({ "proactive": { "selectionPolicy": { "selectors": selectors } } });
    let pool = pool(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.invalid_settings, Vec::<String>::new());
    let mut object = fixtures::machine();
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({ "zone": "a", "cores": "16" });
    let machine = machine(&serde_json::from_value(object).unwrap());
    assert_eq!(pool.scale_down_selection.includes(&machine), considered);
}

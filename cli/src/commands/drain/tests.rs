use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T00:00:00Z";

fn machine(created: &str, annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "web-a", "uid": "u", "creationTimestamp": created, "annotations": annotations },
    })
}

#[rstest]
#[case::an_old_machine("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case::a_machine_of_this_second("2026-01-02T00:00:00Z", "2026-01-02T00:00:01Z")]
#[case::a_clock_that_is_ahead("2026-01-02T00:01:00Z", "2026-01-02T00:01:01Z")]
fn a_request_is_later_than_the_creation_of_the_machine(#[case] created: &str, #[case] expected: &str) {
    assert_eq!(choose_request_time(&machine(created, &json!({})), NOW.parse().unwrap()), expected);
}

#[test]
fn a_request_names_the_machine_by_its_uid_and_leaves_the_version_open() {
    let drained = DrainedMachine::of(&machine(NOW, &Value::Null), false, NOW.parse().unwrap()).unwrap();
    let requested = json!({ "vmpool.dev/recycle": "2026-01-02T00:00:01Z" });
    assert_eq!(drained.patch(), json!({ "metadata": { "uid": "u", "annotations": requested } }));
}

#[test]
fn only_requests_are_withdrawn() {
    let cancel = |annotations| DrainedMachine::of(&machine(NOW, &annotations), true, NOW.parse().unwrap());
    assert_eq!(cancel(json!({})), None);
    let cancelled = cancel(json!({ "vmpool.dev/recycle": "2026-01-01T00:00:00Z" })).unwrap();
    let removed = json!({ "vmpool.dev/recycle": null });
    assert_eq!(cancelled.patch(), json!({ "metadata": { "uid": "u", "annotations": removed } }));
}

#[test]
fn programs_read_the_machines_as_json() {
    let drained = DrainedMachine::of(&machine(NOW, &Value::Null), false, NOW.parse().unwrap());
    let data = serde_json::to_value(DrainedMachines { machines: drained.into_iter().collect() }).unwrap();
    let expected = json!({ "name": "web-a", "uid": "u", "requested": "2026-01-02T00:00:01Z" });
    assert_eq!(data, json!({ "machines": [expected] }));
}

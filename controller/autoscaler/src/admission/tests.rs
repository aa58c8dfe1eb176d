use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::autoscaler::PoolAutoscaler;

use super::{AutoscalerRule, review_autoscaler};

fn autoscaler(schedule: &Value) -> PoolAutoscaler {
    serde_json::from_value(json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": {}, "spec": {
            "poolRef": { "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "p" },
            "maxReplicas": 10,
            "schedules": [schedule],
        },
    }))
    .unwrap()
}

fn schedule(field: &str, value: &str) -> Value {
    let mut schedule = json!({ "name": "a", "start": "0 8 * * *", "duration": "1h", "free": 1 });
    schedule[field] = json!(value);
    schedule
}

#[rstest]
#[case("name", "b", None)]
#[case("start", "0 8 * *", Some(AutoscalerRule::Start))]
#[case("start", "0 0 30 2 *", Some(AutoscalerRule::Start))]
#[case("timeZone", "Berlin", Some(AutoscalerRule::TimeZone))]
#[case("duration", "1d", Some(AutoscalerRule::Durations))]
#[case("free", "10", Some(AutoscalerRule::Numbers))]
fn a_schedule_that_cannot_be_read_is_refused(
    #[case] field: &str,
    #[case] value: &str,
    #[case] rule: Option<AutoscalerRule>,
) {
    let findings = review_autoscaler(None, &autoscaler(&schedule(field, value)));
    assert_eq!(findings.first().map(|finding| finding.rule), rule);
    assert!(findings.iter().all(|finding| finding.field == format!("spec.schedules[0].{field}")));
}

#[test]
fn a_stored_value_that_cannot_be_read_does_not_prevent_a_pause() {
    let stored = autoscaler(&schedule("timeZone", "Berlin"));
    let mut paused = stored.clone();
    paused.spec.paused = Some(true);
    assert_eq!(review_autoscaler(Some(&stored), &paused), []);
    paused.spec.max_replicas = 20;
    assert_eq!(review_autoscaler(Some(&stored), &paused).len(), 1);
}

#[test]
fn each_rule_has_another_identifier() {
    let mut ids: Vec<&str> = AutoscalerRule::ALL.iter().map(|rule| rule.id()).collect();
    ids.dedup();
    assert_eq!(ids, ["S1", "S2", "S3", "S4"]);
}

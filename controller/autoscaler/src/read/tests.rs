use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::autoscaler::PoolAutoscaler;

use super::{find_field_problems, read_autoscaler};
use crate::demand::FreeMachines;

fn autoscaler(mut spec: Value) -> PoolAutoscaler {
    spec["poolRef"] =
        json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "runners" });
    if spec["maxReplicas"].is_null() {
        spec["maxReplicas"] = json!(10);
    }
    serde_json::from_value(json!({
        "apiVersion": "vmpool.dev/v1alpha1", "kind": "PoolAutoscaler", "metadata": {}, "spec": spec,
    }))
    .unwrap()
}

fn schedule(field: &str, value: &str) -> Value {
    let mut schedule = json!({ "name": "a", "start": "0 8 * * *", "duration": "1h", "free": 1 });
    schedule[field] = json!(value);
    json!({ "schedules": [schedule] })
}

#[test]
fn absent_fields_have_their_defaults() {
    let read = read_autoscaler(&autoscaler(json!({})));
    assert_eq!((read.limits.min, read.limits.max), (0, 10));
    assert_eq!(read.limits.free, FreeMachines::Machines(0));
    assert_eq!((read.delay, read.paused), (Duration::from_mins(5), false));
    assert_eq!((read.pool.group.as_str(), read.pool.name.as_str()), ("pool.kubevirt.io", "runners"));
    assert_eq!(read.problems, [] as [String; 0]);
}

#[rstest]
#[case::a_number(json!(3), FreeMachines::Machines(3))]
#[case::none(json!(0), FreeMachines::Machines(0))]
#[case::a_percentage(json!("20%"), FreeMachines::Percent(20))]
#[case::the_largest_percentage(json!("1000%"), FreeMachines::Percent(1000))]
fn free_is_a_number_or_a_percentage(#[case] value: Value, #[case] expected: FreeMachines) {
    assert_eq!(read_autoscaler(&autoscaler(json!({ "free": value }))).limits.free, expected);
}

#[rstest]
#[case::a_percentage_of_zero(json!({ "free": "0%" }), "spec.free")]
#[case::a_percentage_too_large(json!({ "free": "1001%" }), "spec.free")]
#[case::a_number_as_text(json!({ "free": "3" }), "spec.free")]
#[case::a_negative_number(json!({ "free": -1 }), "spec.free")]
#[case::a_list(json!({ "free": [1] }), "spec.free")]
#[case::a_negative_limit(json!({ "maxReplicas": -1 }), "spec.maxReplicas")]
#[case::a_negative_delay(json!({ "scaleDown": { "delay": "-5m" } }), "spec.scaleDown.delay")]
#[case::a_delay_too_long(json!({ "scaleDown": { "delay": "25h" } }), "spec.scaleDown.delay")]
#[case::a_start(schedule("start", "0 25 * * *"), "spec.schedules[0].start")]
#[case::a_zone(schedule("timeZone", "Mars/Olympus"), "spec.schedules[0].timeZone")]
#[case::a_duration(schedule("duration", "30s"), "spec.schedules[0].duration")]
#[case::free_of_a_schedule(schedule("free", "lots"), "spec.schedules[0].free")]
fn a_field_that_cannot_be_read_is_named(#[case] spec: Value, #[case] field: &str) {
    let object = autoscaler(spec);
    let problems = find_field_problems(&object.spec);
    assert_eq!(problems.iter().map(|problem| problem.field.as_str()).collect::<Vec<_>>(), [field]);
    let read = read_autoscaler(&object);
    assert_eq!(read.problems.len(), 1);
    assert_eq!(read.is_unusable, !field.starts_with("spec.schedules"), "a schedule alone is skipped");
}

#[test]
fn a_schedule_that_cannot_be_read_is_skipped_and_the_others_apply() {
    let mut spec = schedule("start", "whenever");
    let other = json!({ "name": "b", "start": "0 8 * * *", "duration": "1h", "free": 1 });
    spec["schedules"].as_array_mut().unwrap().push(other);
    let read = read_autoscaler(&autoscaler(spec));
    assert_eq!(read.schedules.iter().map(|schedule| schedule.name.as_str()).collect::<Vec<_>>(), ["b"]);
}

proptest! {
    #[test]
    fn no_text_in_a_field_panics(start in ".{0,60}", duration in ".{0,20}", zone in ".{0,40}", free in ".{0,10}") {
        let schedules = json!([{ "name": "a", "start": start, "duration": duration, "timeZone": zone, "free": free }]);
        let _ = read_autoscaler(&autoscaler(json!({ "schedules": schedules })));
    }
}

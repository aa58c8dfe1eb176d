use rstest::rstest;
use serde_json::json;

use super::*;

#[test]
fn an_empty_object_has_the_defaults() {
    let policy = parse_healing(&json!({})).unwrap();
    assert_eq!(policy, HealingPolicy::default());
    assert_eq!(policy, parse_healing(&json!({ "notReadyFor": null, "maxUnhealthy": null })).unwrap());
    let minutes = [policy.not_ready_for, policy.start_timeout, policy.replace_stuck_after];
    assert_eq!(minutes.map(|duration| duration.as_secs() / 60), [5, 30, 5]);
}

#[test]
fn all_fields_are_read() {
    let policy = (HEALING_SETTING.parse_annotation)(
        r#"{"notReadyFor": "90s", "startTimeout": "1h", "maxUnhealthy": 3, "replaceStuckAfter": "10m"}"#,
    );
    let wanted = HealingPolicy {
        not_ready_for: Duration::from_secs(90),
        start_timeout: Duration::from_hours(1),
        max_unhealthy: Share::Machines(3),
        replace_stuck_after: Duration::from_mins(10),
    };
    assert_eq!(policy, Ok(wanted));
}

#[rstest]
#[case::a_text(json!("5m"))]
#[case::another_field(json!({ "notReady": "5m" }))]
#[case::an_empty_other_field(json!({ "notReady": null }))]
#[case::a_number_of_seconds(json!({ "notReadyFor": 300 }))]
#[case::no_time(json!({ "notReadyFor": "0s" }))]
#[case::a_negative_time(json!({ "startTimeout": "-5m" }))]
#[case::more_than_a_day(json!({ "replaceStuckAfter": "25h" }))]
#[case::no_machine(json!({ "maxUnhealthy": 0 }))]
#[case::more_than_all(json!({ "maxUnhealthy": "101%" }))]
#[case::a_number_as_text(json!({ "maxUnhealthy": "3" }))]
fn another_value_turns_healing_off_with_a_message(#[case] value: Value) {
    assert!(parse_healing(&value).is_err());
    let mut messages = Vec::new();
    assert_eq!(read_healing(&value, None, &mut messages), None);
    assert!(messages[0].contains("healing is off"), "{messages:?}");
    let annotations = BTreeMap::from([(HEALING.to_owned(), value.to_string())]);
    assert_eq!(read_healing(&Value::Null, Some(&annotations), &mut messages), None);
    assert!(messages[1].starts_with("annotation vmpool.dev/healing: "), "{messages:?}");
}

#[test]
fn the_field_overrides_the_annotation() {
    let annotations = BTreeMap::from([(HEALING.to_owned(), r#"{"maxUnhealthy": 7}"#.to_owned())]);
    let mut messages = Vec::new();
    let mut ceiling = |field: &Value| {
        read_healing(field, Some(&annotations), &mut messages).map(|policy| policy.ceiling(10))
    };
    assert_eq!(ceiling(&json!({ "maxUnhealthy": 2 })), Some(2));
    assert_eq!(ceiling(&Value::Null), Some(7));
    assert_eq!(read_healing(&Value::Null, None, &mut messages), None);
    assert_eq!(messages, Vec::<String>::new());
}

#[rstest]
#[case::rounded_up(json!("40%"), 4, 2)]
#[case::of_one(json!("40%"), 1, 1)]
#[case::of_none(json!("40%"), 0, 1)]
#[case::all(json!("100%"), 7, 7)]
#[case::a_number(json!(3), 100, 3)]
fn the_ceiling_is_rounded_up(#[case] max_unhealthy: Value, #[case] desired: usize, #[case] ceiling: usize) {
    let policy = parse_healing(&json!({ "maxUnhealthy": max_unhealthy })).unwrap();
    assert_eq!(policy.ceiling(desired), ceiling);
}

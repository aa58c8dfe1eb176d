//! Marks, hooks and the setting, as they are stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use super::super::*;
use super::{TIMEOUT, begun, draining, hook, mark, world};
use crate::testing::{fixture_id, observation_time};

#[test]
fn a_mark_that_began_in_the_future_is_written_again() {
    let forged = mark(DrainReason::ScaleDown, -3600);
    let plan = world(2)
        .edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], Some(forged)))
        .plan();
    assert_eq!(begun(&plan), [("web-c", DrainReason::ScaleDown)]);
}

#[test]
fn a_late_deadline_is_the_beginning_and_the_timeout() {
    let now = observation_time();
    let late = DrainMark { deadline: Timestamp::MAX, ..mark(DrainReason::ScaleDown, 30) };
    assert_eq!(late.effective_deadline(now, TIMEOUT), mark(DrainReason::ScaleDown, 30).deadline);
    let raised = Duration::from_hours(2);
    let running = mark(DrainReason::ScaleDown, 30);
    assert_eq!(
        running.effective_deadline(now, raised),
        running.deadline,
        "a raised timeout extends no drain"
    );
}

#[test]
fn two_drains_of_a_machine_have_different_ids() {
    let id = |seconds| {
        let now = observation_time() + SignedDuration::from_secs(seconds);
        DrainMark::begin(&fixture_id("web-a").uid, DrainReason::ScaleDown, now, TIMEOUT).id
    };
    assert_ne!(id(0), id(1));
    assert_eq!(id(0), id(0));
}

fn read(entries: &[(&str, &str)]) -> Option<Arc<Draining>> {
    let annotations: BTreeMap<String, String> =
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Draining::read(Some(&annotations))
}

#[test]
fn hooks_and_the_mark_are_read_from_the_annotations() {
    assert_eq!(read(&[("vmpool.dev/claim", "{}")]), None);
    let mark = mark(DrainReason::Rollout, 30);
    let found =
        read(&[("drain.vmpool.dev/job", "x"), (MARK, &mark.text()), ("drain.vmpool.dex", "")]).unwrap();
    assert_eq!(*found, Draining { hooks: vec![hook("job", "x")], mark: Some(mark) });
}

#[test]
fn an_unreadable_mark_is_no_mark() {
    assert_eq!(read(&[(MARK, "{")]), None);
    assert_eq!(read(&[(MARK, &format!("{{\"id\": \"{}\"}}", "x".repeat(5000)))]), None);
}

#[test]
fn more_hooks_than_the_limit_are_ignored() {
    let keys: Vec<String> = (0..40).map(|number| format!("{HOOK_PREFIX}{number:02}")).collect();
    let entries: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "")).collect();
    assert_eq!(read(&entries).unwrap().hooks.len(), MOST_HOOKS);
}

#[rstest]
#[case::minutes(json!({ "timeout": "90m" }), Some(Duration::from_mins(90)))]
#[case::zero(json!({ "timeout": "0s" }), Some(Duration::ZERO))]
#[case::the_longest(json!({ "timeout": "24h" }), Some(LONGEST_TIMEOUT))]
#[case::too_long(json!({ "timeout": "25h" }), None)]
#[case::negative(json!({ "timeout": "-1s" }), None)]
#[case::no_timeout(json!({}), Some(DEFAULT_TIMEOUT))]
#[case::a_number(json!({ "timeout": 600 }), None)]
#[case::an_unknown_field(json!({ "timeuot": "10m" }), None)]
#[case::no_object(json!("10m"), None)]
fn the_setting_is_an_object_with_a_timeout(
    #[case] value: serde_json::Value,
    #[case] expected: Option<Duration>,
) {
    assert_eq!(parse_drain(&value).ok(), expected);
}

#[test]
fn an_unreadable_setting_is_the_default_with_a_message() {
    let mut messages = Vec::new();
    assert_eq!(read_drain(&json!({ "timeout": "soon" }), None, &mut messages), DEFAULT_TIMEOUT);
    let annotations = BTreeMap::from([(DRAIN.to_owned(), "{".to_owned())]);
    assert_eq!(read_drain(&serde_json::Value::Null, Some(&annotations), &mut messages), DEFAULT_TIMEOUT);
    assert_eq!(messages.len(), 2);
    assert!(messages[0].starts_with("drain: ") && messages[1].starts_with("annotation vmpool.dev/drain: "));
    let annotations = BTreeMap::from([(DRAIN.to_owned(), json!({ "timeout": "1m" }).to_string())]);
    assert_eq!(
        read_drain(&serde_json::Value::Null, Some(&annotations), &mut messages),
        Duration::from_mins(1)
    );
}

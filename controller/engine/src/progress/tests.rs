use std::collections::BTreeMap;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

const DEADLINE: Duration = Duration::from_mins(1);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[expect(clippy::unnecessary_wraps, reason = "the clock observes an optional distance")]
fn missing(missing: usize) -> Option<PoolDistance> {
    Some(PoolDistance { missing, ..PoolDistance::default() })
}

#[rstest]
#[case::by_default(Value::Null, None, DEFAULT_DEADLINE, 0)]
#[case::by_the_field(json!(1), None, at(1), 0)]
#[case::by_the_annotation(Value::Null, Some("1800"), at(1800), 0)]
#[case::the_field_overrides_the_annotation(json!(30), Some("1800"), at(30), 0)]
#[case::zero(json!(0), None, DEFAULT_DEADLINE, 1)]
#[case::negative(json!(-5), None, DEFAULT_DEADLINE, 1)]
#[case::above_the_type(json!(2_147_483_648_u64), None, DEFAULT_DEADLINE, 1)]
#[case::a_text_in_the_field(json!("600"), None, DEFAULT_DEADLINE, 1)]
#[case::a_duration_in_the_annotation(Value::Null, Some("10m"), DEFAULT_DEADLINE, 1)]
#[case::a_sign_in_the_annotation(Value::Null, Some("+600"), DEFAULT_DEADLINE, 1)]
#[case::an_empty_annotation(Value::Null, Some(""), DEFAULT_DEADLINE, 1)]
fn the_deadline_is_read_or_counts_as_the_default(
    #[case] field: Value,
    #[case] annotation: Option<&str>,
    #[case] expected: Duration,
    #[case] messages: usize,
) {
    let annotations =
        annotation.map(|text| BTreeMap::from([(PROGRESS_DEADLINE.to_owned(), text.to_owned())]));
    let mut invalid = Vec::new();
    assert_eq!(read_progress_deadline(&field, annotations.as_ref(), &mut invalid), expected);
    assert_eq!(invalid.len(), messages, "{invalid:?}");
    assert!(invalid.iter().all(|message| message.contains("so the default of 600 applies")), "{invalid:?}");
}

#[test]
fn a_pool_without_progress_is_overdue_at_the_deadline() {
    let mut clock = ProgressClock::default();
    clock.observe(missing(2), at(100));
    assert_eq!(clock.time_left(DEADLINE, at(130)), Some(at(30)));
    assert!(!clock.is_overdue(DEADLINE, at(159)));
    clock.observe(missing(2), at(160));
    assert!(clock.is_overdue(DEADLINE, at(160)));
    assert_eq!(clock.time_left(DEADLINE, at(160)), None, "no timer follows");
}

#[test]
fn progress_starts_the_deadline_again() {
    let mut clock = ProgressClock::default();
    clock.observe(missing(2), at(0));
    clock.observe(missing(1), at(59));
    assert!(!clock.is_overdue(DEADLINE, at(118)));
    assert!(clock.is_overdue(DEADLINE, at(119)));
}

/// For example a machine that becomes ready and crashes, again and again.
#[test]
fn a_distance_that_was_reached_before_is_no_progress() {
    let mut clock = ProgressClock::default();
    clock.observe(missing(2), at(0));
    clock.observe(missing(1), at(10));
    for second in [20, 40, 60] {
        clock.observe(missing(2), at(second));
        clock.observe(missing(1), at(second + 5));
    }
    assert!(clock.is_overdue(DEADLINE, at(70)));
}

#[test]
fn progress_of_one_part_is_enough() {
    let mut clock = ProgressClock::default();
    clock.observe(missing(1), at(0));
    let worse = PoolDistance { missing: 0, unready: 5, outdated: 5, ..PoolDistance::default() };
    clock.observe(Some(worse), at(50));
    assert_eq!(clock.time_left(DEADLINE, at(50)), Some(DEADLINE));
}

#[test]
fn a_clock_that_stopped_begins_with_the_full_deadline() {
    let mut clock = ProgressClock::default();
    clock.observe(missing(1), at(0));
    clock.observe(None, at(59));
    assert_eq!(clock.time_left(DEADLINE, at(59)), None, "a settled pool needs no timer");
    assert!(!clock.is_overdue(DEADLINE, at(1000)));
    clock.observe(missing(1), at(1000));
    assert_eq!(clock.time_left(DEADLINE, at(1000)), Some(DEADLINE));
}

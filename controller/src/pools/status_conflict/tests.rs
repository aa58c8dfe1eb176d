use jiff::Timestamp;
use vmpool_engine::condition::{ConditionType, StatusCondition};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A status with this message in its availability condition.
fn published(message: &str) -> PublishedStatus {
    let condition = |kind: ConditionType, message: &str| StatusCondition {
        kind: kind.to_string(),
        status: "True".to_owned(),
        reason: String::new(),
        message: message.to_owned(),
        last_transition: Timestamp::UNIX_EPOCH,
        observed_generation: None,
    };
    PublishedStatus {
        conditions: vec![condition(ConditionType::Available, message)],
        ..PublishedStatus::default()
    }
}

/// Publishes this controller's status and then another client's, `times` times, a second apart.
fn fight(status_conflict: &mut StatusConflict, times: u64, from: Duration) {
    for time in 0..times {
        status_conflict.wrote(&published("ours"), 10 * time + 1);
        status_conflict.observe(
            &published("theirs"),
            10 * time + 2,
            from + SECOND * u32::try_from(time).unwrap(),
        );
    }
}

#[test]
fn three_overwrites_in_a_row_are_a_conflict_and_two_are_not() {
    let mut status_conflict = StatusConflict::default();
    fight(&mut status_conflict, 2, Duration::ZERO);
    assert!(!status_conflict.is_active() && status_conflict.failure().is_none());
    fight(&mut status_conflict, 1, SECOND * 3);
    assert!(status_conflict.is_active());
    assert_eq!(status_conflict.failure().unwrap().reason, FailureReason::StatusDisputed);
}

#[test]
fn occasional_overwrites_are_no_conflict() {
    let mut status_conflict = StatusConflict::default();
    for time in 0..10 {
        fight(&mut status_conflict, 1, Duration::from_mins(3) * time);
        assert!(!status_conflict.is_active());
    }
}

#[test]
fn a_conflict_ends_after_a_time_without_overwrites() {
    let mut status_conflict = StatusConflict::default();
    fight(&mut status_conflict, 3, Duration::ZERO);
    let last = SECOND * 2;
    status_conflict.wrote(&published("ours"), 100);
    let almost = (last + QUIET).checked_sub(SECOND).unwrap();
    status_conflict.observe(&published("ours"), 100, almost);
    assert!(status_conflict.is_active());
    assert_eq!(status_conflict.remaining(almost), Some(SECOND));
    status_conflict.observe(&published("ours"), 100, last + QUIET);
    assert!(!status_conflict.is_active());
}

#[test]
fn the_conflict_continues_while_the_status_is_overwritten() {
    let mut status_conflict = StatusConflict::default();
    fight(&mut status_conflict, 3, Duration::ZERO);
    for minute in 1..20 {
        fight(&mut status_conflict, 1, INTERVAL * minute);
        assert!(status_conflict.is_active(), "after {minute} minutes");
    }
}

#[test]
fn an_outdated_cache_is_not_an_overwrite() {
    let mut status_conflict = StatusConflict::default();
    for time in 0..10 {
        status_conflict.wrote(&published("new"), 10);
        status_conflict.observe(&published("old"), 9, SECOND * time);
        status_conflict.observe(&published("new"), 11, SECOND * time);
    }
    assert!(!status_conflict.is_active());
}

#[test]
fn conditions_of_other_controllers_are_not_a_conflict() {
    let mut status_conflict = StatusConflict::default();
    for time in 0..10 {
        status_conflict.wrote(&published("ours"), 10);
        let mut more = published("ours");
        more.conditions
            .insert(0, StatusCondition { kind: "Theirs".to_owned(), ..more.conditions[0].clone() });
        status_conflict.observe(&more, 11 + u64::from(time), SECOND * time);
    }
    assert!(!status_conflict.is_active());
}

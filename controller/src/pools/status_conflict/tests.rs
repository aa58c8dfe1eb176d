use jiff::Timestamp;
use vmpool_engine::condition::{ConditionType, StatusCondition};

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// An uptime after the first observation of a pool at which no write of an earlier leader can be late.
const START: Duration = LATE;

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

/// A conflict detection that observed the pool first so long ago that no write of an earlier leader is late.
fn settled() -> StatusConflict {
    let mut status_conflict = StatusConflict::default();
    status_conflict.observe(&published("ours"), 0, Duration::ZERO);
    status_conflict.observe(&published("ours"), 0, START);
    status_conflict
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
    let mut status_conflict = settled();
    fight(&mut status_conflict, 2, START);
    assert!(!status_conflict.is_active() && status_conflict.failure().is_none());
    fight(&mut status_conflict, 1, START + SECOND * 3);
    assert!(status_conflict.is_active());
    assert_eq!(status_conflict.failure().unwrap().reason, FailureReason::StatusDisputed);
}

#[test]
fn occasional_overwrites_are_no_conflict() {
    let mut status_conflict = settled();
    for time in 0..10 {
        fight(&mut status_conflict, 1, START + Duration::from_mins(3) * time);
        assert!(!status_conflict.is_active());
    }
}

#[test]
fn a_conflict_ends_after_a_time_without_overwrites() {
    let mut status_conflict = settled();
    fight(&mut status_conflict, 3, START);
    let last = START + SECOND * 2;
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
    let mut status_conflict = settled();
    fight(&mut status_conflict, 3, START);
    for minute in 1..20 {
        fight(&mut status_conflict, 1, START + INTERVAL * minute);
        assert!(status_conflict.is_active(), "after {minute} minutes");
    }
}

#[test]
fn an_outdated_cache_is_not_an_overwrite() {
    let mut status_conflict = settled();
    for time in 0..10 {
        status_conflict.wrote(&published("new"), 10);
        status_conflict.observe(&published("old"), 9, START + SECOND * time);
        status_conflict.observe(&published("new"), 11, START + SECOND * time);
    }
    assert!(!status_conflict.is_active());
}

#[test]
fn conditions_of_other_controllers_are_not_a_conflict() {
    let mut status_conflict = settled();
    for time in 0..10 {
        status_conflict.wrote(&published("ours"), 10);
        let mut more = published("ours");
        more.conditions
            .insert(0, StatusCondition { kind: "Theirs".to_owned(), ..more.conditions[0].clone() });
        status_conflict.observe(&more, 11 + u64::from(time), START + SECOND * time);
    }
    assert!(!status_conflict.is_active());
}

#[test]
fn a_late_write_of_the_earlier_leader_is_no_overwrite() {
    let mut status_conflict = StatusConflict::default();
    status_conflict.observe(&published("ours"), 0, Duration::ZERO);
    fight(&mut status_conflict, 3, SECOND);
    assert!(!status_conflict.is_active(), "one of the three may be the earlier leader's");
    fight(&mut status_conflict, 1, SECOND * 4);
    assert!(status_conflict.is_active());
}

#[test]
fn writes_whose_responses_were_lost_are_no_overwrites() {
    let mut status_conflict = settled();
    for time in 0..10 {
        let now = START + SECOND * u32::try_from(time).unwrap();
        status_conflict.wrote(&published("ours"), 10 * time + 1);
        status_conflict.lost_response(now);
        status_conflict.observe(&published("ours, next"), 10 * time + 2, now);
        assert!(!status_conflict.is_active(), "after {time} seconds");
    }
}

#[test]
fn a_lost_response_explains_an_overwrite_only_until_the_limit_of_a_request() {
    let mut status_conflict = settled();
    for _ in 0..3 {
        status_conflict.lost_response(START);
    }
    fight(&mut status_conflict, 3, START + LATE);
    assert!(status_conflict.is_active());
}

use jiff::Timestamp;
use rstest::rstest;

use super::{Status, find, is_false, is_true, new, pool, remove, set};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn available(status: Status, second: i64) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
    new(pool::AVAILABLE, status, pool::reason::ALL_REPLICAS_READY, "", second, at(second))
}

#[rstest]
#[case::holds(Some(Status::True), true, false)]
#[case::does_not_hold(Some(Status::False), false, true)]
#[case::unknown_is_neither(Some(Status::Unknown), false, false)]
#[case::absent_is_neither(None, false, false)]
fn truth(#[case] status: Option<Status>, #[case] holds: bool, #[case] fails: bool) {
    let conditions: Vec<_> = status.into_iter().map(|status| available(status, 1)).collect();
    assert_eq!(is_true(&conditions, pool::AVAILABLE), holds);
    assert_eq!(is_false(&conditions, pool::AVAILABLE), fails);
}

#[test]
fn the_transition_time_changes_only_with_the_status() {
    let mut conditions = vec![available(Status::True, 1)];
    let mut same = available(Status::True, 2);
    same.message = "still so".to_owned();
    set(&mut conditions, same);
    let present = find(&conditions, pool::AVAILABLE).unwrap();
    assert_eq!(present.last_transition_time.0, at(1));
    assert_eq!(present.message, "still so");
    assert_eq!(present.observed_generation, Some(2));

    set(&mut conditions, available(Status::False, 3));
    assert_eq!(find(&conditions, pool::AVAILABLE).unwrap().last_transition_time.0, at(3));
}

#[test]
fn set_replaces_the_condition_of_the_same_type() {
    let mut conditions = Vec::new();
    set(&mut conditions, available(Status::True, 1));
    set(&mut conditions, available(Status::False, 2));
    set(&mut conditions, new(pool::SYNCED, Status::True, pool::reason::POOL_SYNCED, "", 2, at(2)));
    let types: Vec<_> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(types, [pool::AVAILABLE, pool::SYNCED]);
}

#[test]
fn remove_returns_whether_the_condition_existed() {
    let mut conditions = vec![available(Status::True, 1)];
    assert!(!remove(&mut conditions, pool::PROGRESSING));
    assert!(remove(&mut conditions, pool::AVAILABLE));
    assert!(conditions.is_empty());
}

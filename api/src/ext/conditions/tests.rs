use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rstest::rstest;

use super::{find_condition, is_true, pool};

fn available(status: &str) -> Condition {
    Condition {
        type_: pool::AVAILABLE.to_owned(),
        status: status.to_owned(),
        reason: pool::reason::ALL_REPLICAS_READY.to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

#[rstest]
#[case::a_true_condition(Some("True"), true)]
#[case::a_false_condition(Some("False"), false)]
#[case::unknown_is_not_true(Some("Unknown"), false)]
#[case::a_missing_condition_is_not_true(None, false)]
fn only_the_status_true_is_true(#[case] status: Option<&str>, #[case] expected: bool) {
    let conditions: Vec<_> = status.map(available).into_iter().collect();
    assert_eq!(is_true(&conditions, pool::AVAILABLE), expected);
}

#[test]
fn a_condition_is_found_by_its_type() {
    let conditions = [available("False")];
    assert_eq!(find_condition(&conditions, pool::AVAILABLE), conditions.first());
    assert_eq!(find_condition(&conditions, pool::PROGRESSING), None);
}

use rstest::rstest;
use serde_json::json;

use super::choose_request_time;

#[rstest]
#[case::an_old_machine("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case::a_machine_of_this_second("2026-01-02T00:00:00Z", "2026-01-02T00:00:01Z")]
#[case::a_clock_that_is_ahead("2026-01-02T00:01:00Z", "2026-01-02T00:01:01Z")]
fn a_request_is_later_than_the_creation_of_the_machine(#[case] created: &str, #[case] expected: &str) {
    let machine = json!({ "metadata": { "creationTimestamp": created } });
    assert_eq!(choose_request_time(&machine, "2026-01-02T00:00:00Z".parse().unwrap()), expected);
}

use rstest::rstest;

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// The response of second 1000 to a request that was sent at the uptime 100.
fn known_clock() -> ServerClock {
    ServerClock::of_response(second(1000), Duration::from_secs(100))
}

#[rstest]
#[case::the_created_object(1000, 100, 1)]
#[case::the_created_object_after_a_slow_create(1000, 160, 61)]
#[case::an_older_object(400, 100, 601)]
#[case::an_older_object_later(400, 700, 1201)]
#[case::an_object_that_is_created_later(1300, 400, 1)]
#[case::an_object_of_the_future(2000, 100, 0)]
#[case::an_uptime_before_the_request(1000, 0, 1)]
fn the_longest_time_since_a_creation(#[case] created: i64, #[case] uptime: u64, #[case] expected: u64) {
    let longest = known_clock().longest_since(second(created), Duration::from_secs(uptime));
    assert_eq!(longest, Duration::from_secs(expected));
}

#[test]
fn no_time_is_too_far_away() {
    let first = ServerClock::of_response(Timestamp::MIN, Duration::ZERO);
    assert_eq!(first.longest_since(Timestamp::MAX, Duration::ZERO), Duration::ZERO);
    let last = ServerClock::of_response(Timestamp::MAX, Duration::ZERO);
    assert!(last.longest_since(Timestamp::MIN, Duration::MAX) > Duration::from_hours(1_000_000));
}

use http::HeaderValue;
use rstest::rstest;

use super::*;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[rstest]
#[case::of_the_api_server("Sun, 29 Nov 2026 16:53:57 GMT", Some(1_795_971_237))]
#[case::empty("", None)]
#[case::no_date("tomorrow", None)]
#[case::no_text("\u{ff}", None)]
#[case::a_day_that_does_not_exist("Sun, 31 Nov 2026 16:53:57 GMT", None)]
#[case::far_away("Sun, 29 Nov 99999 16:53:57 GMT", None)]
fn the_date_of_a_response(#[case] text: &str, #[case] expected: Option<i64>) {
    let mut headers = HeaderMap::new();
    assert_eq!(date_of(&headers), None);
    headers.insert(header::DATE, HeaderValue::from_bytes(text.as_bytes()).expect("it is a header"));
    assert_eq!(date_of(&headers), expected.map(second));
}

#[test]
fn a_slow_response_counts_only_if_it_is_the_first() {
    let clock = SharedServerClock::default();
    clock.observe(second(1000), seconds(10), seconds(40));
    let slow = ServerClock::of_response(second(1000), seconds(10));
    assert_eq!(clock.get(), Some(slow));
    clock.observe(second(2000), seconds(50), seconds(52));
    assert_eq!(clock.get(), Some(slow), "a slow one does not replace it");
    clock.observe(second(1045), seconds(55), seconds(56));
    assert_eq!(clock.get(), Some(ServerClock::of_response(second(1045), seconds(55))));
}

use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::parse;

#[rstest]
#[case::seconds("15s", 15_000_000_000)]
#[case::several_units("1h2m3s4ms", 3_723_004_000_000)]
#[case::fractions("1.5s", 1_500_000_000)]
#[case::a_fraction_without_a_whole(".5m", 30_000_000_000)]
#[case::milliseconds_are_not_minutes("500ms", 500_000_000)]
#[case::microseconds("250us", 250_000)]
#[case::microseconds_in_greek("250µs", 250_000)]
#[case::nanoseconds("7ns", 7)]
#[case::zero_needs_no_unit("0", 0)]
#[case::zero_with_unit("0s", 0)]
fn reads(#[case] text: &str, #[case] nanos: u64) {
    assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)));
}

#[rstest]
#[case::no_unit("15", "`15` lacks a unit: write for example `15s`")]
#[case::nothing("", "`` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::words("soon", "`soon` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::negative("-5s", "`-5s` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::an_unknown_unit("2d", "`2d` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::a_unit_alone("s", "`s` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::a_number_at_the_end("1m30", "`1m30` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::two_points("1.2.3s", "`1.2.3s` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::blanks("1 s", "`1 s` is not a duration: write for example `15s`, `1m30s` or `500ms`")]
#[case::too_long("99999999999999999999h", "`99999999999999999999h` is too long a duration")]
fn refuses(#[case] text: &str, #[case] message: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), message);
}

proptest! {
    #[test]
    fn whole_milliseconds_are_exact(millis in 0_u64..1_000_000_000) {
        prop_assert_eq!(parse(&format!("{millis}ms")), Ok(Duration::from_millis(millis)));
    }
}

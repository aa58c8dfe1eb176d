use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::{DurationError, GoDuration};

const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;

#[rstest]
#[case::hours_and_minutes("1h30m", 5400 * S, "1h30m0s")]
#[case::seconds_beyond_a_minute("90s", 90 * S, "1m30s")]
#[case::a_fraction("1.5h", 5400 * S, "1h30m0s")]
#[case::milliseconds("300ms", 300 * MS, "300ms")]
#[case::no_digit_before_the_point(".5s", 500 * MS, "500ms")]
#[case::no_digit_after_the_point("1.s", S, "1s")]
#[case::a_plus("+2s", 2 * S, "2s")]
#[case::negative("-5m", -300 * S, "-5m0s")]
#[case::zero_needs_no_unit("0", 0, "0s")]
#[case::zero("0h", 0, "0s")]
#[case::micro_sign("1\u{b5}s", 1_000, "1\u{b5}s")]
#[case::greek_mu("1\u{3bc}s", 1_000, "1\u{b5}s")]
#[case::us("1.5us", 1_500, "1.5\u{b5}s")]
#[case::nanoseconds("7ns", 7, "7ns")]
#[case::units_in_any_order("1s1h", 3601 * S, "1h0m1s")]
#[case::fractions_of_a_nanosecond_are_truncated("1.9ns", 1, "1ns")]
#[case::many_decimals("0.33333333333333333333h", 1_199_999_999_999, "19m59.999999999s")]
#[case::the_longest("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s")]
fn reads_what_go_reads(#[case] text: &str, #[case] nanos: i64, #[case] canonical: &str) {
    let duration: GoDuration = text.parse().unwrap();
    assert_eq!(duration.as_nanos(), nanos);
    assert_eq!(duration.to_string(), canonical);
}

#[rstest]
#[case::empty("", "a duration must not be empty; write for example 30m")]
#[case::a_word(
    "soon",
    r#""soon" is not a duration: "soon" should begin with a number; write for example 1h30m"#
)]
#[case::a_sign_alone("-", r#""-" is not a duration: "" should begin with a number; write for example 1h30m"#)]
#[case::a_point_alone(
    ".s",
    r#"".s" is not a duration: ".s" should begin with a number; write for example 1h30m"#
)]
#[case::two_points(
    "1.2.3s",
    r#""1.2.3s" is not a duration: "1.2.3s" should begin with a number; write for example 1h30m"#
)]
#[case::no_unit("30", r#""30" is not a duration: 30 has no unit; units are ns, us, ms, s, m and h"#)]
#[case::days("1d", r#""1d" is not a duration: "d" is no unit; units are ns, us, ms, s, m and h"#)]
#[case::a_space("1 h", r#""1 h" is not a duration: " h" is no unit; units are ns, us, ms, s, m and h"#)]
#[case::a_sign_inside(
    "1h-5m",
    r#""1h-5m" is not a duration: "h-" is no unit; units are ns, us, ms, s, m and h"#
)]
#[case::too_long("2562048h", r#"the duration "2562048h" is longer than 292 years"#)]
#[case::too_many_digits(
    "99999999999999999999h",
    r#"the duration "99999999999999999999h" is longer than 292 years"#
)]
fn says_what_is_wrong(#[case] text: &str, #[case] message: &str) {
    assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), message);
}

#[rstest]
#[case::negative("-5m")]
#[case::zero("0s")]
fn parse_positive_refuses_zero_and_negative_durations(#[case] text: &str) {
    let error = GoDuration::parse_positive(text).unwrap_err();
    assert_eq!(error, DurationError::NotPositive { text: text.to_owned() });
    assert_eq!(GoDuration::parse_positive("1ns"), Ok(GoDuration::from_nanos(1)));
}

#[test]
fn converts_to_and_from_the_standard_library() {
    assert_eq!(GoDuration::try_from(Duration::from_secs(90)).unwrap().to_string(), "1m30s");
    assert_eq!("90s".parse::<GoDuration>().unwrap().to_std(), Some(Duration::from_secs(90)));
    assert_eq!("-1s".parse::<GoDuration>().unwrap().to_std(), None);
    assert!(GoDuration::try_from(Duration::MAX).is_err());
}

#[test]
fn serializes_to_json_and_back() {
    let duration: GoDuration = serde_json::from_str(r#""1h30m""#).unwrap();
    assert_eq!(serde_json::to_string(&duration).unwrap(), r#""1h30m0s""#);
    assert!(serde_json::from_str::<GoDuration>(r#""soon""#).is_err());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(nanos in -i64::MAX..=i64::MAX) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse::<GoDuration>(), Ok(duration));
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+]?([0-9.]{0,25}[a-zµ]{0,2}){0,4}") {
        let _ = text.parse::<GoDuration>();
    }
}

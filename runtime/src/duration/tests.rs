use std::time::Duration;

use rstest::rstest;

use super::parse_duration;

#[rstest]
#[case::seconds("15s", 15_000)]
#[case::several_units("1h2m3s4ms", 3_723_004)]
#[case::a_fraction("1.5s", 1_500)]
#[case::zero_needs_no_unit("0", 0)]
fn durations_in_the_syntax_of_go_are_accepted(#[case] text: &str, #[case] millis: u64) {
    assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
}

#[rstest]
#[case::no_unit("15", r#""15" is not a duration: 15 has no unit; units are ns, us, ms, s, m and h"#)]
#[case::negative("-5s", r#"the duration "-5s" must not be negative"#)]
fn other_texts_are_refused(#[case] text: &str, #[case] message: &str) {
    assert_eq!(parse_duration(text).unwrap_err().to_string(), message);
}

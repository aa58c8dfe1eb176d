use super::*;
use rstest::rstest;

#[rstest]
#[case::milliseconds("200ms", 200)]
#[case::several_units("1m30s", 90_000)]
#[case::a_fraction("1.5s", 1500)]
#[case::zero("0", 0)]
fn go_durations_are_parsed(#[case] text: &str, #[case] millis: u64) {
    assert_eq!(text.parse(), Ok(Delay::After(Duration::from_millis(millis))));
}

#[rstest]
#[case::no_unit("5")]
#[case::empty("")]
#[case::a_sign("-5s")]
#[case::an_unknown_unit("5d")]
#[case::only_a_unit("s")]
fn invalid_go_durations_are_rejected(#[case] text: &str) {
    assert_eq!(text.parse::<Delay>(), Err(DelayError::NotADuration(text.to_owned())));
}

#[test]
fn never_is_longer_than_every_duration() {
    assert_eq!("never".parse(), Ok(Delay::Never));
    assert_eq!(Delay::Never.at_most(Duration::from_secs(1)), Delay::Never);
    assert_eq!(
        Delay::After(Duration::from_secs(9)).at_most(Duration::from_secs(1)),
        Delay::After(Duration::from_secs(1))
    );
}

#[test]
fn a_duration_of_centuries_is_rejected() {
    assert!(matches!("99999999h".parse::<Delay>(), Err(DelayError::TooLong(_))));
}

use jiff::civil::DateTime;
use proptest::prelude::*;
use rstest::rstest;

use super::{CronError, CronExpression};

fn time(text: &str) -> DateTime {
    text.parse().unwrap()
}

/// 2026-11-27 is a Friday.
#[rstest]
#[case::each_minute("* * * * *", "2026-11-27T10:00:30", "2026-11-27T10:00", "2026-11-27T10:01")]
#[case::a_daily_time("30 7 * * *", "2026-11-27T07:29", "2026-11-26T07:30", "2026-11-27T07:30")]
#[case::the_time_itself("30 7 * * *", "2026-11-27T07:30", "2026-11-27T07:30", "2026-11-27T07:30")]
#[case::workdays("0 8 * * mon-fri", "2026-11-28T12:00", "2026-11-27T08:00", "2026-11-30T08:00")]
#[case::sunday_is_zero("0 8 * * 0", "2026-11-27T12:00", "2026-11-22T08:00", "2026-11-29T08:00")]
#[case::sunday_is_seven("0 8 * * 7", "2026-11-27T12:00", "2026-11-22T08:00", "2026-11-29T08:00")]
#[case::steps("*/15 9-17/4 * * *", "2026-11-27T10:00", "2026-11-27T09:45", "2026-11-27T13:00")]
#[case::lists("5,10 3 * * *", "2026-11-27T03:07", "2026-11-27T03:05", "2026-11-27T03:10")]
#[case::either_day("0 0 13 * FRI", "2026-11-26T00:00", "2026-11-20T00:00", "2026-11-27T00:00")]
#[case::a_step_from_a_star_restricts_no_day(
    "0 0 */2 * MON",
    "2026-11-27T00:00",
    "2026-11-23T00:00",
    "2026-12-07T00:00"
)]
#[case::the_first_of_a_month("0 0 1 JAN *", "2026-11-27T00:00", "2026-01-01T00:00", "2027-01-01T00:00")]
#[case::a_leap_day("0 0 29 2 *", "2026-11-27T00:00", "2024-02-29T00:00", "2028-02-29T00:00")]
fn an_expression_has_its_times(
    #[case] text: &str,
    #[case] now: &str,
    #[case] last: &str,
    #[case] next: &str,
) {
    let expression = CronExpression::parse(text).unwrap();
    assert_eq!(expression.last_at_or_before(time(now)), Some(time(last)));
    assert_eq!(expression.first_at_or_after(time(now)), Some(time(next)));
}

#[rstest]
#[case::too_few_fields("0 8 * *")]
#[case::seconds("0 0 8 * * *")]
#[case::a_macro("@daily")]
#[case::a_minute_too_large("60 * * * *")]
#[case::an_hour_too_large("0 24 * * *")]
#[case::day_zero("0 0 0 * *")]
#[case::a_backward_range("0 17-9 * * *")]
#[case::a_step_of_zero("*/0 * * * *")]
#[case::an_empty_part("0,,5 * * * *")]
#[case::a_sign("+5 * * * *")]
#[case::an_unknown_name("0 0 * * someday")]
#[case::nothing("")]
fn other_texts_are_refused(#[case] text: &str) {
    assert!(CronExpression::parse(text).is_err(), "{text:?}");
}

#[test]
fn a_date_that_never_comes_is_refused() {
    assert_eq!(CronExpression::parse("0 0 30 2 *"), Err(CronError::Never));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[-*/, 0-9a-z]{0,40}") {
        let _ = CronExpression::parse(&text);
    }

    #[test]
    fn the_last_time_and_the_next_time_enclose_each_time(
        minute in 0u8..60, hour in 0u8..24, day in 0u8..7,
        at in 0i64..4_000_000_000,
    ) {
        let expression = CronExpression::parse(&format!("{minute} {hour} * * {day}")).unwrap();
        let now = jiff::Timestamp::from_second(at).unwrap().to_zoned(jiff::tz::TimeZone::UTC).datetime();
        let last = expression.last_at_or_before(now).unwrap();
        let next = expression.first_at_or_after(now).unwrap();
        prop_assert!(last <= now && now <= next);
        prop_assert_eq!(expression.first_at_or_after(last), Some(last));
        prop_assert_eq!(expression.last_at_or_before(next), Some(next));
    }
}

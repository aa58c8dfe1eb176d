use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;

use super::{LimitChanges, ScalingSchedule, find_time_zone};
use crate::cron::CronExpression;

fn schedule(start: &str, minutes: u64, zone: &str) -> ScalingSchedule {
    ScalingSchedule {
        name: "sample".to_owned(),
        start: CronExpression::parse(start).unwrap(),
        duration: Duration::from_mins(minutes),
        zone: find_time_zone(zone).unwrap(),
        changes: LimitChanges::default(),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Berlin sets clocks forward on 2026-03-29 at 01:00 UTC, and back on 2026-10-25 at 01:00 UTC.
#[rstest]
#[case::before_the_start("30 7 * * *", 60, "UTC", "2026-11-27T07:29:59Z", false)]
#[case::at_the_start("30 7 * * *", 60, "UTC", "2026-11-27T07:30:00Z", true)]
#[case::before_the_end("30 7 * * *", 60, "UTC", "2026-11-27T08:29:59Z", true)]
#[case::at_the_end("30 7 * * *", 60, "UTC", "2026-11-27T08:30:00Z", false)]
#[case::in_winter("30 7 * * *", 60, "Europe/Berlin", "2026-01-10T06:30:00Z", true)]
#[case::in_summer("30 7 * * *", 60, "Europe/Berlin", "2026-07-10T05:30:00Z", true)]
#[case::over_midnight("0 20 * * *", 600, "Europe/Berlin", "2026-07-11T03:59:00Z", true)]
#[case::before_a_skipped_time("30 2 * * *", 30, "Europe/Berlin", "2026-03-29T00:59:59Z", false)]
#[case::a_skipped_time_starts_after_the_gap("30 2 * * *", 30, "Europe/Berlin", "2026-03-29T01:00:00Z", true)]
#[case::and_lasts_its_duration("30 2 * * *", 30, "Europe/Berlin", "2026-03-29T01:30:00Z", false)]
#[case::the_first_of_a_repeated_time("30 2 * * *", 30, "Europe/Berlin", "2026-10-25T00:30:00Z", true)]
#[case::elapsed_time_counts("30 2 * * *", 50, "Europe/Berlin", "2026-10-25T01:10:00Z", true)]
#[case::the_second_does_not_start("30 2 * * *", 30, "Europe/Berlin", "2026-10-25T01:45:00Z", false)]
#[case::elapsed_time_over_a_gap("30 1 * * *", 60, "Europe/Berlin", "2026-03-29T01:29:00Z", true)]
#[case::and_its_end("30 1 * * *", 60, "Europe/Berlin", "2026-03-29T01:30:00Z", false)]
fn a_schedule_is_active_for_its_duration(
    #[case] start: &str,
    #[case] minutes: u64,
    #[case] zone: &str,
    #[case] now: &str,
    #[case] active: bool,
) {
    assert_eq!(schedule(start, minutes, zone).is_active(at(now)), active);
}

#[rstest]
#[case::the_next_start("2026-11-27T07:00:00Z", "2026-11-27T07:30:00Z")]
#[case::the_end("2026-11-27T07:30:00Z", "2026-11-27T08:30:00Z")]
#[case::the_start_of_tomorrow("2026-11-27T08:30:00Z", "2026-11-28T07:30:00Z")]
fn the_next_change_is_a_start_or_an_end(#[case] now: &str, #[case] next: &str) {
    assert_eq!(schedule("30 7 * * *", 60, "UTC").next_change(at(now)), Some(at(next)));
}

#[rstest]
#[case("Europe/Berlin", true)]
#[case("America/Argentina/Buenos_Aires", true)]
#[case("UTC", true)]
#[case("Mars/Olympus", false)]
#[case("../../etc/passwd", false)]
#[case("", false)]
fn a_time_zone_has_a_name_of_the_database(#[case] name: &str, #[case] known: bool) {
    assert_eq!(find_time_zone(name).is_some(), known);
}

#[rstest]
fn a_time_at_an_end_of_the_calendar_does_not_panic(
    #[values("UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/New_York")] zone: &str,
    #[values("* * * * *", "0 0 29 2 *", "59 23 31 12 *")] start: &str,
    #[values(Timestamp::MIN, Timestamp::MAX)] now: Timestamp,
) {
    let sample = schedule(start, 60, zone);
    let _ = sample.is_active(now);
    assert!(sample.next_change(now).is_none_or(|next| next > now));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is active changes at the announced times only.
    #[test]
    fn nothing_changes_before_the_next_change(
        at in 1_700_000_000i64..1_900_000_000,
        hour in 0u8..24,
        minutes in 1u64..3000,
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Australia/Lord_Howe"]),
    ) {
        let schedule = schedule(&format!("15 {hour} * * *"), minutes, zone);
        let now = Timestamp::from_second(at).unwrap();
        let next = schedule.next_change(now).unwrap();
        prop_assert!(next > now);
        let step = (next.as_second() - at) / 7;
        for part in 0..7 {
            let between = Timestamp::from_second(at + step * part).unwrap();
            prop_assert_eq!(schedule.is_active(between), schedule.is_active(now));
        }
    }
}

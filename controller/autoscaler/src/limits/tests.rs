use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{AutoscaledPool, AutoscalerSettings, DEFAULT_DELAY, ReplicaLimits};
use crate::cron::CronExpression;
use crate::demand::FreeMachines;
use crate::schedule::{LimitChanges, ScalingSchedule};

fn schedule(name: &str, start: &str, changes: LimitChanges) -> ScalingSchedule {
    let start = CronExpression::parse(start).unwrap();
    let duration = Duration::from_hours(2);
    ScalingSchedule { name: name.to_owned(), start, duration, zone: TimeZone::UTC, changes }
}

fn settings() -> AutoscalerSettings {
    AutoscalerSettings {
        pool: AutoscaledPool { group: String::new(), kind: String::new(), name: "p".to_owned() },
        limits: ReplicaLimits { min: 1, max: 10, free: FreeMachines::Machines(2) },
        delay: DEFAULT_DELAY,
        schedules: vec![
            schedule("first", "0 8 * * *", LimitChanges { min: Some(5), max: Some(7), free: None }),
            schedule("last", "0 9 * * *", LimitChanges { min: Some(6), max: None, free: None }),
        ],
        paused: false,
        problems: Vec::new(),
        is_unusable: false,
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn without_an_active_schedule_the_limits_of_the_autoscaler_apply() {
    let effect = settings().limits_at(at("2026-11-27T07:00:00Z"));
    assert_eq!((effect.limits, effect.schedule), (settings().limits, None));
}

#[test]
fn the_last_listed_active_schedule_wins_field_by_field() {
    let effect = settings().limits_at(at("2026-11-27T09:30:00Z"));
    assert_eq!(effect.limits, ReplicaLimits { min: 6, max: 7, free: FreeMachines::Machines(2) });
    assert_eq!(effect.schedule.as_deref(), Some("last"));
}

#[test]
fn the_next_change_is_that_of_any_schedule() {
    let next = settings().next_change(at("2026-11-27T08:30:00Z"));
    assert_eq!(next, Some(at("2026-11-27T09:00:00Z")));
}

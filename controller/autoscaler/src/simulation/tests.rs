use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{
    LONGEST_REPLAY, RecordedClaim, ReplayError, ReplayResult, ReplayedDemand, parse_recorded_claims,
    render_svg,
};
use crate::demand::FreeMachines;
use crate::limits::{AutoscaledPool, AutoscalerSettings, ReplicaLimits};

mod guides;
mod hpa;

fn settings(max: u32, free: u32) -> AutoscalerSettings {
    AutoscalerSettings {
        pool: AutoscaledPool { group: String::new(), kind: String::new(), name: "p".to_owned() },
        limits: ReplicaLimits { min: 0, max, free: FreeMachines::Machines(free) },
        delay: Duration::from_mins(5),
        schedules: Vec::new(),
        paused: false,
        problems: Vec::new(),
        is_unusable: false,
    }
}

fn claims(of: &[(i64, u64)]) -> Vec<RecordedClaim> {
    let claim = |(at, duration): &(i64, u64)| RecordedClaim {
        at: Timestamp::from_second(1_800_000_000 + at).unwrap(),
        duration: Duration::from_secs(*duration),
    };
    of.iter().map(claim).collect()
}

const START: Duration = Duration::from_mins(1);

fn replay_demand(
    settings: &AutoscalerSettings,
    claims: &[RecordedClaim],
    start_time: Duration,
) -> Result<ReplayResult, ReplayError> {
    let demand = ReplayedDemand { claims, start_time, from: None, until: None };
    super::replay_demand(settings, &demand)
}

#[test]
fn a_claim_from_zero_waits_for_the_start_of_a_machine() {
    let result = replay_demand(&settings(5, 0), &claims(&[(0, 600)]), START).unwrap();
    assert_eq!((result.claims, result.unanswered), (1, 0));
    assert_eq!((result.wait_seconds_p50, result.wait_seconds_p95), (60, 60));
    assert_eq!((result.raises, result.lowerings, result.most_replicas), (1, 1, 1));
}

#[test]
fn free_machines_answer_claims_at_once_and_cost_idle_hours() {
    let demand = claims(&[(0, 600), (1000, 600), (2000, 600)]);
    let without = replay_demand(&settings(5, 0), &demand, START).unwrap();
    let with = replay_demand(&settings(5, 1), &demand, START).unwrap();
    assert_eq!((without.wait_seconds_p50, with.wait_seconds_p50), (60, 0));
    assert!(with.idle_machine_hours > without.idle_machine_hours);
}

#[test]
fn claims_beyond_the_largest_number_wait_for_a_machine() {
    let result = replay_demand(&settings(1, 0), &claims(&[(0, 100), (0, 100)]), START).unwrap();
    assert_eq!((result.wait_seconds_p50, result.wait_seconds_p95), (60, 160));
    assert_eq!(result.most_replicas, 1);
}

#[test]
fn a_demand_that_is_empty_or_too_long_is_refused() {
    let too_long = i64::try_from(LONGEST_REPLAY.as_secs()).unwrap() + 1;
    assert_eq!(replay_demand(&settings(1, 0), &[], START), Err(ReplayError::Empty));
    let demand = claims(&[(0, 1), (too_long, 1)]);
    assert_eq!(replay_demand(&settings(1, 0), &demand, START), Err(ReplayError::TooLong));
}

#[test]
fn numbers_that_are_too_large_are_refused() {
    let demand = claims(&[(0, u64::MAX)]);
    assert_eq!(replay_demand(&settings(1, 0), &demand, START), Err(ReplayError::TooLong));
    let demand = claims(&[(0, 1)]);
    let forever = Duration::from_secs(u64::MAX);
    assert_eq!(replay_demand(&settings(1, 0), &demand, forever), Err(ReplayError::TooLong));
}

#[test]
fn a_replay_has_the_machines_of_the_time_before_and_after_the_claims() {
    let claims = claims(&[(3600, 600)]);
    let begin = Timestamp::from_second(1_800_000_000).unwrap();
    let (from, until) = (Some(begin), begin.checked_add(Duration::from_hours(3)).ok());
    let demand = ReplayedDemand { claims: &claims, start_time: START, from, until };
    let result = super::replay_demand(&settings(5, 1), &demand).unwrap();
    assert_eq!((result.wait_seconds_p95, result.unanswered), (0, 0), "the free machine exists before");
    assert!((result.idle_machine_hours - 3.0).abs() < 0.2, "{}", result.idle_machine_hours);

    let outside = ReplayedDemand { from: until, until: None, ..demand };
    assert_eq!(super::replay_demand(&settings(5, 1), &outside), Err(ReplayError::Outside));
    let outside = ReplayedDemand { from: None, until: Some(begin), ..demand };
    assert_eq!(super::replay_demand(&settings(5, 1), &outside), Err(ReplayError::Outside));
}

#[test]
fn a_history_is_read_in_the_order_of_time() {
    let text = r#"[{"at":"2026-11-27T08:10:00Z","durationSeconds":60},{"at":"2026-11-27T08:00:00Z","durationSeconds":5}]"#;
    let durations: Vec<u64> =
        parse_recorded_claims(text).unwrap().iter().map(|claim| claim.duration.as_secs()).collect();
    assert_eq!(durations, [5, 60]);
    for text in ["", "{}", r#"[{"at":"soon","durationSeconds":1}]"#, r#"[{"at":"2026-11-27T08:10:00Z"}]"#] {
        assert!(parse_recorded_claims(text).is_err(), "{text}");
    }
}

#[test]
fn the_plot_has_a_line_for_each_number() {
    let result = replay_demand(&settings(5, 1), &claims(&[(0, 600)]), START).unwrap();
    let svg = render_svg(&result);
    assert_eq!(svg.matches("<polyline").count(), 3);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn each_claim_is_answered_if_the_pool_may_grow(
        mut demand in prop::collection::vec((0i64..2000, 1u64..500), 1..30), free in 0u32..4,
    ) {
        demand.sort_unstable();
        let result = replay_demand(&settings(100, free), &claims(&demand), START).unwrap();
        prop_assert_eq!(result.unanswered, 0);
        prop_assert!(result.wait_seconds_p50 <= result.wait_seconds_p95);
        prop_assert!(result.wait_seconds_p95 <= 60, "{}", result.wait_seconds_p95);
    }
}

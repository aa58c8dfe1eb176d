use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;

use super::{Explanation, LimitReached, ScaleDecision, compute_desired, decide_scale};
use crate::demand::{Demand, FreeMachines};
use crate::history::{DesiredHistory, Moment};
use crate::limits::ReplicaLimits;

fn limits(min: u32, max: u32, free: u32) -> ReplicaLimits {
    ReplicaLimits { min, max, free: FreeMachines::Machines(free) }
}

#[rstest]
#[case::nothing(limits(0, 10, 0), 0, 0, 0, LimitReached::No)]
#[case::free_machines(limits(0, 10, 2), 0, 0, 2, LimitReached::No)]
#[case::the_sum(limits(0, 10, 2), 4, 1, 7, LimitReached::No)]
#[case::at_least_min(limits(5, 10, 0), 1, 0, 5, LimitReached::Min)]
#[case::at_most_max(limits(0, 10, 2), 8, 3, 10, LimitReached::Max)]
#[case::busy_machines_stay_beyond_max(limits(0, 3, 2), 8, 3, 8, LimitReached::Max)]
#[case::max_holds_over_min(limits(9, 3, 0), 0, 0, 3, LimitReached::Max)]
#[case::exactly_max(limits(0, 10, 2), 8, 0, 10, LimitReached::No)]
#[case::huge_numbers(limits(0, u32::MAX, u32::MAX), u32::MAX, u32::MAX, u32::MAX, LimitReached::No)]
fn the_demand_needs_machines_within_the_limits(
    #[case] limits: ReplicaLimits,
    #[case] busy: u32,
    #[case] waiting: u32,
    #[case] replicas: u32,
    #[case] limited: LimitReached,
) {
    let desired = compute_desired(limits, Demand { busy, waiting });
    assert_eq!((desired.replicas, desired.limited), (replicas, limited));
}

#[rstest]
#[case::rounded_up(20, 11, 3)]
#[case::at_least_one(20, 0, 1)]
#[case::ten_times(1000, 7, 70)]
#[case::one_percent(1, 101, 2)]
fn a_percentage_is_one_of_the_busy_machines(#[case] percent: u16, #[case] busy: u32, #[case] free: u32) {
    assert_eq!(FreeMachines::Percent(percent).count(busy), free);
}

#[test]
fn the_numbers_are_one_sentence() {
    let demand = Demand { busy: 4, waiting: 1 };
    let desired = compute_desired(limits(0, 10, 2), demand);
    let mut explanation = Explanation { demand, desired, schedule: None };
    assert_eq!(explanation.to_string(), "4 busy, 1 waiting, 2 free wanted: 7");
    explanation.desired = compute_desired(limits(0, 6, 2), demand);
    explanation.schedule = Some("night".to_owned());
    let text = "4 busy, 1 waiting, 2 free wanted: 6, limited by maxReplicas, schedule night";
    assert_eq!(explanation.to_string(), text);
}

const DELAY: Duration = Duration::from_mins(5);

fn moment(seconds: u64) -> Moment {
    let now = Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    Moment { now, uptime: Duration::from_secs(seconds) }
}

fn decide(history: &mut DesiredHistory, at: u64, replicas: u32, busy: u32) -> ScaleDecision {
    let desired = compute_desired(limits(0, 100, 1), Demand { busy, waiting: 0 });
    history.record(moment(at), desired.replicas);
    decide_scale(replicas, desired, history, DELAY)
}

#[test]
fn the_controller_raises_at_once_and_lowers_after_the_delay() {
    let mut history = DesiredHistory::begin(moment(0));
    assert_eq!(decide(&mut history, 0, 0, 4), ScaleDecision::Raise(5));
    assert_eq!(decide(&mut history, 100, 5, 1), ScaleDecision::Keep);
    assert_eq!(decide(&mut history, 200, 5, 2), ScaleDecision::Keep);
    assert_eq!(decide(&mut history, 400, 5, 1), ScaleDecision::Lower(3));
    assert_eq!(decide(&mut history, 700, 3, 1), ScaleDecision::Lower(2));
}

proptest! {
    /// I18: no decision goes below the busy machines, and none beyond both limits and demand.
    #[test]
    fn no_decision_is_below_the_busy_machines(
        min in 0u32..20, max in 0u32..20, free in 0u32..5, replicas in 0u32..40,
        steps in prop::collection::vec((0u64..400, 0u32..30, 0u32..10), 1..30),
    ) {
        let (mut history, mut at, mut replicas) = (DesiredHistory::begin(moment(0)), 0, replicas);
        for (after, busy, waiting) in steps {
            at += after;
            let limits = limits(min, max, free);
            let desired = compute_desired(limits, Demand { busy, waiting });
            prop_assert!(desired.replicas >= busy);
            prop_assert!(desired.replicas <= max.max(busy));
            prop_assert!(desired.replicas >= min.min(max));
            history.record(moment(at), desired.replicas);
            match decide_scale(replicas, desired, &mut history, DELAY) {
                ScaleDecision::Keep => {}
                ScaleDecision::Raise(to) => {
                    prop_assert!(to > replicas && to == desired.replicas);
                    replicas = to;
                }
                ScaleDecision::Lower(to) => {
                    prop_assert!(to < replicas && to >= desired.replicas && to >= busy);
                    prop_assert!(at >= DELAY.as_secs());
                    replicas = to;
                }
            }
        }
    }

    /// More demand never needs fewer machines.
    #[test]
    fn the_desired_number_grows_with_the_demand(
        min in 0u32..20, max in 0u32..20, percent in 1u16..1000, busy in 0u32..50, waiting in 0u32..20,
    ) {
        let limits = ReplicaLimits { min, max, free: FreeMachines::Percent(percent) };
        let desired = |busy, waiting| compute_desired(limits, Demand { busy, waiting }).replicas;
        prop_assert!(desired(busy + 1, waiting) >= desired(busy, waiting));
        prop_assert!(desired(busy, waiting + 1) >= desired(busy, waiting));
    }
}

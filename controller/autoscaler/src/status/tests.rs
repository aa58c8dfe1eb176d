use jiff::Timestamp;
use rstest::rstest;
use vmpool_api::autoscaler::PoolAutoscalerStatus;
use vmpool_api::conditions::find_condition;

use super::{AutoscalerActivity, AutoscalerReport, LastScale, ScaledPoolReport, render_status};
use crate::conflict::Conflict;
use crate::decision::{Explanation, compute_desired};
use crate::demand::{Demand, FreeMachines};
use crate::limits::ReplicaLimits;
use crate::machines::DemandCounts;

fn report(activity: AutoscalerActivity) -> AutoscalerReport {
    let demand = Demand { busy: 4, waiting: 1 };
    let desired = compute_desired(ReplicaLimits { min: 0, max: 6, free: FreeMachines::Machines(2) }, demand);
    AutoscalerReport {
        generation: Some(3),
        activity,
        problems: Vec::new(),
        pool: Some(ScaledPoolReport {
            replicas: 5,
            counts: DemandCounts { all: 5, busy: 4, free: 0, provisioning: 1 },
            standby: 2,
            explanation: Explanation { demand, desired, schedule: Some("morning".to_owned()) },
        }),
        scaled: None,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn shown(status: &PoolAutoscalerStatus, kind: &str) -> (String, String) {
    let condition = find_condition(status.conditions.as_deref().unwrap(), kind).unwrap();
    (condition.status.clone(), condition.reason.clone())
}

#[rstest]
#[case(AutoscalerActivity::Scaling, ("True", "Readable"), ("True", "Scaling"), ("False", "NoConflict"))]
#[case(AutoscalerActivity::Paused, ("True", "Readable"), ("False", "Paused"), ("False", "NoConflict"))]
#[case(AutoscalerActivity::PoolPaused, ("True", "Readable"), ("False", "PoolPaused"), ("False", "NoConflict"))]
#[case(AutoscalerActivity::PoolDeleting, ("True", "Readable"), ("False", "PoolDeleting"), ("False", "NoConflict"))]
#[case(AutoscalerActivity::PoolNotFound, ("False", "PoolNotFound"), ("False", "PoolNotFound"), ("False", "NoConflict"))]
#[case(AutoscalerActivity::PoolNotServed, ("False", "PoolNotServed"), ("False", "PoolNotServed"), ("False", "NoConflict"))]
#[case(
    AutoscalerActivity::Conflict(Conflict::HorizontalPodAutoscaler("h".to_owned())),
    ("True", "Readable"), ("False", "Conflict"), ("True", "HorizontalPodAutoscaler")
)]
#[case(
    AutoscalerActivity::Conflict(Conflict::OlderAutoscaler("a".to_owned())),
    ("True", "Readable"), ("False", "Conflict"), ("True", "OlderAutoscaler")
)]
#[case(AutoscalerActivity::FailedScale("refused".to_owned()), ("True", "Readable"), ("False", "FailedScale"), ("False", "NoConflict"))]
fn the_conditions_say_what_the_controller_does(
    #[case] activity: AutoscalerActivity,
    #[case] ready: (&str, &str),
    #[case] active: (&str, &str),
    #[case] conflicting: (&str, &str),
) {
    let status = render_status(None, &report(activity), at(0));
    let expected = |(status, reason): (&str, &str)| (status.to_owned(), reason.to_owned());
    assert_eq!(shown(&status, "Ready"), expected(ready));
    assert_eq!(shown(&status, "Active"), expected(active));
    assert_eq!(shown(&status, "Conflicting"), expected(conflicting));
}

#[test]
fn a_field_that_cannot_be_read_is_a_message() {
    let mut unreadable = report(AutoscalerActivity::Scaling);
    unreadable.problems = vec!["spec.schedules[0].start must be ...".to_owned()];
    let status = render_status(None, &unreadable, at(0));
    assert_eq!(shown(&status, "Ready"), ("False".to_owned(), "InvalidSpec".to_owned()));
    assert_eq!(shown(&status, "Active"), ("True".to_owned(), "Scaling".to_owned()));
}

#[test]
fn the_numbers_are_those_of_the_pass() {
    let status = render_status(None, &report(AutoscalerActivity::Scaling), at(0));
    assert_eq!((status.replicas, status.desired_replicas), (Some(5), Some(6)));
    assert_eq!((status.busy, status.free, status.provisioning), (Some(4), Some(0), Some(1)));
    assert_eq!((status.waiting, status.standby), (Some(1), Some(2)));
    assert_eq!(status.active_schedule.as_deref(), Some("morning"));
    assert_eq!(shown(&status, "Limited"), ("True".to_owned(), "TooManyReplicas".to_owned()));
}

#[test]
fn a_pass_that_changes_nothing_renders_the_stored_status() {
    let mut scaling = report(AutoscalerActivity::Scaling);
    scaling.scaled = Some(LastScale { time: at(5), reason: "4 busy".to_owned() });
    let stored = render_status(None, &scaling, at(5));
    assert_eq!(stored.last_scale_time.as_deref(), Some("1970-01-01T00:00:05Z"));
    scaling.scaled = None;
    assert_eq!(render_status(Some(&stored), &scaling, at(99)), stored);
}

use std::sync::Arc;

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::draining::{DEFAULT_TIMEOUT, DrainHook, DrainMark, DrainReason, Draining};
use crate::failure::FailureReason;
use crate::ids::Uid;
use crate::model::{MachineActivity, ScaleDownPolicy, StatusContent};
use crate::plan::PoolSnapshot;
use crate::testing::{PoolWorld, numbered_machine_name, observation_time};

mod blocked;
mod detached;
mod live_updates;
mod numbers;
mod pins;
mod problem;
mod synced;

fn shown(world: &PoolWorld) -> ComputedStatus {
    compute_status(&world.observed(&world.snapshot()), None)
}

/// `status reason: message` of one condition.
fn condition(status: &ComputedStatus, kind: ConditionType) -> Option<String> {
    let found = status.conditions.iter().find(|condition| condition.is(kind))?;
    Some(format!("{} {}: {}", found.status, found.reason, found.message))
}

fn terminating(world: PoolWorld, numbers: impl IntoIterator<Item = u64>) -> PoolWorld {
    numbers.into_iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| machine.terminating = true)
    })
}

fn idle(world: PoolWorld, number: u64) -> PoolWorld {
    world.edit(&numbered_machine_name(number), |machine| machine.activity = MachineActivity::NotRunning)
}

#[rstest]
#[case::all_run(PoolWorld::desiring(2).with_machines(2), "True AllReplicasReady: 2 of 2 machines are ready")]
#[case::none_is_desired(PoolWorld::desiring(0), "True AllReplicasReady: no machines are desired")]
#[case::the_only_one_runs(PoolWorld::desiring(1).with_machines(1), "True AllReplicasReady: 1 of 1 machine is ready")]
#[case::more_run_than_desired(PoolWorld::desiring(1).with_machines(2), "True AllReplicasReady: 2 machines are ready, 1 desired")]
#[case::one_is_missing(
    PoolWorld::desiring(2).with_machines(1), "False InsufficientReadyReplicas: 1 of 2 machines are ready"
)]
#[case::one_is_stopped(
    idle(PoolWorld::desiring(2).with_machines(2), 0),
    "False InsufficientReadyReplicas: 1 of 2 machines are ready"
)]
#[case::one_is_terminating(
    terminating(PoolWorld::desiring(2).with_machines(2), [0]),
    "False InsufficientReadyReplicas: 1 of 2 machines are ready"
)]
fn available(#[case] world: PoolWorld, #[case] expected: &str) {
    assert_eq!(condition(&shown(&world), ConditionType::Available).as_deref(), Some(expected));
}

#[rstest]
#[case::the_count_is_right(PoolWorld::desiring(2).with_machines(2), None)]
#[case::the_count_is_right_while_one_leaves(terminating(PoolWorld::desiring(2).with_machines(2), [0]), None)]
#[case::expanding_disks(PoolWorld::desiring(3).with_machines(1), Some("creating machines: 1 of 3 exist"))]
#[case::shrinking(PoolWorld::desiring(1).with_machines(3), Some("deleting machines: 3 exist, 1 desired"))]
#[case::waiting_for_those_that_leave(
    terminating(PoolWorld::desiring(1).with_machines(3), [1, 2]), Some("2 of 3 machines are terminating, 1 desired")
)]
#[case::an_explicit_pool_waits_for_its_owner(
    PoolWorld::desiring(1).with_machines(3).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit),
    Some("3 machines exceed replicas: 1, and with scaleDownPolicy Explicit the controller deletes only the targets of \
          targeted removals: remove 2 machines by name, which lowers replicas, and then set replicas to 1 again; or set \
          replicas to 3 to keep all")
)]
#[case::an_explicit_pool_of_which_no_machine_is_desired(
    PoolWorld::desiring(0).with_machines(1).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit),
    Some("1 machine exceeds replicas: 0, and with scaleDownPolicy Explicit the controller deletes only the targets of \
          targeted removals: remove 1 machine by name; or set replicas to 1 to keep it")
)]
#[case::targets_count_as_removed_in_the_message(
    terminating(
        PoolWorld::desiring(5).with_machines(5).accepted("r", &[&numbered_machine_name(0), &numbered_machine_name(1), &numbered_machine_name(2)]).pool(|pool| {
            pool.scale_down_policy = ScaleDownPolicy::Explicit;
            pool.desired = 1;
        }),
        [1],
    ),
    Some("2 machines exceed replicas: 1, and with scaleDownPolicy Explicit the controller deletes only the targets of \
          targeted removals: remove 1 machine by name, which lowers replicas, and then set replicas to 1 again; or set \
          replicas to 2 to keep all")
)]
#[case::an_explicit_pool_whose_surplus_leaves(
    terminating(PoolWorld::desiring(1).with_machines(2).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit), [1]),
    Some("1 of 2 machines is terminating, 1 desired")
)]
fn progressing(#[case] world: PoolWorld, #[case] message: Option<&str>) {
    let expected = message.map(|message| format!("True ReplicasProgressing: {message}"));
    assert_eq!(condition(&shown(&world), ConditionType::Progressing), expected);
}

#[rstest]
#[case::creating(FailureReason::FailedCreate, "FailedCreate")]
#[case::deleting(FailureReason::FailedDelete, "FailedDelete")]
#[case::a_disk(FailureReason::DiskFailure, "DiskFailure")]
#[case::a_repair(FailureReason::FailedRepair, "FailedRepair")]
#[case::a_template(FailureReason::FailedTemplateUpdate, "FailedTemplateUpdate")]
fn the_last_failure_shows(#[case] reason: FailureReason, #[case] word: &str) {
    let world = PoolWorld::desiring(2).with_machines(2);
    let failure = PoolFailure { reason, message: "exceeded quota: pods".into() };
    let status = compute_status(&world.observed(&world.snapshot()), Some(&failure));
    assert_eq!(
        condition(&status, ConditionType::ReplicaFailure),
        Some(format!("True {word}: exceeded quota: pods"))
    );
    assert_eq!(condition(&shown(&world), ConditionType::ReplicaFailure), None);
}

#[test]
fn a_failure_that_becomes_another_one_is_shown_with_its_reason_and_message() {
    let world = PoolWorld::desiring(2).with_machines(2).pool(|pool| {
        pool.published.conditions =
            vec![dated(ConditionType::ReplicaFailure.as_str(), "True", "FailedCreate")];
    });
    let failure = PoolFailure { reason: FailureReason::FailedDelete, message: "not now".into() };
    let status = compute_status(&world.observed(&world.snapshot()), Some(&failure));
    let shown =
        status.conditions.iter().find(|condition| condition.is(ConditionType::ReplicaFailure)).unwrap();
    assert_eq!((&*shown.reason, &*shown.message), ("FailedDelete", "not now"));
    assert_eq!(shown.last_transition, second(5), "it has been True all the time");
}

#[test]
fn what_only_the_owner_can_mend_comes_before_the_last_failure() {
    let world = PoolWorld::desiring(1)
        .with_machines(1)
        .pool(|pool| pool.validation_errors.push("spec.replicas is -1".into()));
    let failure = PoolFailure { reason: FailureReason::FailedDelete, message: "not now".into() };
    let status = compute_status(&world.observed(&world.snapshot()), Some(&failure));
    let shown = condition(&status, ConditionType::ReplicaFailure).expect("shown");
    assert!(shown.contains("spec.replicas is -1"), "{shown}");
}

#[test]
fn a_flaw_shows_as_a_failure_to_create() {
    let world = PoolWorld::desiring(1).pool(|pool| pool.validation_errors.push("spec.replicas is -1".into()));
    assert_eq!(
        condition(&shown(&world), ConditionType::ReplicaFailure).as_deref(),
        Some("True FailedCreate: no machine is created, updated or removed: spec.replicas is -1")
    );
}

/// A drain that waits for a hook.
#[expect(clippy::unnecessary_wraps, reason = "the value of a field of machines")]
fn draining() -> Option<Arc<Draining>> {
    let hook = DrainHook { name: "job".into(), value: "".into() };
    let mark = DrainMark::begin(&Uid::from("u"), DrainReason::Rollout, observation_time(), DEFAULT_TIMEOUT);
    Some(Arc::new(Draining { hooks: vec![hook], mark: Some(mark) }))
}

#[test]
fn every_counter_counts_its_own() {
    // Machine 0 runs and drains, 1 is stopped, 2 is terminating, 3 has an older revision, 4 waits for its
    // restart, 5 is not in the pool.
    let world = idle(terminating(PoolWorld::desiring(9).with_machines(6), [2]), 1)
        .edit(&numbered_machine_name(3), |machine| machine.revision = Some("r0".into()))
        .edit(&numbered_machine_name(4), |machine| machine.restart_pending = true)
        .edit(&numbered_machine_name(0), |machine| machine.draining = draining())
        .edit(&numbered_machine_name(5), |machine| machine.owner = None)
        .with_unconfirmed([6])
        .pool(|pool| pool.generation = 12);
    let summary = StatusSummary {
        observed_generation: 12,
        replicas: 5,
        ready: 3,
        available: 3,
        updated: 2,
        restart_pending: 1,
        draining: 1,
        image_outdated: 0,
        next_number: Some(6),
        healed: 0,
        revision: "r1".into(),
        used_copies: Arc::default(),
        standby: crate::standby::StandbyCounts::default(),
    };
    assert_eq!(shown(&world).summary, summary);
}

#[test]
fn a_platform_can_count_machines_that_are_being_deleted_as_ready() {
    let world = terminating(PoolWorld::desiring(3).with_machines(3), [2]);
    assert_eq!(shown(&world).summary.ready, 2);
    let world = world.pool(|pool| pool.status_content = StatusContent::FailureAndPause);
    assert_eq!(shown(&world).summary.ready, 3);
}

/// The status of a pool that has published these conditions before.
fn after(world: PoolWorld, published: Vec<StatusCondition>) -> ComputedStatus {
    shown(&world.pool(|pool| pool.published.conditions = published))
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn dated(kind: &str, status: &str, reason: &str) -> StatusCondition {
    StatusCondition {
        kind: kind.into(),
        status: status.into(),
        reason: reason.into(),
        message: "of earlier".into(),
        last_transition: second(5),
        observed_generation: Some(1),
    }
}

#[rstest]
#[case::the_same_status_keeps_its_time("True", 5)]
#[case::another_status_gets_the_time_of_the_pass("False", 1_000_000)]
#[case::an_unknown_one_too("Unknown", 1_000_000)]
fn a_transition_is_a_change_of_the_status(#[case] published: &str, #[case] expected: i64) {
    let world = PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.generation = 2);
    let status = after(world, vec![dated(ConditionType::Available.as_str(), published, "AnEarlierReason")]);
    let condition = status.conditions.iter().find(|condition| condition.is(ConditionType::Available));
    let expected = StatusCondition {
        kind: "Available".into(),
        status: "True".into(),
        reason: "AllReplicasReady".into(),
        message: "1 of 1 machine is ready".into(),
        last_transition: second(expected),
        observed_generation: Some(2),
    };
    assert_eq!(condition, Some(&expected));
}

#[test]
fn a_first_status_is_dated_now() {
    let status = shown(&PoolWorld::desiring(3).with_machines(1));
    let times: Vec<Timestamp> = status.conditions.iter().map(|condition| condition.last_transition).collect();
    assert_eq!(times, [second(1_000_000); 6]);
}

#[test]
fn conditions_of_others_are_kept_and_ours_that_ended_are_removed() {
    let foreign = dated("example.com/Audited", "Unknown", "NotYet");
    let status = after(
        PoolWorld::desiring(1).with_machines(1),
        vec![
            foreign.clone(),
            dated(ConditionType::Progressing.as_str(), "True", "ReplicasProgressing"),
            dated(ConditionType::ReplicaFailure.as_str(), "True", "FailedCreate"),
        ],
    );
    let kinds: Vec<&str> = status.conditions.iter().map(|condition| &*condition.kind).collect();
    let own = [
        ConditionType::Available,
        ConditionType::Synced,
        ConditionType::Ready,
        ConditionType::Reconciling,
        ConditionType::Stalled,
    ]
    .map(ConditionType::as_str);
    assert_eq!(kinds, [&own[..], &["example.com/Audited"]].concat());
    assert_eq!(status.conditions.last(), Some(&foreign));
}

#[test]
fn a_status_that_was_published_is_not_news() {
    let world = idle(PoolWorld::desiring(3).with_machines(2), 0);
    let first = shown(&world);
    let ComputedStatus { summary, conditions, activity } = first.clone();
    let mut later = world.pool(|pool| {
        pool.published.summary = Some(summary);
        (pool.published.conditions, pool.published.activity) = (conditions, activity);
    });
    later.uptime += std::time::Duration::from_hours(1);
    let snapshot = PoolSnapshot { now: second(2_000_000), ..later.snapshot() };
    assert_eq!(compute_status(&later.observed(&snapshot), None), first);
}

use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::condition::StatusCondition;
use crate::memory::PROBLEM_AGE;
use crate::model::{MachineActivity, ScaleDownPolicy, StatusContent};
use crate::status::{ComputedStatus, compute_status};
use crate::testing::{PoolWorld, numbered_machine_name};

fn shown(world: &PoolWorld, failure: Option<&PoolFailure>) -> ComputedStatus {
    compute_status(&world.observed(&world.snapshot()), failure)
}

fn find(status: &ComputedStatus, kind: ConditionType) -> &StatusCondition {
    status.conditions.iter().find(|condition| condition.is(kind)).unwrap()
}

/// The statuses of `Ready`, `Reconciling` and `Stalled`, their reason, and the message of `Ready`.
fn summary(world: &PoolWorld, failure: Option<&PoolFailure>) -> String {
    let status = shown(world, failure);
    let [ready, reconciling, stalled] =
        [ConditionType::Ready, ConditionType::Reconciling, ConditionType::Stalled]
            .map(|kind| find(&status, kind));
    assert!([reconciling, stalled].iter().all(|condition| condition.reason == ready.reason));
    let states = [ready, reconciling, stalled].map(|condition| condition.status.clone()).join(" ");
    format!("{states} {}: {}", ready.reason, ready.message)
}

fn ready(count: usize) -> PoolWorld {
    PoolWorld::desiring(count).with_machines(u64::try_from(count).unwrap())
}

fn outdated(world: PoolWorld) -> PoolWorld {
    world.edit(&numbered_machine_name(0), |machine| {
        machine.revision = Some("old".into());
        machine.written = Some("old".into());
    })
}

#[rstest]
#[case::settled(ready(2), "True False False Ready: 2 machines are ready and up to date")]
#[case::none_desired(ready(0), "True False False Ready: no machines are desired")]
#[case::missing(
    PoolWorld::desiring(2).with_machines(1),
    "False True False Scaling: 1 of 2 desired machines exist; 1 of 2 machines are ready"
)]
#[case::surplus(
    PoolWorld::desiring(1).with_machines(2),
    "False True False Scaling: 2 of 1 desired machine exist"
)]
#[case::not_ready(
    ready(2).edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning),
    "False True False Scaling: 1 of 2 machines are ready"
)]
#[case::rollout(outdated(ready(2)), "False True False RollingOut: 1 of 2 machines are up to date")]
#[case::rollout_is_worse_than_scaling(
    outdated(PoolWorld::desiring(3).with_machines(2)),
    "False True False RollingOut: 2 of 3 desired machines exist; 2 of 3 machines are ready; 1 of 2 machines are up to date"
)]
#[case::paused_rollout(
    outdated(ready(2)).pool(|pool| pool.rollout.paused = true),
    "False False False Paused: 1 of 2 machines are up to date, and the rollout is paused"
)]
#[case::paused_rollout_without_work(
    ready(2).pool(|pool| pool.rollout.paused = true),
    "True False False Paused: 2 machines are ready and up to date"
)]
#[case::a_paused_rollout_scales(
    PoolWorld::desiring(1).with_machines(2).pool(|pool| pool.rollout.paused = true),
    "False True False Scaling: 2 of 1 desired machine exist"
)]
#[case::a_paused_pool_does_not_scale(
    PoolWorld::desiring(1).with_machines(2).pool(|pool| pool.paused = true),
    "False False False Paused: 2 of 1 desired machine exist"
)]
#[case::a_rollout_that_leaves_machines_as_they_are(
    outdated(ready(2)).pool(|pool| pool.rollout.disabled = true),
    "True False False Ready: 2 machines are ready; 1 of 2 machines are up to date, and the controller leaves the others \
     as they are"
)]
#[case::an_invalid_spec(
    ready(1).pool(|pool| pool.validation_errors = vec!["a".into(), "b".into()]),
    "False False True Blocked: no machine is created, updated or removed: a; b"
)]
#[case::a_held_rollout(
    ready(1).pool(|pool| pool.revision.held = true),
    "False False True Blocked: the requested revision cannot be used: set a stored revision, or none"
)]
#[case::a_user_action(
    ready(1).memory(|memory| memory.blockers = vec![Blocker::UserAction("free a name".into())]),
    "False False True Blocked: free a name"
)]
#[case::a_step_that_only_waits(
    ready(1).memory(|memory| memory.blockers = vec![Blocker::Reservation { machine: numbered_machine_name(0).into() }]),
    "True False False Ready: 1 machine is ready and up to date"
)]
fn the_phase_is_the_worst(#[case] world: PoolWorld, #[case] expected: &str) {
    assert_eq!(summary(&world, None), expected);
}

#[test]
fn a_surplus_of_an_explicit_pool_needs_a_user_unless_a_removal_is_accepted() {
    let world = PoolWorld::desiring(1)
        .with_machines(2)
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit);
    assert!(summary(&world, None).starts_with("False False True Blocked: 2 machines exceed replicas: 1"));
    let accepted = PoolWorld::desiring(2)
        .with_machines(2)
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit)
        .accepted("r", &[&numbered_machine_name(0)]);
    assert!(
        summary(&accepted, None).starts_with("False True False Scaling: "),
        "{}",
        summary(&accepted, None)
    );
}

/// KubeVirt's opportunistic and unmanaged scale-in.
#[test]
fn a_surplus_that_the_strategy_keeps_is_no_problem() {
    let world = ready(3).pool(|pool| {
        (pool.desired, pool.scale_down_policy) = (1, ScaleDownPolicy::Explicit);
        pool.status_content = StatusContent::FailureAndPause;
    });
    assert_eq!(summary(&world, None), "True False False Ready: 3 machines are ready and up to date");
    let missing = ready(1).pool(|pool| {
        (pool.desired, pool.scale_down_policy) = (2, ScaleDownPolicy::Explicit);
        pool.status_content = StatusContent::FailureAndPause;
    });
    assert!(summary(&missing, None).starts_with("False True False Scaling: "), "{}", summary(&missing, None));
}

#[test]
fn a_failure_that_is_repeated_is_not_stalled_and_all_messages_show() {
    let failure = |reason, message: &str| PoolFailure { reason, message: message.into() };
    let failures =
        [failure(FailureReason::FailedCreate, "quota"), failure(FailureReason::FailedDelete, "webhook")];
    let combined = PoolFailure::combine(&failures).unwrap();
    assert_eq!(combined.reason, FailureReason::FailedCreate);
    let world = PoolWorld::desiring(2).with_machines(1);
    assert_eq!(
        summary(&world, Some(&combined)),
        "False True False Failing: quota; webhook; 1 of 2 desired machines exist; 1 of 2 machines are ready"
    );
    let disputed = failure(FailureReason::StatusDisputed, "another client overwrites the status");
    assert!(summary(&ready(1), Some(&disputed)).starts_with("False False True Blocked: another client"));
}

#[test]
fn the_problems_of_all_machines_show() {
    let mut world = ready(7);
    for number in 0..7 {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.problem = Some("no class".into());
        });
    }
    // A published problem is known to a new leader.
    let mut names: Vec<String> = (0..7).map(numbered_machine_name).collect();
    names.sort();
    let message =
        names.iter().map(|name| format!("machine {name} is not ready")).collect::<Vec<_>>().join("; ");
    let published = StatusCondition {
        kind: ConditionType::Ready.to_string(),
        status: "False".into(),
        reason: "Failing".into(),
        message,
        last_transition: Timestamp::UNIX_EPOCH,
        observed_generation: None,
    };
    let world = world.pool(|pool| pool.published.conditions = vec![published]);
    let text = summary(&world, None);
    assert!(text.starts_with("False True False Failing: "), "{text}");
    assert_eq!(text.matches("is not ready: no class").count(), 3, "{text}");
    assert!(text.contains("4 more machines are not ready"), "{text}");
}

/// A pool with one machine that has had this problem for a while.
fn stuck(problem: &str, activity: MachineActivity) -> PoolWorld {
    let mut world = ready(2).edit(&numbered_machine_name(0), |machine| {
        machine.activity = activity;
        machine.problem = Some(problem.into());
    });
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    world.uptime += PROBLEM_AGE;
    world
}

#[rstest]
#[case::it_failed("the guest crashed", MachineActivity::NotRunning)]
#[case::it_is_stopped("its guest was shut down", MachineActivity::Stopped)]
fn a_machine_that_does_not_become_ready_is_named_and_no_condition_says_that_all_is_well(
    #[case] problem: &str,
    #[case] activity: MachineActivity,
) {
    let name = numbered_machine_name(0);
    let named = format!("machine {name} is not ready: {problem}");
    let world = stuck(problem, activity);
    assert_eq!(
        summary(&world, None),
        format!("False True False Failing: {named}; 1 of 2 machines are ready")
    );
    let status = shown(&world, None);
    assert_eq!(
        find(&status, ConditionType::Reconciling).message,
        format!("the controller waits for machines that are not ready: {named}")
    );
    let stalled = &find(&status, ConditionType::Stalled).message;
    assert_eq!(
        stalled,
        "check the machines that are not ready: the condition Reconciling names them and the causes"
    );
    // Beside another cause, the machine is named, too.
    let held = stuck(problem, activity).pool(|pool| pool.revision.held = true);
    let reconciling = find(&shown(&held, None), ConditionType::Reconciling).message.clone();
    assert!(reconciling.ends_with(&format!("; {named}")), "{reconciling}");
    // A machine beyond the desired number needs no action.
    let surplus = stuck(problem, activity).pool(|pool| {
        (pool.desired, pool.scale_down_policy) = (1, ScaleDownPolicy::StoppedOnly);
    });
    assert_eq!(
        summary(&surplus, None),
        "True False False Ready: 1 machine is ready and up to date; 2 machines exist, 1 desired"
    );
}

#[rstest]
#[case::nothing(ready(1), "the controller needs no user action")]
#[case::a_pause(
    PoolWorld::desiring(2).with_machines(1).pool(|pool| pool.paused = true),
    "the controller continues when you resume the pool or its rollout"
)]
#[case::an_approval(
    ready(2).edit(&numbered_machine_name(0), |machine| machine.restart_pending = true),
    "to complete the rollout, approve the restarts of 1 machine"
)]
#[case::a_restart_by_the_platform(
    ready(2).edit(&numbered_machine_name(0), |machine| {
        (machine.restart_pending, machine.restarts_itself) = (true, true);
    }),
    "the controller needs no user action"
)]
fn stalled_says_what_a_user_must_do(#[case] world: PoolWorld, #[case] expected: &str) {
    assert_eq!(find(&shown(&world, None), ConditionType::Stalled).message, expected);
}

#[test]
fn a_failure_that_is_repeated_is_a_cause_in_reconciling() {
    let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "quota".into() };
    let world = PoolWorld::desiring(2).with_machines(1);
    let status = shown(&world, Some(&failure));
    let message = |kind| find(&status, kind).message.clone();
    assert_eq!(message(ConditionType::Reconciling), "the controller repeats what failed: quota");
    assert!(message(ConditionType::Stalled).contains("if the failure lasts"));
}

/// The statuses of `Reconciling` and `Stalled` with the message of the latter, at an uptime after the pool
/// was first observed.
fn stalled_after(mut world: PoolWorld, age: std::time::Duration) -> String {
    let record = |world: &mut PoolWorld| {
        let distance = crate::status::measure_distance(&world.observed(&world.snapshot()));
        world.memory.record_distance(distance, world.uptime);
    };
    record(&mut world);
    world.uptime += age;
    record(&mut world);
    let status = shown(&world, world.memory.failure().as_ref());
    let [reconciling, stalled] =
        [ConditionType::Reconciling, ConditionType::Stalled].map(|kind| find(&status, kind));
    format!("{} {} {}: {}", reconciling.status, stalled.status, stalled.reason, stalled.message)
}

#[test]
fn a_pool_is_stalled_at_its_progress_deadline_and_not_before() {
    let world = || {
        let world = ready(2).pool(|pool| pool.progress_deadline = std::time::Duration::from_mins(1));
        world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning)
    };
    let before = stalled_after(world(), std::time::Duration::from_secs(59));
    assert_eq!(before, "True False Scaling: the controller needs no user action");
    let expected = format!(
        "False True ProgressDeadlineExceeded: the pool has made no progress for 60 s, its progressDeadlineSeconds: remove \
         the cause, or raise the deadline if machines need longer; machine {} is not ready; 1 of 2 machines are ready",
        numbered_machine_name(0)
    );
    assert_eq!(stalled_after(world(), std::time::Duration::from_mins(1)), expected);
}

/// Each cause, after the default deadline.
#[rstest]
#[case::missing(PoolWorld::desiring(2).with_machines(1), true)]
#[case::surplus(PoolWorld::desiring(1).with_machines(2), true)]
#[case::a_rollout(outdated(ready(2)), true)]
#[case::settled(ready(2), false)]
#[case::paused(outdated(ready(2)).pool(|pool| pool.paused = true), false)]
#[case::a_paused_rollout(outdated(ready(2)).pool(|pool| pool.rollout.paused = true), false)]
fn only_a_pool_with_work_left_is_stalled(#[case] world: PoolWorld, #[case] expected: bool) {
    let shown = stalled_after(world, crate::progress::DEFAULT_DEADLINE);
    assert_eq!(shown.starts_with("False True ProgressDeadlineExceeded: "), expected, "{shown}");
}

#[test]
fn a_pool_that_waits_for_a_user_stays_blocked() {
    let world = ready(1)
        .pool(|pool| pool.desired = 2)
        .memory(|memory| memory.blockers = vec![Blocker::UserAction("free a name".into())]);
    let shown = stalled_after(world, crate::progress::DEFAULT_DEADLINE);
    assert_eq!(shown, "False True Blocked: free a name");
}

#[test]
fn a_change_of_the_spec_starts_the_deadline_again() {
    let mut world = PoolWorld::desiring(2).with_machines(1);
    let distance = crate::status::measure_distance(&world.observed(&world.snapshot()));
    world.memory.record_distance(distance, world.uptime);
    assert!(world.memory.progress().time_left(world.pool.progress_deadline, world.uptime).is_some());
    world.pool.generation += 1;
    world.memory.observe(&world.pool, world.uptime);
    assert!(world.memory.progress().time_left(world.pool.progress_deadline, world.uptime).is_none());
}

//! Protected machines: they get labels and annotations, and wait for the rest without using budget.

use jiff::SignedDuration;

use super::*;
use crate::plan::{Blocker, ProtectedStep};
use crate::protection::{Protection, ProtectionEnd};
use crate::testing::observation_time;

/// Protected for a minute.
fn protected(machine: &mut Machine) {
    let until = Some(ProtectionEnd::At(observation_time() + SignedDuration::from_secs(60)));
    machine.protection = Some(Arc::new(Protection { until, ..Protection::default() }));
    machine.restarts_itself = true;
}

/// Protected, and the platform asks for an approval before it restarts the machine.
fn protected_by_approval(machine: &mut Machine) {
    protected(machine);
    machine.restarts_itself = false;
}

/// Records that the spec of a machine differs from revision `r2`.
fn differs(world: PoolWorld, number: u64) -> PoolWorld {
    let uid = crate::testing::fixture_id(&numbered_machine_name(number)).uid;
    let record = |memory: &mut crate::PassMemory| {
        memory.rollout_attempts.record(&uid, &"r2".into(), UpdateOutcome::Differs, UPTIME);
    };
    world.memory(record)
}

fn waits(plan: &Plan) -> bool {
    plan.blockers.iter().any(
        |blocker| matches!(blocker, Blocker::Protection { machine, step: ProtectedStep::Rollout, .. } if **machine == *numbered_machine_name(0)),
    )
}

#[test]
fn a_protected_machine_gets_labels_and_annotations_without_budget() {
    let plan = with(allowing(3, 1), 0, protected).plan();
    assert_eq!(disruption(&plan), [(0, Disruption::MetadataOnly), (1, Disruption::Budgeted)]);
}

#[test]
fn a_protected_machine_whose_spec_differs_waits_until_its_protection_ends_and_uses_no_budget() {
    let plan = differs(with(allowing(3, 1), 0, protected), 0).plan();
    assert_eq!(disruption(&plan), [(1, Disruption::Budgeted)], "the next machine takes its turn");
    assert!(waits(&plan));
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(90)));
}

#[test]
fn after_its_protection_it_is_updated_within_the_budget() {
    let ended = |machine: &mut Machine| {
        let until = Some(ProtectionEnd::At(observation_time() - SignedDuration::from_secs(30)));
        machine.protection = Some(Arc::new(Protection { until, ..Protection::default() }));
        machine.restarts_itself = true;
    };
    let plan = differs(with(allowing(3, 1), 0, ended), 0).plan();
    assert_eq!(disruption(&plan), [(0, Disruption::Budgeted)]);
}

#[test]
fn a_stopped_machine_is_updated_although_it_is_protected() {
    let plan = with(with(allowing(2, 1), 0, protected), 0, stopped).plan();
    assert_eq!(disruption(&plan), [(0, Disruption::NotRunning), (1, Disruption::Budgeted)]);
}

#[test]
fn a_starting_machine_waits_like_a_running_one() {
    let plan = differs(with(with(allowing(2, 2), 0, protected), 0, idle), 0).plan();
    assert_eq!(disruption(&plan), [(1, Disruption::Budgeted)]);
    assert!(waits(&plan));
}

#[test]
fn a_machine_that_restarts_after_an_approval_is_updated_unless_the_update_takes_the_approval_away() {
    let world = with(allowing(2, 1), 0, protected_by_approval);
    assert_eq!(disruption(&world.plan()), [(0, Disruption::ForApproval)]);
    let plan = differs(world, 0).plan();
    assert_eq!(disruption(&plan), [(1, Disruption::Budgeted)]);
    assert!(waits(&plan));
}

#[test]
fn a_paused_rollout_does_not_wait_for_protection() {
    let world = with(allowing(2, 1), 0, protected).pool(|pool| pool.rollout.paused = true);
    assert!(!waits(&differs(world, 0).plan()));
}

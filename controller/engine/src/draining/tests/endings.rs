//! Drains that end without their step, and those that continue.

use std::sync::Arc;

use super::{DrainReason, Machine, begun, draining, ended, hook, mark, protect, world};
use crate::PoolAction;
use crate::plan::DeleteReason;
use crate::testing::{deleted_machines, fixture_id, observation_time};

#[test]
fn the_mark_is_removed_if_the_pool_was_scaled_up_again() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let plan = world(3).edit("web-c", |machine| machine.draining = waiting).plan();
    assert_eq!((ended(&plan), deleted_machines(&plan)), (vec!["web-c"], Vec::new()));
}

#[test]
fn a_machine_that_became_protected_stays_and_another_one_drains() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let plan = world(2)
        .edit("web-c", |machine| {
            machine.draining = waiting;
            protect(machine);
        })
        .plan();
    assert_eq!((ended(&plan), deleted_machines(&plan)), (vec!["web-c"], vec!["web-b"]));
}

#[test]
fn a_released_machine_is_not_called_back_but_replaced_within_the_budget() {
    let released = || draining(&[hook("job", "d1")], Some(mark(DrainReason::ScaleDown, 30)));
    let world = world(3)
        .edit("web-b", |machine| machine.draining = released())
        .edit("web-c", |machine| machine.draining = released());
    let plan = world.plan();
    assert_eq!(deleted_machines(&plan), ["web-b"], "the default budget is one machine");
    let recycled = |action: &PoolAction| {
        matches!(action, PoolAction::Delete { reason: DeleteReason::Recycled { .. }, .. })
    };
    assert!(plan.actions.iter().any(recycled) && ended(&plan).is_empty());
}

#[test]
fn a_released_machine_still_waits_for_its_other_hooks_before_it_is_replaced() {
    let one_of_two = draining(&[hook("a", "d1"), hook("b", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let plan = world(3).edit("web-c", |machine| machine.draining = one_of_two.clone()).plan();
    assert_eq!(plan.actions, []);
    assert!(plan.requeue_after.is_some(), "the pool wakes for the deadline");
    let mut late = one_of_two;
    let marked = late.as_mut().map(Arc::make_mut).unwrap();
    marked.mark = Some(mark(DrainReason::ScaleDown, 600));
    let plan = world(3).edit("web-c", |machine| machine.draining = late).plan();
    assert_eq!(deleted_machines(&plan), ["web-c"]);
}

/// Otherwise the machine that stays would be one that its agent has left.
#[test]
fn of_draining_machines_the_released_ones_leave_first_then_those_that_were_marked_first() {
    let waiting = |seconds| draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, seconds)));
    let released = draining(&[hook("job", "d1")], Some(mark(DrainReason::ScaleDown, 10)));
    let marked = |desired| {
        world(desired)
            .edit("web-a", |machine| machine.draining = waiting(60))
            .edit("web-b", |machine| machine.draining = released.clone())
            .edit("web-c", |machine| machine.draining = waiting(90))
            .plan()
    };
    let (one, two) = (marked(2), marked(1));
    assert_eq!((deleted_machines(&one), ended(&one)), (vec!["web-b"], vec!["web-a", "web-c"]));
    assert_eq!(
        (deleted_machines(&two), ended(&two)),
        (vec!["web-b"], vec!["web-a"]),
        "the last marked first"
    );
}

/// The targets of reservations are not surplus, and are accepted within seconds.
#[test]
fn the_mark_stays_while_a_removal_reserves_the_machine() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let plan = world(2).edit("web-c", |machine| machine.draining = waiting).reserved("r", &["web-c"]).plan();
    assert_eq!(ended(&plan), Vec::<&str>::new());
}

#[test]
fn the_mark_stays_while_the_spec_is_invalid() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let plan = world(3)
        .pool(|pool| pool.validation_errors = vec!["invalid".into()])
        .edit("web-c", |machine| machine.draining = waiting)
        .plan();
    assert_eq!(ended(&plan), Vec::<&str>::new());
}

#[test]
fn the_target_of_an_accepted_removal_drains_although_it_became_protected() {
    let mut world = world(2).edit("web-a", |machine| {
        machine.draining = draining(&[hook("job", "")], None);
        protect(machine);
    });
    world.pool.record.reserve("r", &[fixture_id("web-a")]).unwrap();
    world.pool.record.accept("r");
    assert_eq!(begun(&world.plan()), [("web-a", DrainReason::TargetedRemoval)]);
    let machine = world.machines.iter().find(|machine| &*machine.id.name == "web-a").unwrap();
    let may_begin = |reason| machine.may_begin_drain(&mark(reason, 0), observation_time());
    assert_eq!((may_begin(DrainReason::TargetedRemoval), may_begin(DrainReason::ScaleDown)), (true, false));
}

/// The response about the first mark may be lost, and the owners of hooks may have read its id.
#[test]
fn a_mark_is_not_replaced_and_a_released_machine_not_called_back() {
    let machine = |value: &str| Machine {
        draining: draining(&[hook("job", value)], Some(mark(DrainReason::ScaleDown, 30))),
        ..crate::testing::running_machine("web-a", 1)
    };
    let now = observation_time();
    assert!(!machine("").may_begin_drain(&mark(DrainReason::ScaleDown, 0), now));
    assert_eq!((machine("").may_end_drain(now), machine("d1").may_end_drain(now)), (true, false));
}

#[test]
fn the_target_of_an_accepted_removal_drains_and_the_mark_stays() {
    let mut world = world(2).edit("web-a", |machine| machine.draining = draining(&[hook("job", "")], None));
    world.pool.record.reserve("r", &[fixture_id("web-a")]).unwrap();
    world.pool.record.accept("r");
    let plan = world.plan();
    assert_eq!(begun(&plan), [("web-a", DrainReason::TargetedRemoval)]);
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new(), "no other machine leaves in its place");
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::TargetedRemoval, 30)));
    let waits = world.edit("web-a", |machine| machine.draining = waiting).plan();
    assert_eq!((ended(&waits), deleted_machines(&waits)), (Vec::new(), Vec::new()));
}

#[test]
fn a_forced_removal_does_not_drain() {
    let mut world = world(2).edit("web-a", |machine| machine.draining = draining(&[hook("job", "")], None));
    world.pool.record.reserve_forced("jane", "r", &[fixture_id("web-a")]).unwrap();
    world.pool.record.accept("r");
    assert_eq!(deleted_machines(&world.plan()), ["web-a"]);
}

#[test]
fn a_draining_machine_cannot_be_claimed() {
    let world = world(3).edit("web-a", |machine| {
        machine.draining = draining(&[hook("job", "")], Some(mark(DrainReason::Rollout, 30)));
    });
    let claimable: Vec<bool> =
        world.machines.iter().map(|machine| machine.is_claimable(observation_time())).collect();
    assert_eq!(claimable, [false, true, true]);
}

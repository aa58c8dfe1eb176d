use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;
use crate::model::{AutohealingPolicy, Machine, MachineActivity, Selectable, StartHealth};
use crate::plan::{Blocker, ProtectedStep};
use crate::protection::{Protection, ProtectionEnd};
use crate::selector::{Operator, Selector, SelectorRequirement};
use crate::testing::{PoolWorld, deleted_machines, numbered_machine_name, observation_time};
use crate::{Plan, compute_status};

/// The time this number of seconds after [`observation_time`].
fn at(seconds: i64) -> Timestamp {
    observation_time() + SignedDuration::from_secs(seconds)
}

fn protect(until: ProtectionEnd) -> impl FnOnce(&mut Machine) {
    move |machine| {
        machine.protection = Some(Arc::new(Protection { until: Some(until), ..Protection::default() }));
    }
}

fn shortened(plan: &Plan) -> Vec<(&str, Timestamp)> {
    let shortened = plan.actions.iter().filter_map(|action| match action {
        PoolAction::ShortenProtection { machine, until } => Some((&*machine.name, *until)),
        _ => None,
    });
    shortened.collect()
}

fn waiting(plan: &Plan) -> Vec<(ProtectedStep, &str)> {
    let waiting = plan.blockers.iter().filter_map(|blocker| match blocker {
        Blocker::Protection { machine, step, .. } => Some((*step, &**machine)),
        _ => None,
    });
    waiting.collect()
}

#[rstest]
#[case::within_the_maximum(ProtectionEnd::At(at(3600)), None)]
#[case::at_the_maximum_by_a_clock_that_is_ahead(ProtectionEnd::At(at(2 * 3600 + 30)), None)]
#[case::beyond_the_maximum(ProtectionEnd::At(at(2 * 3600 + 31)), Some(at(2 * 3600)))]
#[case::in_the_past(ProtectionEnd::At(at(-9999)), None)]
#[case::unreadable(ProtectionEnd::Unreadable, Some(at(3600)))]
fn a_time_that_is_not_valid_is_replaced(#[case] until: ProtectionEnd, #[case] expected: Option<Timestamp>) {
    let world = PoolWorld::desiring(1).with_machines(1).edit(&numbered_machine_name(0), protect(until));
    let plan = world.pool(|pool| pool.max_protection = Duration::from_hours(2)).plan();
    let name = numbered_machine_name(0);
    assert_eq!(shortened(&plan), expected.map(|until| (&*name, until)).into_iter().collect::<Vec<_>>());
}

#[test]
fn an_unreadable_time_becomes_at_most_the_maximum() {
    let world = PoolWorld::desiring(1)
        .with_machines(1)
        .edit(&numbered_machine_name(0), protect(ProtectionEnd::Unreadable));
    let plan = world.pool(|pool| pool.max_protection = Duration::from_mins(5)).plan();
    assert_eq!(shortened(&plan), [(&*numbered_machine_name(0), at(300))]);
}

#[rstest]
#[case::protected(ProtectionEnd::At(at(1)), true)]
#[case::within_the_skew_of_clocks(ProtectionEnd::At(at(-29)), true)]
#[case::ended(ProtectionEnd::At(at(-30)), false)]
#[case::unreadable(ProtectionEnd::Unreadable, true)]
fn a_scale_down_passes_over_a_protected_machine(#[case] until: ProtectionEnd, #[case] protects: bool) {
    let world = PoolWorld::desiring(1).with_machines(3).edit(&numbered_machine_name(2), protect(until));
    let expected = if protects {
        [numbered_machine_name(1), numbered_machine_name(0)]
    } else {
        [numbered_machine_name(2), numbered_machine_name(1)]
    };
    let plan = world.plan();
    assert_eq!(deleted_machines(&plan), expected);
    assert_eq!(waiting(&plan), [], "the number is reached without the protected machine");
}

#[test]
fn a_scale_down_waits_for_the_first_protection_to_end_if_only_protected_machines_remain() {
    let world = PoolWorld::desiring(1)
        .with_machines(3)
        .edit(&numbered_machine_name(1), protect(ProtectionEnd::At(at(600))))
        .edit(&numbered_machine_name(2), protect(ProtectionEnd::At(at(60))));
    let mut plan = world.plan();
    assert_eq!(deleted_machines(&plan), [numbered_machine_name(0)]);
    let mut expected = [numbered_machine_name(1), numbered_machine_name(2)];
    expected.sort();
    let mut waiting = waiting(&plan);
    waiting.sort_unstable();
    assert_eq!(
        waiting,
        [(ProtectedStep::ScaleDown, &*expected[0]), (ProtectedStep::ScaleDown, &*expected[1])]
    );
    assert_eq!(plan.requeue_after.take(), Some(Duration::from_secs(90)), "at the first end, plus the skew");
    let world = world.memory(|memory| memory.record_blockers(&plan.blockers));
    let shown = compute_status(&world.observed(&world.snapshot()), None).conditions;
    let shown =
        shown.iter().find(|condition| condition.is(crate::condition::ConditionType::BlockedByProtection));
    let [first, second] = &expected;
    assert_eq!(
        shown.expect("the condition is published").message,
        format!(
            "the scale-down to 1 waits for protected machines {first} and {second}; the first protection ends at \
             1970-01-12T13:47:40Z"
        )
    );
}

#[test]
fn the_selection_of_the_scale_down_applies_first_and_without_fallback() {
    let only =
        SelectorRequirement { key: "may-leave".into(), operator: Operator::Exists, values: Vec::new() };
    let world = PoolWorld::desiring(1)
        .with_machines(3)
        .pool(|pool| pool.scale_down_selection.labels = Selector(vec![only]))
        .edit(&numbered_machine_name(1), |machine| {
            let labels = Some([("may-leave".to_owned(), String::new())].into());
            let selectable = Selectable { instance_labels: labels, ..Selectable::clone(&Selectable::none()) };
            machine.selectable = Arc::new(selectable);
        })
        .edit(&numbered_machine_name(1), protect(ProtectionEnd::At(at(60))));
    let plan = world.plan();
    assert_eq!(deleted_machines(&plan), [""; 0], "the machines that are not selected stay as well");
    assert_eq!(waiting(&plan), [(ProtectedStep::ScaleDown, &*numbered_machine_name(1))]);
}

#[test]
fn an_accepted_removal_deletes_a_protected_machine() {
    let world = PoolWorld::desiring(2)
        .with_machines(2)
        .edit(&numbered_machine_name(1), protect(ProtectionEnd::At(at(600))));
    let plan = world.accepted("request", &[&numbered_machine_name(1)]).plan();
    assert_eq!(deleted_machines(&plan), [numbered_machine_name(1)]);
}

#[test]
fn a_protected_machine_that_does_not_start_is_not_replaced() {
    let world = PoolWorld::desiring(2).with_machines(2).pool(|pool| {
        pool.autohealing = Some(AutohealingPolicy { failed_starts: 1, after: Duration::ZERO });
    });
    let world = [0, 1].into_iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.start_health = StartHealth { failed_starts: 9, ..StartHealth::default() };
        })
    });
    let plan = world.edit(&numbered_machine_name(1), protect(ProtectionEnd::At(at(60)))).plan();
    assert_eq!(deleted_machines(&plan), [numbered_machine_name(0)]);
    assert_eq!(waiting(&plan), [(ProtectedStep::Replacement, &*numbered_machine_name(1))]);
}

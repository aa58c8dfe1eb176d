use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::model::{Machine, MachineActivity};
use crate::plan::{Blocker, DeleteReason, SurplusRule};
use crate::protection::{Protection, ProtectionEnd};
use crate::scale_down::policy::ScaleDownPolicy;
use crate::testing::{PoolWorld, deleted_machines, observation_time};
use crate::{Plan, PoolAction};

mod endings;
mod reading;
mod rollout;

const TIMEOUT: Duration = Duration::from_mins(10);

fn hook(name: &str, value: &str) -> DrainHook {
    DrainHook { name: name.into(), value: value.into() }
}

/// A mark with the id `d1` whose drain began this number of seconds ago.
fn mark(reason: DrainReason, seconds_ago: i64) -> DrainMark {
    let since = observation_time() - SignedDuration::from_secs(seconds_ago);
    let deadline = since + TIMEOUT;
    DrainMark { id: "d1".to_owned(), reason, since, deadline }
}

#[expect(clippy::unnecessary_wraps, reason = "the value of a field of machines")]
fn draining(hooks: &[DrainHook], mark: Option<DrainMark>) -> Option<Arc<Draining>> {
    Some(Arc::new(Draining { hooks: hooks.to_vec(), mark }))
}

/// A pool with this number of desired machines; `web-a` is the oldest of three.
fn world(desired: usize) -> PoolWorld {
    ["web-a", "web-b", "web-c"]
        .into_iter()
        .zip(1..)
        .fold(PoolWorld::desiring(desired), |world, (name, created)| world.with_machine(name, created))
}

fn begun(plan: &Plan) -> Vec<(&str, DrainReason)> {
    let begun = plan.actions.iter().filter_map(|action| match action {
        PoolAction::BeginDrain { machine, mark } => Some((&*machine.name, mark.reason)),
        _ => None,
    });
    begun.collect()
}

fn ended(plan: &Plan) -> Vec<&str> {
    let ended = plan.actions.iter().filter_map(|action| match action {
        PoolAction::EndDrain { machine } => Some(&*machine.name),
        _ => None,
    });
    ended.collect()
}

fn protect(machine: &mut Machine) {
    let until = observation_time() + SignedDuration::from_hours(1);
    machine.protection =
        Some(Arc::new(Protection { until: Some(ProtectionEnd::At(until)), ..Protection::default() }));
}

#[test]
fn a_machine_without_hooks_leaves_at_once() {
    let plan = world(2).plan();
    assert_eq!((deleted_machines(&plan), begun(&plan)), (vec!["web-c"], Vec::new()));
}

#[test]
fn a_chosen_machine_with_hooks_drains_first() {
    let plan = world(2).edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], None)).plan();
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
    assert_eq!(begun(&plan), [("web-c", DrainReason::ScaleDown)]);
    assert!(plan.needs_live_pool(), "the pool may have been scaled up again");
}

#[rstest]
#[case::it_waits(&[("job", "")], 30, false)]
#[case::a_value_of_an_earlier_drain_releases_nothing(&[("job", "d0")], 30, false)]
#[case::one_of_two_is_not_enough(&[("a", "d1"), ("b", "")], 30, false)]
#[case::released(&[("a", "d1"), ("b", "d1")], 30, true)]
#[case::all_hooks_are_gone(&[], 30, true)]
#[case::the_deadline(&[("job", "")], 600, true)]
#[case::just_before_the_deadline(&[("job", "")], 599, false)]
fn the_step_follows_when_all_hooks_are_released_or_at_the_deadline(
    #[case] hooks: &[(&str, &str)],
    #[case] seconds: i64,
    #[case] follows: bool,
) {
    let hooks: Vec<DrainHook> = hooks.iter().map(|(name, value)| hook(name, value)).collect();
    let world = world(2).edit("web-c", |machine| {
        machine.draining = draining(&hooks, Some(mark(DrainReason::ScaleDown, seconds)));
    });
    let plan = world.plan();
    let expected: &[&str] = if follows { &["web-c"] } else { &[] };
    assert_eq!(deleted_machines(&plan), expected);
    let waits = plan.blockers.iter().any(|blocker| matches!(blocker, Blocker::Drain { .. }));
    assert_eq!(waits, !follows);
    assert_eq!(plan.requeue_after.is_some(), !follows, "the pool wakes for the deadline");
    let finished: Vec<_> =
        plan.finished_drains.iter().map(|drain| (drain.lasted.as_secs(), drain.hooks.len())).collect();
    let left = usize::from(seconds == 600);
    assert_eq!(finished, if follows { vec![(seconds.unsigned_abs(), left)] } else { Vec::new() });
}

#[rstest]
#[case::a_stopped_guest(MachineActivity::Stopped, true)]
#[case::never_ready(MachineActivity::NotRunning, false)]
fn a_guest_without_work_does_not_drain(#[case] activity: MachineActivity, #[case] been_ready: bool) {
    let recently = 1_000_000 - 60;
    let plan = PoolWorld::desiring(0)
        .with_machine("web-a", recently)
        .edit("web-a", |machine| {
            (machine.activity, machine.been_ready) = (activity, been_ready);
            machine.draining = draining(&[hook("job", "")], None);
        })
        .plan();
    assert_eq!(deleted_machines(&plan), ["web-a"]);
}

#[test]
fn without_a_timeout_no_machine_drains() {
    let world = world(2)
        .pool(|pool| pool.drain_timeout = Duration::ZERO)
        .edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], None));
    assert_eq!(deleted_machines(&world.plan()), ["web-c"]);
}

/// Otherwise two machines would drain for one surplus: the second one would be chosen while the first waits.
#[test]
fn a_draining_machine_is_the_one_that_a_scale_down_chose() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 30)));
    let world = world(2).edit("web-a", |machine| machine.draining = waiting);
    let plan = world.plan();
    assert_eq!(deleted_machines(&plan), Vec::<&str>::new());
    assert_eq!((begun(&plan), ended(&plan)), (Vec::new(), Vec::new()));
}

/// The plan and the event of the deletion say why this machine leaves.
#[rstest]
#[case::a_draining_machine("web-a", SurplusRule::Draining)]
#[case::by_the_policy("", SurplusRule::Policy)]
fn a_deletion_names_the_rule_that_chose_the_machine(
    #[case] draining_machine: &str,
    #[case] expected: SurplusRule,
) {
    let released = || draining(&[hook("job", "d1")], Some(mark(DrainReason::ScaleDown, 30)));
    let world = match draining_machine {
        "" => world(2),
        name => world(2).edit(name, |machine| machine.draining = released()),
    };
    let plan = world.plan();
    let rules: Vec<_> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            PoolAction::Delete { reason: DeleteReason::Surplus { rule }, .. } => Some(*rule),
            _ => None,
        })
        .collect();
    assert_eq!(rules, [expected]);
}

#[test]
fn an_order_by_ordinals_is_kept() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::Rollout, 30)));
    let world = PoolWorld::desiring(1)
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::HighestOrdinalFirst)
        .with_machine("web-0", 1)
        .with_machine("web-1", 2)
        .edit("web-0", |machine| machine.draining = waiting);
    assert_eq!(deleted_machines(&world.plan()), ["web-1"]);
}

/// A new leader with an old cache would otherwise drain another machine for one surplus.
#[test]
fn before_a_drain_for_a_scale_down_the_machines_are_counted() {
    let plan = world(2).edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], None)).plan();
    assert!(plan.deletes_surplus());
}

#[test]
fn a_paused_pool_keeps_marks_and_acts_on_none() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 900)));
    let plan =
        world(2).pool(|pool| pool.paused = true).edit("web-c", |machine| machine.draining = waiting).plan();
    assert_eq!(plan.actions, []);
}

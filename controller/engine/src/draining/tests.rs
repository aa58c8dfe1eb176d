use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::model::{Machine, MachineActivity};
use crate::plan::{Blocker, DeleteReason};
use crate::protection::{Protection, ProtectionEnd};
use crate::scale_down::policy::ScaleDownPolicy;
use crate::testing::{PoolWorld, deleted_machines, fixture_id, observation_time};
use crate::{Plan, PoolAction};

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
    let expired = plan.expired_drains.iter().map(|drain| &*drain.machine).collect::<Vec<_>>();
    assert_eq!(expired, if seconds == 600 { vec!["web-c"] } else { Vec::new() });
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
fn a_paused_pool_keeps_marks_and_acts_on_none() {
    let waiting = draining(&[hook("job", "")], Some(mark(DrainReason::ScaleDown, 900)));
    let plan =
        world(2).pool(|pool| pool.paused = true).edit("web-c", |machine| machine.draining = waiting).plan();
    assert_eq!(plan.actions, []);
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
fn a_mark_that_began_in_the_future_is_written_again() {
    let forged = mark(DrainReason::ScaleDown, -3600);
    let plan = world(2)
        .edit("web-c", |machine| machine.draining = draining(&[hook("job", "")], Some(forged)))
        .plan();
    assert_eq!(begun(&plan), [("web-c", DrainReason::ScaleDown)]);
}

#[test]
fn a_late_deadline_is_the_beginning_and_the_timeout() {
    let now = observation_time();
    let late = DrainMark { deadline: Timestamp::MAX, ..mark(DrainReason::ScaleDown, 30) };
    assert_eq!(late.effective_deadline(now, TIMEOUT), mark(DrainReason::ScaleDown, 30).deadline);
    let raised = Duration::from_hours(2);
    let running = mark(DrainReason::ScaleDown, 30);
    assert_eq!(
        running.effective_deadline(now, raised),
        running.deadline,
        "a raised timeout extends no drain"
    );
}

#[test]
fn two_drains_of_a_machine_have_different_ids() {
    let id = |seconds| {
        let now = observation_time() + SignedDuration::from_secs(seconds);
        DrainMark::begin(&fixture_id("web-a").uid, DrainReason::ScaleDown, now, TIMEOUT).id
    };
    assert_ne!(id(0), id(1));
    assert_eq!(id(0), id(0));
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

fn read(entries: &[(&str, &str)]) -> Option<Arc<Draining>> {
    let annotations: BTreeMap<String, String> =
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Draining::read(Some(&annotations))
}

#[test]
fn hooks_and_the_mark_are_read_from_the_annotations() {
    assert_eq!(read(&[("vmpool.dev/claim", "{}")]), None);
    let mark = mark(DrainReason::Rollout, 30);
    let found =
        read(&[("drain.vmpool.dev/job", "x"), (MARK, &mark.text()), ("drain.vmpool.dex", "")]).unwrap();
    assert_eq!(*found, Draining { hooks: vec![hook("job", "x")], mark: Some(mark) });
}

#[test]
fn an_unreadable_mark_is_no_mark() {
    assert_eq!(read(&[(MARK, "{")]), None);
    assert_eq!(read(&[(MARK, &format!("{{\"id\": \"{}\"}}", "x".repeat(5000)))]), None);
}

#[test]
fn more_hooks_than_the_limit_are_ignored() {
    let keys: Vec<String> = (0..40).map(|number| format!("{HOOK_PREFIX}{number:02}")).collect();
    let entries: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, "")).collect();
    assert_eq!(read(&entries).unwrap().hooks.len(), MOST_HOOKS);
}

#[rstest]
#[case::minutes(json!({ "timeout": "90m" }), Some(Duration::from_mins(90)))]
#[case::zero(json!({ "timeout": "0s" }), Some(Duration::ZERO))]
#[case::the_longest(json!({ "timeout": "24h" }), Some(LONGEST_TIMEOUT))]
#[case::too_long(json!({ "timeout": "25h" }), None)]
#[case::negative(json!({ "timeout": "-1s" }), None)]
#[case::no_timeout(json!({}), Some(DEFAULT_TIMEOUT))]
#[case::a_number(json!({ "timeout": 600 }), None)]
#[case::an_unknown_field(json!({ "timeuot": "10m" }), None)]
#[case::no_object(json!("10m"), None)]
fn the_setting_is_an_object_with_a_timeout(
    #[case] value: serde_json::Value,
    #[case] expected: Option<Duration>,
) {
    assert_eq!(parse_drain(&value).ok(), expected);
}

#[test]
fn an_unreadable_setting_is_the_default_with_a_message() {
    let mut messages = Vec::new();
    assert_eq!(read_drain(&json!({ "timeout": "soon" }), None, &mut messages), DEFAULT_TIMEOUT);
    let annotations = BTreeMap::from([(DRAIN.to_owned(), "{".to_owned())]);
    assert_eq!(read_drain(&serde_json::Value::Null, Some(&annotations), &mut messages), DEFAULT_TIMEOUT);
    assert_eq!(messages.len(), 2);
    assert!(messages[0].starts_with("drain: ") && messages[1].starts_with("annotation vmpool.dev/drain: "));
    let annotations = BTreeMap::from([(DRAIN.to_owned(), json!({ "timeout": "1m" }).to_string())]);
    assert_eq!(
        read_drain(&serde_json::Value::Null, Some(&annotations), &mut messages),
        Duration::from_mins(1)
    );
}

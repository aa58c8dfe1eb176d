use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::super::*;
use crate::draining::{DrainHook, DrainMark, DrainReason, Draining};
use crate::membership::losses::{Loss, LossKind, MOST_LOSSES, RETRY};
use crate::model::{DisruptionBudget, Machine, MachineActivity};
use crate::plan::{Blocker, DeleteReason, ProtectedStep};
use crate::protection::{Protection, ProtectionEnd};
use crate::scale_down::policy::ScaleDownPolicy;
use crate::server_clock::ServerClock;
use crate::testing::{PoolWorld, deleted_machines, fixture_id, observation_time};
use crate::{Plan, PoolAction};

/// `web-a` is the oldest of three; all are older than a week.
fn world(desired: usize) -> PoolWorld {
    ["web-a", "web-b", "web-c"]
        .into_iter()
        .zip(1..)
        .fold(PoolWorld::desiring(desired), |world, (name, created)| world.with_machine(name, created))
}

fn request(machine: &mut Machine) {
    let requested = Some(observation_time() - SignedDuration::from_secs(30));
    machine.recycling = Some(Arc::new(RecycleFacts { requested, ..RecycleFacts::default() }));
}

fn claimed(times: u32) -> impl FnOnce(&mut Machine) {
    move |machine| {
        machine.recycling = Some(Arc::new(RecycleFacts { claims: times, ..RecycleFacts::default() }));
    }
}

fn protect(machine: &mut Machine) {
    let until = observation_time() + SignedDuration::from_hours(1);
    machine.protection =
        Some(Arc::new(Protection { until: Some(ProtectionEnd::At(until)), ..Protection::default() }));
}

fn draining(reason: Option<DrainReason>, value: &str) -> Arc<Draining> {
    let since = observation_time() - SignedDuration::from_secs(30);
    let mark = reason.map(|reason| DrainMark {
        id: "d1".to_owned(),
        reason,
        since,
        deadline: since + Duration::from_mins(10),
    });
    Arc::new(Draining { hooks: vec![DrainHook { name: "job".into(), value: value.into() }], mark })
}

fn causes(plan: &Plan) -> Vec<(&str, RecycleCause)> {
    let causes = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Delete { machine, reason: DeleteReason::Recycled { cause } } => {
            Some((&*machine.name, *cause))
        }
        _ => None,
    });
    causes.collect()
}

fn begun(plan: &Plan) -> Vec<(&str, DrainReason)> {
    let begun = plan.actions.iter().filter_map(|action| match action {
        PoolAction::BeginDrain { machine, mark } => Some((&*machine.name, mark.reason)),
        _ => None,
    });
    begun.collect()
}

fn lifetime(pool: &mut crate::Pool, seconds: u64) {
    pool.recycle.max_lifetime = Some(Duration::from_secs(seconds));
}

#[test]
fn a_requested_machine_is_replaced_and_the_count_stays() {
    let plan = world(3).edit("web-b", request).plan();
    assert_eq!(causes(&plan), [("web-b", RecycleCause::Requested)]);
    assert!(plan.needs_live_pool());
}

#[rstest]
#[case::of_the_machine(0, true)]
#[case::of_an_earlier_machine(1_000_000 - 30, false)]
fn a_request_counts_if_it_is_later_than_the_creation(#[case] created: i64, #[case] expected: bool) {
    let plan = PoolWorld::desiring(1).with_machine("web-a", created).edit("web-a", request).plan();
    assert_eq!(!causes(&plan).is_empty(), expected);
}

#[test]
fn machines_beyond_their_lifetime_are_replaced_the_oldest_first_within_the_budget() {
    let plan = world(3).pool(|pool| lifetime(pool, 999_000)).plan();
    assert_eq!(causes(&plan), [("web-a", RecycleCause::Lifetime)], "the default budget is one machine");
    let two = |pool: &mut crate::Pool| {
        lifetime(pool, 999_000);
        pool.rollout.budget = DisruptionBudget::Machines(2);
    };
    let plan = world(3).pool(two).plan();
    assert_eq!(deleted_machines(&plan), ["web-a", "web-b"]);
}

#[test]
fn the_pool_wakes_when_the_next_machine_is_too_old() {
    let plan = world(3).pool(|pool| lifetime(pool, 1_000_000 + 50)).plan();
    assert_eq!((plan.actions, plan.requeue_after), (Vec::new(), Some(Duration::from_secs(51))));
}

/// The clock of the controller is ahead by a week, and the three machines were created minutes ago.
#[test]
fn a_clock_that_is_ahead_makes_no_machine_too_old_after_the_first_response() {
    let week = 7 * 24 * 3600;
    let created = 1_000_000 - week - 60;
    let world = ["web-a", "web-b", "web-c"]
        .into_iter()
        .fold(PoolWorld::desiring(3), |world, name| world.with_machine(name, created))
        .pool(|pool| lifetime(pool, 3600));
    assert_eq!(
        deleted_machines(&world.plan()),
        ["web-a"],
        "no response has shown the clock of the API server"
    );
    let mut world = world;
    let now = Timestamp::from_second(1_000_000 - week).expect("in range");
    world.server_clock = Some(ServerClock::of_response(now, world.uptime));
    let plan = world.plan();
    assert_eq!((deleted_machines(&plan), plan.requeue_after), (Vec::new(), Some(Duration::from_secs(3539))));
    world.uptime += Duration::from_secs(3539);
    assert_eq!(deleted_machines(&world.plan()), ["web-a"], "its time is over by the monotonic clock");
}

#[test]
fn a_clock_that_is_behind_lets_machines_live_longer() {
    let mut world = world(3).pool(|pool| lifetime(pool, 1_000_000 + 50));
    let ahead = observation_time() + SignedDuration::from_hours(1);
    world.server_clock = Some(ServerClock::of_response(ahead, world.uptime));
    assert_eq!(world.plan().requeue_after, Some(Duration::from_secs(51)));
}

#[test]
fn the_last_claim_takes_a_machine_out_of_service() {
    let world = world(3).pool(|pool| pool.recycle.max_claims = Some(2)).edit("web-a", claimed(1));
    assert_eq!(causes(&world.plan()), []);
    let world = world.edit("web-a", claimed(2));
    assert_eq!(causes(&world.plan()), [("web-a", RecycleCause::Claims)]);
    let left: Vec<bool> =
        world.machines.iter().map(|machine| world.pool.may_claim(machine, observation_time())).collect();
    assert_eq!(left, [false, true, true]);
}

#[test]
fn a_protected_machine_waits_and_the_next_one_is_replaced() {
    let plan = world(3).edit("web-a", request).edit("web-a", protect).edit("web-b", request).plan();
    assert_eq!(causes(&plan), [("web-b", RecycleCause::Requested)]);
    let waits = |blocker: &Blocker| matches!(blocker, Blocker::Protection { machine, step: ProtectedStep::Recycling, .. } if &**machine == "web-a");
    assert!(plan.blockers.iter().any(waits), "{:?}", plan.blockers);
    assert!(plan.requeue_after.is_some());
}

#[test]
fn the_last_claim_of_a_machine_blocks_nothing() {
    let world = world(3).pool(|pool| pool.recycle.max_claims = Some(1));
    let plan = world.edit("web-a", claimed(1)).edit("web-a", protect).plan();
    assert_eq!((plan.actions, plan.blockers), (Vec::new(), Vec::new()));
    assert!(plan.requeue_after.is_some(), "the pool wakes when the claim ends");
}

#[test]
fn a_machine_that_is_already_unavailable_uses_no_budget() {
    let off = |machine: &mut Machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.been_ready = true;
    };
    let plan = world(3).edit("web-a", request).edit("web-c", request).edit("web-c", off).plan();
    assert_eq!(causes(&plan), [("web-c", RecycleCause::Requested)], "it uses the budget of one machine");
}

#[test]
fn nothing_is_replaced_in_a_surplus_or_in_a_paused_or_invalid_pool() {
    let requested = || world(3).edit("web-a", request);
    let surplus = requested().pool(|pool| {
        pool.desired = 2;
        pool.scale_down_policy = ScaleDownPolicy::Explicit;
    });
    assert_eq!(surplus.plan().actions, []);
    assert_eq!(requested().pool(|pool| pool.paused = true).plan().actions, []);
    let invalid = requested().pool(|pool| pool.validation_errors.push("no".to_owned()));
    assert_eq!(causes(&invalid.plan()), []);
}

#[test]
fn an_explicit_pool_replaces_machines() {
    let world = world(3).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit);
    assert_eq!(causes(&world.edit("web-a", request).plan()), [("web-a", RecycleCause::Requested)]);
}

#[test]
fn a_target_of_a_removal_is_not_replaced() {
    let world = world(3).edit("web-a", request).reserved("r", &["web-a"]);
    assert_eq!(causes(&world.plan()), []);
}

#[test]
fn a_machine_with_hooks_drains_first_and_uses_budget_from_then_on() {
    let hooked = || world(3).edit("web-a", request).edit("web-b", request);
    let plan = hooked().edit("web-a", |machine| machine.draining = Some(draining(None, ""))).plan();
    assert_eq!((begun(&plan), causes(&plan)), (vec![("web-a", DrainReason::Recycling)], Vec::new()));
    let waiting = draining(Some(DrainReason::Recycling), "");
    let plan = hooked().edit("web-a", |machine| machine.draining = Some(waiting)).plan();
    assert_eq!((begun(&plan), causes(&plan)), (Vec::new(), Vec::new()), "web-b waits for budget");
    let released = draining(Some(DrainReason::Recycling), "d1");
    let plan = hooked().edit("web-a", |machine| machine.draining = Some(released)).plan();
    assert_eq!(causes(&plan), [("web-a", RecycleCause::Requested)]);
}

#[test]
fn the_drain_ends_if_the_request_is_withdrawn_unless_a_hook_released_the_machine() {
    let mark = Some(DrainReason::Recycling);
    let plan = world(3).edit("web-a", |machine| machine.draining = Some(draining(mark, ""))).plan();
    assert!(matches!(&plan.actions[..], [PoolAction::EndDrain { machine }] if &*machine.name == "web-a"));
    let plan = world(3).edit("web-a", |machine| machine.draining = Some(draining(mark, "d1"))).plan();
    assert_eq!(causes(&plan), [("web-a", RecycleCause::Released)]);
}

#[test]
fn one_released_hook_of_two_replaces_no_machine_before_the_deadline() {
    let mut two = Arc::unwrap_or_clone(draining(Some(DrainReason::ScaleDown), "d1"));
    two.hooks.push(DrainHook { name: "other".into(), value: "".into() });
    let plan = world(3).edit("web-a", |machine| machine.draining = Some(Arc::new(two))).plan();
    assert_eq!(plan.actions, []);
    assert!(plan.blockers.iter().any(|blocker| matches!(blocker, Blocker::Drain { .. })));
}

#[test]
fn the_backoff_of_deletions_keeps_the_mark() {
    let waiting = draining(Some(DrainReason::Recycling), "");
    let world = world(3).edit("web-a", request).edit("web-a", |machine| machine.draining = Some(waiting));
    let cause = crate::failure::PoolFailure {
        reason: crate::failure::FailureReason::FailedDelete,
        message: "no".to_owned(),
    };
    let uptime = world.uptime;
    let world = world.memory(|memory| {
        memory.backoff_mut(crate::plan::ApplyStage::Remove).failed(cause, uptime, None, 0.0);
    });
    assert_eq!(world.plan().actions, []);
}

#[test]
fn no_machine_is_replaced_while_the_template_cannot_be_used() {
    let mut plan = world(3)
        .edit("web-a", request)
        .edit("web-b", request)
        .edit("web-b", |machine| machine.draining = Some(draining(None, "")))
        .pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(2))
        .plan();
    assert_eq!(plan.actions.len(), 2);
    plan.withhold_template(false);
    assert_eq!(plan.actions, []);
}

#[test]
fn a_scale_down_chooses_a_machine_that_drains_for_its_replacement() {
    let waiting = draining(Some(DrainReason::Recycling), "");
    let world = world(2).edit("web-a", request).edit("web-a", |machine| machine.draining = Some(waiting));
    assert_eq!(world.plan().actions, [], "the surplus is the draining machine");
}

#[test]
fn a_time_of_request_has_no_influence_on_others() {
    let future = Some(Timestamp::MAX);
    let plan = world(3)
        .edit("web-c", |machine| {
            machine.recycling = Some(Arc::new(RecycleFacts { requested: future, ..RecycleFacts::default() }));
        })
        .plan();
    assert_eq!(causes(&plan), [("web-c", RecycleCause::Requested)]);
}

#[test]
fn a_drained_machine_waits_while_the_budget_is_exceeded() {
    let released = || draining(Some(DrainReason::Recycling), "d1");
    let drained = |desired| {
        world(desired)
            .edit("web-a", request)
            .edit("web-a", |machine| machine.draining = Some(released()))
            .plan()
    };
    assert_eq!(causes(&drained(3)), [("web-a", RecycleCause::Requested)]);
    let scaled_up = drained(5);
    assert_eq!(causes(&scaled_up), [], "two machines are missing, and the budget is one");
    assert!(!scaled_up.actions.iter().any(|action| matches!(action, PoolAction::EndDrain { .. })));
}

/// The pool could not create another machine.
#[test]
fn no_machine_is_replaced_while_other_clients_take_away_what_the_pool_creates() {
    let loss = || Loss { kind: LossKind::AtBirth, message: "a policy took its owner".to_owned() };
    let losing = |world: PoolWorld| {
        let uptime = world.uptime;
        world.memory(|memory| memory.machine_losses.lost(loss(), uptime))
    };
    let world = (0..MOST_LOSSES).fold(world(3).edit("web-a", request), |world, _| losing(world));
    let waiting = Plan { requeue_after: Some(RETRY), ..Plan::default() };
    assert_eq!(world.plan(), waiting);
}

#[rstest]
#[case::while_another_machine_is_unavailable(MachineActivity::NotRunning, &[])]
#[case::within_the_budget(MachineActivity::Running, &["web-a"])]
fn an_unconfirmed_deletion_of_an_available_machine_is_repeated(
    #[case] other: MachineActivity,
    #[case] expected: &[&str],
) {
    let world = world(3).edit("web-a", request).edit("web-b", |machine| machine.activity = other);
    // The world has an uptime of 100 seconds.
    let world = world.memory(|memory| {
        memory.delete_unconfirmed(&fixture_id("web-a").uid, Duration::from_secs(95));
    });
    assert_eq!(deleted_machines(&world.plan()), expected);
}

#[test]
fn a_target_of_an_accepted_removal_that_drains_leaves_the_budget_to_others() {
    let explicit = world(3).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit);
    let waiting = draining(Some(DrainReason::TargetedRemoval), "");
    let world = explicit.edit("web-c", |machine| machine.draining = Some(waiting)).edit("web-a", request);
    let plan = world.accepted("request", &["web-c"]).plan();
    assert_eq!(causes(&plan), [("web-a", RecycleCause::Requested)], "two machines are desired");
}

/// No event follows if the API server did not carry it out.
#[test]
fn the_pool_wakes_when_an_unconfirmed_deletion_uses_no_budget_any_more() {
    let world = world(3).edit("web-a", request).memory(|memory| {
        memory.delete_unconfirmed(&fixture_id("web-b").uid, Duration::from_secs(70));
    });
    let plan = world.plan();
    assert_eq!((causes(&plan), plan.requeue_after), (Vec::new(), Some(Duration::from_secs(30))));
}

use jiff::SignedDuration;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::draining::{DrainHook, DrainMark, DrainReason, Draining};
use crate::model::{DisruptionBudget, MachineActivity, ScaleDownPolicy};
use crate::protection::Protection;
use crate::standby::{StandbyPhase, StandbyState};
use crate::testing::{PoolWorld, deleted_machines, numbered_machine_name, observation_time};
use vmpool_api::Share;

const NONE: [&str; 0] = [];

/// A pool of ten machines of which the first ones have not been ready for an hour.
fn world(unready: u64) -> PoolWorld {
    let world = PoolWorld::desiring(10).with_machines(10).pool(|pool| {
        pool.healing = Some(HealingPolicy::default());
        pool.rollout.budget = DisruptionBudget::Machines(3);
    });
    (0..unready).fold(world, |world, number| fail(world, &numbered_machine_name(number)))
}

fn fail(world: PoolWorld, name: &str) -> PoolWorld {
    world.edit(name, |machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.start_health.not_ready_since = Some(observation_time() - SignedDuration::from_hours(1));
    })
}

fn names(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut names: Vec<String> = numbers.into_iter().map(numbered_machine_name).collect();
    names.sort();
    names
}

fn is_blocked(plan: &Plan) -> bool {
    plan.blockers.iter().any(|blocker| matches!(blocker, Blocker::TooManyUnhealthy { .. }))
}

#[test]
fn unhealthy_machines_are_replaced_within_the_budget() {
    assert_eq!(deleted_machines(&world(0).plan()), NONE);
    assert_eq!(deleted_machines(&world(2).plan()), names(0..2));
    assert_eq!(deleted_machines(&world(4).plan()), names(0..4)[..3]);
    let wide = world(4).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(9));
    assert_eq!(deleted_machines(&wide.plan()), names(0..4));
}

#[test]
fn above_the_ceiling_no_machine_is_replaced() {
    let plan = world(5).plan();
    assert_eq!(deleted_machines(&plan), NONE);
    assert!(plan.blockers.contains(&Blocker::TooManyUnhealthy { affected: 5, limit: 4 }));
    let raised = world(5).pool(|pool| {
        pool.healing = Some(HealingPolicy { max_unhealthy: Share::Percent(50), ..HealingPolicy::default() });
    });
    assert_eq!(deleted_machines(&raised.plan()).len(), 3);
}

/// The surplus leaves first: if the same plan replaced the unhealthy machine, the pool could have none for a
/// moment, although one was ready.
#[test]
fn no_machine_is_replaced_while_a_surplus_is_deleted() {
    let old = numbered_machine_name(0);
    let world = PoolWorld::desiring(1).with_machines(2).pool(|pool| {
        pool.healing = Some(HealingPolicy { max_unhealthy: Share::Machines(2), ..HealingPolicy::default() });
    });
    let world = fail(world, &old);
    assert_eq!(deleted_machines(&world.plan()), names(1..2));
    let deleted = world.edit(&numbered_machine_name(1), |machine| machine.terminating = true);
    assert_eq!(deleted_machines(&deleted.plan()), [&*old]);
}

#[test]
fn the_ceiling_limits_replacements_at_once() {
    let narrow = world(1).pool(|pool| {
        pool.healing = Some(HealingPolicy { max_unhealthy: Share::Machines(1), ..HealingPolicy::default() });
    });
    assert_eq!(deleted_machines(&narrow.plan()), names(0..1));
    let replacing = narrow.edit(&numbered_machine_name(1), |machine| {
        machine.terminating = true;
        machine.activity = MachineActivity::NotRunning;
    });
    let plan = replacing.plan();
    assert_eq!((deleted_machines(&plan), is_blocked(&plan)), (Vec::new(), true));
}

#[rstest]
#[case::off(|world: PoolWorld| world.pool(|pool| pool.healing = None))]
#[case::paused(|world: PoolWorld| world.pool(|pool| pool.paused = true))]
#[case::invalid(|world: PoolWorld| world.pool(|pool| pool.validation_errors.push("odd".into())))]
#[case::in_a_surplus(|world: PoolWorld| world.pool(|pool| {
    pool.scale_down_policy = ScaleDownPolicy::Explicit;
    pool.desired = 9;
}))]
#[case::ready(|world: PoolWorld| {
    world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::Running)
})]
#[case::stopped_on_purpose(|world: PoolWorld| {
    world.edit(&numbered_machine_name(0), |machine| machine.unready_on_purpose = true)
})]
#[case::restarting(|world: PoolWorld| {
    world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::Stopping)
})]
#[case::being_deleted(|world: PoolWorld| {
    world.edit(&numbered_machine_name(0), |machine| machine.terminating = true)
})]
fn no_machine_is_replaced(#[case] change: fn(PoolWorld) -> PoolWorld) {
    assert_eq!(deleted_machines(&change(world(1)).plan()), NONE);
}

/// A client removed the last machine, which still drains.
fn removing(world: PoolWorld) -> PoolWorld {
    let target = numbered_machine_name(9);
    world
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit)
        .edit(&target, |machine| {
            let hook = DrainHook { name: "job".into(), value: "".into() };
            (machine.been_ready, machine.draining) =
                (true, Some(Arc::new(Draining { hooks: vec![hook], mark: None })));
        })
        .accepted("request", &[&target])
}

#[test]
fn a_target_of_an_accepted_removal_that_drains_is_no_surplus() {
    assert_eq!(deleted_machines(&removing(world(2)).plan()), names(0..2));
}

#[test]
fn a_target_of_an_accepted_removal_is_not_replaced() {
    let target = fail(world(0), &numbered_machine_name(9));
    let plan = removing(target).plan();
    assert_eq!(deleted_machines(&plan), NONE);
}

#[test]
fn a_machine_becomes_unhealthy_when_both_times_have_passed() {
    let started = |minutes: i64, unready: i64| {
        world(1).edit(&numbered_machine_name(0), |machine| {
            machine.created = observation_time() - SignedDuration::from_mins(minutes);
            machine.start_health.not_ready_since =
                Some(observation_time() - SignedDuration::from_mins(unready));
        })
    };
    for (minutes, unready, left) in [(29, 29, 1), (10, 2, 20), (60, 2, 3), (60, 4, 1)] {
        let plan = started(minutes, unready).plan();
        let wanted = Some(Duration::from_mins(left));
        assert_eq!(
            (deleted_machines(&plan), plan.requeue_after),
            (Vec::new(), wanted),
            "{minutes} {unready}"
        );
    }
    assert_eq!(deleted_machines(&started(30, 5).plan()), names(0..1));
}

#[test]
fn a_protected_machine_waits_and_the_plan_says_so() {
    let plan = world(1)
        .edit(&numbered_machine_name(0), |machine| {
            let until = observation_time() + SignedDuration::from_hours(1);
            let annotations =
                [("vmpool.dev/protected-until".to_owned(), until.to_string())].into_iter().collect();
            machine.protection = Protection::read(Some(&annotations));
        })
        .plan();
    assert_eq!(deleted_machines(&plan), NONE);
    let is_protected = |blocker: &Blocker| {
        matches!(blocker, Blocker::Protection { step: ProtectedStep::Replacement, until: Some(_), .. })
    };
    assert!(plan.blockers.iter().any(is_protected), "{:?}", plan.blockers);
}

/// Its guest does no work that could end.
#[test]
fn a_draining_machine_that_is_unhealthy_is_replaced_without_its_hooks() {
    for reason in [DrainReason::ScaleDown, DrainReason::Rollout] {
        let world = world(1).edit(&numbered_machine_name(0), |machine| {
            let timeout = Duration::from_mins(10);
            let mark = DrainMark::begin(&machine.id.uid, reason, observation_time(), timeout);
            let hook = DrainHook { name: "job".into(), value: "".into() };
            machine.draining = Some(Arc::new(Draining { hooks: vec![hook], mark: Some(mark) }));
        });
        let plan = world.plan();
        assert_eq!(deleted_machines(&plan), names(0..1));
        assert!(!plan.actions.iter().any(|action| matches!(action, crate::PoolAction::EndDrain { .. })));
    }
}

#[test]
fn those_replaced_least_often_come_first_and_those_in_backoff_use_no_budget() {
    let mut world = world(3).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(1));
    for (number, times) in [(0, 2), (1, 1), (2, 3)] {
        for _ in 0..times {
            world.memory.start_failures.replaced(&numbered_machine_name(number).into(), world.uptime);
        }
    }
    let waiting = world.plan();
    assert_eq!(deleted_machines(&waiting), NONE, "all of them are in backoff");
    assert_eq!(waiting.requeue_after, Some(Duration::from_secs(20)));
    world.uptime += Duration::from_secs(20);
    assert_eq!(deleted_machines(&world.plan()), names([1]));
}

#[test]
fn a_successor_uses_budget_until_it_is_ready() {
    let mut world = world(2).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(1));
    world.memory.start_failures.replaced(&numbered_machine_name(9).into(), world.uptime);
    let starting = |machine: &mut Machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.created = observation_time();
    };
    let world = world.edit(&numbered_machine_name(9), starting);
    assert_eq!(deleted_machines(&world.plan()), NONE);
    let stopped = world.edit(&numbered_machine_name(9), |machine| machine.unready_on_purpose = true);
    assert_eq!(deleted_machines(&stopped.plan()), names(0..2)[..1]);
}

#[test]
fn a_successor_with_another_name_inherits_the_backoff() {
    let mut world = world(1);
    let (former, next): (Arc<str>, Arc<str>) =
        (numbered_machine_name(0).into(), numbered_machine_name(10).into());
    world.memory.start_failures.replaced(&former, world.uptime);
    let gone = world.edit(&former, |machine| machine.terminating = true);
    let mut world = gone;
    let observe = |world: &mut PoolWorld| {
        let machines = world.machines.clone();
        world.memory.observe_machines(machines.iter(), world.uptime);
    };
    observe(&mut world);
    world.machines.retain(|machine| machine.id.name != former);
    observe(&mut world);
    let mut world = fail(world.with_machine(&next, 0), &next);
    observe(&mut world);
    let failures = &world.memory.start_failures;
    assert_eq!((failures.replacements(&next), failures.replacements(&former)), (1, 0));
    assert_eq!(deleted_machines(&world.plan()), NONE, "it waits");
    world.uptime += Duration::from_secs(20);
    assert_eq!(deleted_machines(&world.plan()), [&*next]);
}

#[test]
fn an_activated_standby_machine_inherits_the_backoff() {
    let standby = StandbyState { phase: StandbyPhase::Stopped, ready_since: None, kept_off: true };
    let (former, next): (Arc<str>, Arc<str>) =
        (numbered_machine_name(0).into(), numbered_machine_name(10).into());
    let mut world =
        world(1).with_machine(&next, 0).edit(&next, |machine| machine.standby = Some(Arc::new(standby)));
    world.memory.start_failures.replaced(&former, world.uptime);
    let observe = |world: &mut PoolWorld| {
        let machines = world.machines.clone();
        world.memory.observe_machines(machines.iter(), world.uptime);
    };
    observe(&mut world);
    world.machines.retain(|machine| machine.id.name != former);
    observe(&mut world);
    let mut world = world.edit(&next, |machine| machine.standby = None);
    observe(&mut world);
    assert_eq!(world.memory.start_failures.replacements(&next), 1);
}

#[test]
fn a_name_that_recurs_keeps_its_backoff() {
    let mut world = world(1);
    world.pool.naming = crate::model::Naming::Ordinal;
    world.memory.observe(&world.pool, world.uptime);
    let former: Arc<str> = numbered_machine_name(0).into();
    world.memory.start_failures.replaced(&former, world.uptime);
    world.machines.retain(|machine| machine.id.name != former);
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    let world = ["web-x", &former].into_iter().fold(world, |world, name| world.with_machine(name, 0));
    let mut world = world;
    let machines = world.machines.clone();
    world.memory.observe_machines(machines.iter(), world.uptime);
    assert_eq!(world.memory.start_failures.replacements(&former), 1);
}

/// While the machine is being deleted, its name is in use.
#[test]
fn a_successor_with_another_ordinal_inherits_the_backoff() {
    let mut world = world(1);
    world.pool.naming = crate::model::Naming::Ordinal;
    let former: Arc<str> = numbered_machine_name(0).into();
    world.memory.start_failures.replaced(&former, world.uptime);
    let mut world = world.edit(&former, |machine| machine.terminating = true);
    for name in [None, Some("web-10")] {
        world = name.into_iter().fold(world, |world, name| world.with_machine(name, 0));
        let machines = world.machines.clone();
        world.memory.observe(&world.pool, world.uptime);
        world.memory.observe_machines(machines.iter(), world.uptime);
    }
    let failures = &world.memory.start_failures;
    assert_eq!((failures.replacements("web-10"), failures.replacements(&former)), (1, 0));
}

proptest! {
    /// I20 and the budget, for any number of machines in any state.
    #[test]
    fn healing_removes_no_ready_machine_and_none_above_the_ceiling(
        states in prop::collection::vec(0u8..5, 1..12),
        max_unhealthy in 1u32..6,
        budget in 1usize..6,
    ) {
        let count = states.len();
        let mut world = PoolWorld::desiring(count).with_machines(count as u64).pool(|pool| {
            let max_unhealthy = Share::Machines(max_unhealthy);
            pool.healing = Some(HealingPolicy { max_unhealthy, ..HealingPolicy::default() });
            pool.rollout.budget = DisruptionBudget::Machines(budget);
        });
        let (mut unhealthy, mut ending) = (0, 0);
        for (number, state) in (0..).zip(&states) {
            let name = numbered_machine_name(number);
            world = match state {
                1 => fail(world, &name),
                2 => fail(world, &name).edit(&name, |machine| machine.unready_on_purpose = true),
                3 => fail(world, &name).edit(&name, |machine| machine.terminating = true),
                4 => fail(world, &name).edit(&name, |machine| machine.created = observation_time()),
                _ => world,
            };
            unhealthy += usize::from(*state == 1);
            ending += usize::from(*state == 3);
        }
        let plan = world.plan();
        let deleted = deleted_machines(&plan);
        let limit = max_unhealthy as usize;
        prop_assert!(deleted.is_empty() || unhealthy + ending <= limit);
        prop_assert!(deleted.len() <= budget.min(limit).saturating_sub(ending));
        prop_assert_eq!(is_blocked(&plan), unhealthy > 0 && unhealthy + ending > limit);
        for machine in &world.machines {
            let is_unhealthy = machine.is_unready() && machine.created < observation_time();
            prop_assert!(is_unhealthy || !deleted.contains(&&*machine.id.name));
        }
    }
}

use std::sync::Arc;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::draining::{DrainHook, Draining};
use crate::model::{DisruptionBudget, ScaleDownPolicy, StartHealth};
use crate::testing::{PoolWorld, deleted_machines, numbered_machine_name};

const AFTER: Duration = Duration::from_mins(5);

/// A pool of machines of which all but the first do not start.
fn world(health: &StartHealth, budget: DisruptionBudget) -> PoolWorld {
    let world = PoolWorld::desiring(4).with_machines(4).pool(|pool| {
        pool.autohealing = Some(AutohealingPolicy { failed_starts: 3, after: AFTER });
        pool.rollout.budget = budget;
    });
    (1..4).fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.start_health = health.clone();
        })
    })
}

fn starts(failed_starts: u32) -> StartHealth {
    StartHealth { failed_starts, ..StartHealth::default() }
}

fn observed(mut world: PoolWorld, after: Duration) -> PoolWorld {
    let machines = world.machines.clone();
    world.memory.start_failures.observe(machines.iter(), world.uptime);
    world.uptime += after;
    world
}

#[test]
fn machines_with_too_many_failed_starts_are_replaced_within_the_budget() {
    assert_eq!(deleted_machines(&world(&starts(2), DisruptionBudget::Machines(2)).plan()), [""; 0]);
    let mut expected = [numbered_machine_name(1), numbered_machine_name(2), numbered_machine_name(3)];
    expected.sort();
    assert_eq!(deleted_machines(&world(&starts(3), DisruptionBudget::Machines(2)).plan()), expected[..2]);
}

#[test]
fn a_machine_that_is_being_deleted_is_not_deleted_again() {
    let leaving = world(&starts(3), DisruptionBudget::Machines(3))
        .edit(&numbered_machine_name(1), |machine| machine.terminating = true);
    let mut expected = [numbered_machine_name(2), numbered_machine_name(3)];
    expected.sort();
    assert_eq!(deleted_machines(&leaving.plan()), expected);
}

#[test]
fn a_target_of_an_accepted_removal_that_drains_is_no_surplus_and_is_not_replaced() {
    let removed = |target: u64| {
        let target = numbered_machine_name(target);
        let world = world(&starts(3), DisruptionBudget::Machines(3));
        let world = world.pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit);
        let draining = world.edit(&target, |machine| {
            let hook = DrainHook { name: "job".into(), value: "".into() };
            machine.been_ready = true;
            machine.draining = Some(Arc::new(Draining { hooks: vec![hook], mark: None }));
        });
        draining.accepted("request", &[&target]).plan()
    };
    assert_eq!(deleted_machines(&removed(0)).len(), 3);
    assert_eq!(deleted_machines(&removed(1)).len(), 2);
}

#[test]
fn no_machine_is_replaced_without_the_setting_or_in_a_paused_pool() {
    let off = world(&starts(3), DisruptionBudget::Machines(2)).pool(|pool| pool.autohealing = None);
    assert_eq!(deleted_machines(&off.plan()), [""; 0]);
    let paused = world(&starts(3), DisruptionBudget::Machines(2)).pool(|pool| pool.paused = true);
    assert_eq!(deleted_machines(&paused.plan()), [""; 0]);
}

#[test]
fn a_failing_state_must_last_and_the_controller_wakes_when_it_has() {
    let failing = StartHealth { failing: true, not_ready: true, ..StartHealth::default() };
    let early = observed(world(&failing, DisruptionBudget::Machines(3)), Duration::from_secs(299)).plan();
    assert_eq!((deleted_machines(&early), early.requeue_after), (Vec::new(), Some(Duration::from_secs(1))));
    let due = observed(world(&failing, DisruptionBudget::Machines(3)), AFTER).plan();
    assert_eq!(deleted_machines(&due).len(), 3);
}

#[test]
fn a_machine_that_alternates_between_a_failing_and_another_state_has_failed_all_the_time() {
    let failing = StartHealth { failing: true, not_ready: true, ..StartHealth::default() };
    let starting = StartHealth { failing: false, ..failing.clone() };
    let ready = StartHealth { not_ready: false, ..starting.clone() };
    for (between, replaced) in [(starting, 3), (ready, 0)] {
        let mut world = observed(world(&failing, DisruptionBudget::Machines(3)), AFTER / 2);
        for (health, after) in [(between, Duration::ZERO), (failing.clone(), AFTER / 2)] {
            for number in 1..4 {
                world = world
                    .edit(&numbered_machine_name(number), |machine| machine.start_health = health.clone());
            }
            world = observed(world, after);
        }
        assert_eq!(deleted_machines(&world.plan()).len(), replaced);
    }
}

#[test]
fn the_time_that_the_platform_reports_counts_after_a_change_of_leaders() {
    let since = Some(crate::testing::observation_time() - jiff::SignedDuration::from_secs(300));
    let failing =
        StartHealth { failing: true, not_ready: true, not_ready_since: since, ..StartHealth::default() };
    assert_eq!(deleted_machines(&world(&failing, DisruptionBudget::Machines(3)).plan()).len(), 3);
}

#[test]
fn the_same_ordinal_is_replaced_with_growing_delays_until_it_has_run() {
    let mut world = world(&starts(3), DisruptionBudget::Machines(3));
    let first: Arc<str> = numbered_machine_name(1).into();
    for delay in [20, 40, 80, 160, 320, 600, 600] {
        world.memory.start_failures.replaced(&first, world.uptime);
        world.uptime += Duration::from_secs(delay - 1);
        assert!(!deleted_machines(&world.plan()).contains(&&*first), "not before {delay} s");
        world.uptime += Duration::from_secs(1);
        assert!(deleted_machines(&world.plan()).contains(&&*first), "after {delay} s");
    }
    world = world.edit(&first, |machine| machine.activity = MachineActivity::Running);
    world = observed(world, Duration::from_mins(10));
    world = observed(world, Duration::ZERO);
    assert_eq!(world.memory.start_failures.delay(&first, world.uptime), Duration::ZERO);
}

#[test]
fn a_replaced_machine_that_is_gone_uses_budget_until_its_successor_is_created() {
    let mut world = world(&starts(3), DisruptionBudget::Machines(1));
    let gone: Arc<str> = numbered_machine_name(1).into();
    world.memory.start_failures.replaced(&gone, world.uptime);
    world.machines.retain(|machine| machine.id.name != gone);
    assert_eq!(deleted_machines(&world.plan()), [""; 0]);
    // A pool that was scaled down has no successor.
    let smaller = world.pool(|pool| pool.desired = 3);
    assert_eq!(deleted_machines(&smaller.plan()).len(), 1);
}

/// A simulation in which all machines fail at first. After a replacement, the hopeless ones fail again after
/// some passes, and the others run. Returns the machines that were replaced.
fn replaced_in_time(machines: u64, budget: usize, hopeless: &[bool], starts_for: usize) -> BTreeSet<String> {
    let desired = usize::try_from(machines).unwrap();
    let mut world = PoolWorld::desiring(desired).with_machines(machines).pool(|pool| {
        pool.autohealing = Some(AutohealingPolicy { failed_starts: 3, after: AFTER });
        pool.rollout.budget = DisruptionBudget::Machines(budget);
    });
    for number in 0..machines {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.start_health = starts(3);
        });
    }
    let is_hopeless = |name: &str| {
        let mut known = (0..machines).zip(hopeless);
        known.any(|(number, hopeless)| *hopeless && crate::testing::numbered_machine_name(number) == name)
    };
    let (mut tried, mut starting) = (BTreeSet::new(), Vec::<(String, usize)>::new());
    for pass in 0..100 {
        world = observed(world, Duration::from_secs(10));
        let ended: Vec<String> =
            starting.extract_if(.., |(_, until)| *until <= pass).map(|(name, _)| name).collect();
        for name in ended {
            world = world.edit(&name, |machine| {
                let hopeless = is_hopeless(&name);
                machine.activity =
                    if hopeless { MachineActivity::NotRunning } else { MachineActivity::Running };
                machine.start_health = starts(if hopeless { 3 } else { 0 });
            });
        }
        let plan = world.plan();
        let replaced: Vec<String> = deleted_machines(&plan).into_iter().map(str::to_owned).collect();
        assert!(starting.len() + replaced.len() <= budget, "{starting:?}, {replaced:?}");
        for name in replaced {
            world.memory.start_failures.replaced(&Arc::from(&*name), world.uptime);
            world = world.edit(&name, |machine| machine.start_health = StartHealth::default());
            starting.push((name.clone(), pass + starts_for));
            tried.insert(name);
        }
    }
    tried
}

#[rstest]
#[case::one_of_three(3, 1, 1)]
#[case::two_of_six(6, 2, 2)]
fn a_machine_that_never_starts_delays_the_replacement_of_no_other(
    #[case] machines: u64,
    #[case] budget: usize,
    #[case] hopeless: usize,
) {
    let tried = replaced_in_time(machines, budget, &vec![true; hopeless], 1);
    assert_eq!(tried.len() as u64, machines, "{tried:?}");
}

proptest! {
    #[test]
    fn every_machine_that_does_not_start_is_replaced_within_the_budget(
        budget in 1usize..4,
        hopeless in prop::collection::vec(any::<bool>(), 1..9),
        starts_for in 1usize..5,
    ) {
        let tried = replaced_in_time(hopeless.len() as u64, budget, &hopeless, starts_for);
        prop_assert_eq!(tried.len(), hopeless.len());
    }
}

#[test]
fn the_machine_with_the_fewest_replacements_is_first() {
    let mut world = world(&starts(3), DisruptionBudget::Machines(1));
    for (number, times) in [(1, 2), (2, 1), (3, 3)] {
        for _ in 0..times {
            world.memory.start_failures.replaced(&numbered_machine_name(number).into(), world.uptime);
        }
    }
    world.uptime += Duration::from_mins(10);
    assert_eq!(deleted_machines(&world.plan()), [numbered_machine_name(2)]);
}

#[test]
fn a_replacement_that_neither_runs_nor_fails_uses_budget_for_a_limited_time() {
    let mut world = world(&starts(3), DisruptionBudget::Machines(1))
        .edit(&numbered_machine_name(1), |machine| machine.start_health = StartHealth::default());
    world.memory.start_failures.replaced(&numbered_machine_name(1).into(), world.uptime);
    world.uptime += LONGEST_START.saturating_sub(Duration::from_secs(1));
    assert_eq!(deleted_machines(&world.plan()), [""; 0]);
    world.uptime += Duration::from_secs(1);
    assert_eq!(deleted_machines(&world.plan()).len(), 1);
}

#[test]
fn a_replacement_that_a_user_has_stopped_uses_no_budget() {
    let mut world =
        world(&starts(3), DisruptionBudget::Machines(1)).edit(&numbered_machine_name(1), |machine| {
            machine.activity = MachineActivity::Stopped;
            machine.start_health = StartHealth::default();
        });
    world.memory.start_failures.replaced(&numbered_machine_name(1).into(), world.uptime);
    assert_eq!(deleted_machines(&world.plan()).len(), 1);
    let leaves = world.edit(&numbered_machine_name(1), |machine| machine.terminating = true);
    assert_eq!(deleted_machines(&leaves.plan()), [""; 0]);
}

#[test]
fn no_machine_is_replaced_while_a_pool_keeps_a_surplus() {
    let surplus = |desired: usize| {
        world(&starts(3), DisruptionBudget::Machines(2)).pool(|pool| {
            pool.scale_down_policy = ScaleDownPolicy::Explicit;
            pool.desired = desired;
        })
    };
    assert_eq!(deleted_machines(&surplus(3).plan()), [""; 0]);
    assert_eq!(deleted_machines(&surplus(4).plan()).len(), 2);
    let leaves = surplus(3).edit(&numbered_machine_name(1), |machine| machine.terminating = true);
    assert_eq!(deleted_machines(&leaves.plan()).len(), 2);
}

#[test]
fn no_machine_is_replaced_while_the_pool_is_invalid() {
    let invalid = world(&starts(3), DisruptionBudget::Machines(2))
        .pool(|pool| pool.validation_errors.push("odd".into()));
    assert_eq!(deleted_machines(&invalid.plan()), [""; 0]);
}

#[test]
fn machines_that_fail_again_are_replaced_within_the_budget() {
    let mut world = world(&StartHealth::default(), DisruptionBudget::Machines(1));
    for number in 1..4 {
        world.memory.start_failures.replaced(&numbered_machine_name(number).into(), world.uptime);
        world =
            world.edit(&numbered_machine_name(number), |machine| machine.activity = MachineActivity::Running);
    }
    world = observed(world, Duration::from_mins(5));
    for number in 1..4 {
        world = world.edit(&numbered_machine_name(number), |machine| {
            machine.activity = MachineActivity::NotRunning;
            machine.start_health = starts(3);
        });
    }
    let world = observed(world, Duration::ZERO);
    assert_eq!(deleted_machines(&world.plan()).len(), 1);
}

#[test]
fn a_machine_that_another_leader_replaces_uses_budget() {
    let replaced = |discards_storage: bool| {
        world(&starts(3), DisruptionBudget::Machines(1)).edit(&numbered_machine_name(1), |machine| {
            machine.terminating = true;
            machine.discards_storage = discards_storage;
        })
    };
    assert_eq!(deleted_machines(&replaced(true).plan()), [""; 0]);
    assert_eq!(deleted_machines(&replaced(false).plan()).len(), 1, "a user deleted it");
}

#[test]
fn replacements_that_do_not_run_yet_use_budget() {
    let mut world = world(&starts(3), DisruptionBudget::Machines(1))
        .edit(&numbered_machine_name(1), |machine| machine.start_health = StartHealth::default());
    world.memory.start_failures.replaced(&numbered_machine_name(1).into(), world.uptime);
    assert_eq!(deleted_machines(&world.plan()), [""; 0]);
    // It fails as well, and waits for its backoff.
    let failed = world.edit(&numbered_machine_name(1), |machine| machine.start_health = starts(3));
    assert_eq!(deleted_machines(&failed.plan()).len(), 1);
}

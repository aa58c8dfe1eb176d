use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::healing::setting::HealingPolicy;
use crate::model::Naming;
use crate::plan::{PlanSettings, START_TIMEOUT};
use crate::scale_up::class_slots::ClassSlots;
use crate::scale_up::provisioning_limit::ProvisioningLimit;
use crate::testing::{PoolWorld, created_machines, numbered_machine_name};

/// Creation times so that the age of a machine does not show whether it has been ready.
fn created(minutes_ago: i64) -> i64 {
    1_000_000 - 60 * minutes_ago
}

/// A pool with this limit and `starting` machines that have not been ready.
fn limited(desired: usize, limit: usize, starting: u64) -> PoolWorld {
    let world = PoolWorld::desiring(desired)
        .pool(|pool| pool.max_provisioning = Some(ProvisioningLimit::Machines(limit)))
        .block(0, 64);
    (0..starting).fold(world, with_starting_machine).memory(|memory| memory.next_number = starting)
}

fn with_starting_machine(world: PoolWorld, number: u64) -> PoolWorld {
    let name = numbered_machine_name(number);
    world
        .with_machine(&name, created(1))
        .edit(&name, |machine| machine.activity = MachineActivity::NotRunning)
}

fn edited(world: PoolWorld, edit: impl FnOnce(&mut Machine)) -> PoolWorld {
    world.edit(&numbered_machine_name(0), edit)
}

#[rstest]
#[case::none_exist(limited(5, 2, 0), 2)]
#[case::one_starts(limited(5, 2, 1), 1)]
#[case::as_many_as_the_limit_start(limited(5, 2, 2), 0)]
#[case::more_than_the_limit_start(limited(5, 2, 3), 0)]
#[case::no_more_than_is_missing(limited(3, 9, 1), 2)]
#[case::a_ready_machine_does_not_count(
    edited(limited(5, 1, 1), |machine| machine.activity = MachineActivity::Running), 1
)]
#[case::one_that_was_ready_before_does_not(edited(limited(5, 1, 1), |machine| machine.been_ready = true), 1)]
#[case::a_stopped_one_does_not(
    edited(limited(5, 1, 1), |machine| machine.activity = MachineActivity::Stopped), 1
)]
#[case::one_that_shuts_down_before_it_was_ready_does(
    edited(limited(5, 1, 1), |machine| machine.activity = MachineActivity::Stopping), 0
)]
#[case::a_terminating_one_does_not(edited(limited(5, 1, 1), |machine| machine.terminating = true), 1)]
#[case::a_released_one_does_not(edited(limited(5, 1, 1), |machine| machine.owner = None), 1)]
#[case::a_percentage_is_rounded_up(
    limited(5, 1, 1).pool(|pool| pool.max_provisioning = Some(ProvisioningLimit::Percent(25))), 1
)]
#[case::the_gate_is_off(limited(5, 1, 1).pool(|pool| pool.max_provisioning = None), 4)]
fn creates_as_many_as_the_limit_leaves(#[case] world: PoolWorld, #[case] expected: usize) {
    for naming in [Naming::Random, Naming::Ordinal] {
        let mut world = PoolWorld { machines: world.machines.clone(), ..clone_of(&world) };
        world.pool.naming = naming;
        assert_eq!(created_machines(&world.plan()).len(), expected, "{naming:?}");
    }
}

fn clone_of(world: &PoolWorld) -> PoolWorld {
    PoolWorld {
        pool: world.pool.clone(),
        machines: world.machines.clone(),
        disks: world.disks.clone(),
        others: world.others.clone(),
        stored: world.stored.clone(),
        memory: world.memory.clone(),
        foreign_names: world.foreign_names.clone(),
        replaced: world.replaced.clone(),
        uptime: world.uptime,
        server_clock: world.server_clock,
    }
}

#[test]
fn the_plan_names_the_limit_and_asks_for_a_pass_when_the_oldest_machine_no_longer_counts() {
    let plan = limited(5, 2, 2).plan();
    let expected = LimitedProvisioning { scope: ProvisioningScope::Pool, limit: 2, provisioning: 2 };
    assert_eq!(plan.blockers, [Blocker::Provisioning(expected)]);
    assert_eq!(plan.requeue_after, START_TIMEOUT.checked_sub(Duration::from_mins(1)));
    assert!(plan.wants.create, "the create is only delayed");
}

#[test]
fn a_machine_past_the_start_timeout_delays_no_create() {
    let minutes = i64::try_from(START_TIMEOUT.as_secs() / 60).unwrap();
    let aged = |minutes| {
        let mut world = edited(limited(2, 1, 1), |machine| {
            machine.created = jiff::Timestamp::from_second(created(minutes)).unwrap();
        });
        // The leader has observed the machine from the beginning.
        world.uptime += START_TIMEOUT * 2;
        world
    };
    assert_eq!(created_machines(&aged(minutes - 1).plan()).len(), 0);
    assert_eq!(created_machines(&aged(minutes).plan()).len(), 1);
    let sooner = aged(minutes - 1).pool(|pool| {
        let start_timeout = START_TIMEOUT.saturating_sub(Duration::from_mins(1));
        pool.healing = Some(HealingPolicy { start_timeout, ..HealingPolicy::default() });
    });
    assert_eq!(created_machines(&sooner.plan()).len(), 1, "the timeout of the pool counts");
}

#[test]
fn an_unconfirmed_create_counts_and_its_repetition_needs_no_further_room() {
    let plan = limited(5, 2, 1).with_unconfirmed([1]).plan();
    assert_eq!(created_machines(&plan), [numbered_machine_name(1)]);
    assert!(matches!(plan.blockers[..], [Blocker::Provisioning(_)]), "{:?}", plan.blockers);
}

#[test]
fn a_lowered_limit_also_delays_repetitions() {
    let plan = limited(5, 1, 0).with_unconfirmed([0, 1, 2]).plan();
    assert_eq!(created_machines(&plan).len(), 1);
    let plan = limited(5, 1, 1).with_unconfirmed([1, 2]).plan();
    assert_eq!(created_machines(&plan), [""; 0]);
}

#[test]
fn with_the_gate_off_the_limit_of_the_pool_has_no_effect() {
    let world = limited(5, 1, 1);
    let snapshot = world.snapshot();
    let settings = PlanSettings { limits_provisioning: false, ..PlanSettings::default() };
    let observed = ObservedPool { settings, ..world.observed(&snapshot) };
    let plan = crate::plan_pass(&observed);
    assert_eq!((created_machines(&plan).len(), &plan.blockers), (4, &Vec::new()));
}

#[rstest]
#[case::fewer_slots_than_the_pool_limit(9, 1, 1)]
#[case::more_slots_than_the_pool_limit(2, 3, 1)]
#[case::no_slot(9, 0, 0)]
fn the_stricter_of_the_two_limits_counts(#[case] limit: usize, #[case] free: usize, #[case] expected: usize) {
    let world = limited(5, limit, 1);
    let snapshot = world.snapshot();
    let next = Duration::from_secs(20);
    let slots = ClassSlots { free, class: "fast".into(), limit: 7, provisioning: 6, next };
    let observed = ObservedPool { class_slots: Some(slots), ..world.observed(&snapshot) };
    let plan = crate::plan_pass(&observed);
    assert_eq!(created_machines(&plan).len(), expected);
    let is_of_class = |blocker: &Blocker| matches!(blocker, Blocker::Provisioning(limited) if limited.scope != ProvisioningScope::Pool);
    assert_eq!(plan.blockers.iter().any(is_of_class), free < limit - 1);
}

proptest! {
    /// I16: a plan never leads to more provisioning machines than the limit allows, however many start.
    #[test]
    fn creates_never_exceed_the_limit(
        desired in 0usize..40,
        limit in 1usize..12,
        starting in 0u64..12,
        unconfirmed in 0u64..6,
        ready in prop::collection::btree_set(0u64..12, 0..8),
        ordinal in any::<bool>(),
    ) {
        let mut world = limited(desired, limit, starting).with_unconfirmed(starting..starting + unconfirmed);
        for number in ready.into_iter().filter(|number| *number < starting) {
            world = world.edit(&numbered_machine_name(number), |machine| machine.activity = MachineActivity::Running);
        }
        world.pool.naming = if ordinal { Naming::Ordinal } else { Naming::Random };
        let snapshot = world.snapshot();
        let observed = world.observed(&snapshot);
        let plan = crate::plan_pass(&observed);
        let confirmed = list_provisioning_machines(&observed).count();
        let created = created_machines(&plan).len();
        prop_assert!(created == 0 || confirmed + created <= limit);
        let fresh = count_fresh_creates(&observed, &plan);
        prop_assert!(fresh == 0 || count_provisioning(&observed) + fresh <= limit);
        let missing = desired.saturating_sub(usize::try_from(starting + unconfirmed).unwrap());
        let room = limit.saturating_sub(count_provisioning(&observed));
        prop_assert_eq!(fresh, missing.min(room), "no create is delayed without need");
    }
}

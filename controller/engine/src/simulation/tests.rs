use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::controller::RequestDelivery;
use super::step::SimulationStep;
use super::world::EngineSimulation;
use crate::model::Naming;
use crate::testing::sequence_config;

mod draining;
mod healing;
mod repeated_creates;
mod retained_disks;

/// The argument of `Policy` for Explicit.
const EXPLICIT: SimulationStep = SimulationStep::Policy(2);

/// Runs a simulation until it converges. The transcript explains a failure.
fn run(
    naming: Naming,
    desired: usize,
    opened: u64,
    steps: impl IntoIterator<Item = SimulationStep>,
) -> Result<EngineSimulation, String> {
    let mut world = EngineSimulation::new(naming, desired, opened);
    let end = steps.into_iter().try_for_each(|step| world.step(step)).and_then(|()| world.settle());
    match end {
        Ok(()) => Ok(world),
        Err(broken) => Err(format!("{broken}\n{}", world.transcript)),
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { max_shrink_iters: 20_000, ..sequence_config() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_steps_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        desired in 0usize..9,
        opened in 0u64..12,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        run(naming, desired, opened, numbers.into_iter().map(SimulationStep::from_number)).map_err(TestCaseError::fail)?;
    }

    /// I16.
    #[test]
    fn pools_with_a_limit_on_provisioning_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        desired in 0usize..9,
        limit in 1usize..4,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let steps = numbers.into_iter().map(SimulationStep::from_number_with_limits);
        run(naming, desired, 0, std::iter::once(SimulationStep::Limit(limit)).chain(steps)).map_err(TestCaseError::fail)?;
    }

    /// I17. Activations and stops are lost or late, clients start standby machines, and removals name them.
    #[test]
    fn pools_with_standby_machines_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        desired in 0usize..7,
        standby in 0usize..8,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let steps = numbers.into_iter().map(SimulationStep::from_number_with_standby);
        run(naming, desired, 0, std::iter::once(SimulationStep::Standby(standby)).chain(steps)).map_err(TestCaseError::fail)?;
    }

    /// I20.
    #[test]
    fn pools_with_healing_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        desired in 0usize..9,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let steps = numbers.into_iter().map(SimulationStep::from_number_with_healing);
        run(naming, desired, 0, std::iter::once(SimulationStep::Heal(true)).chain(steps)).map_err(TestCaseError::fail)?;
    }

    /// I21, also in Explicit pools, and with owners of hooks.
    #[test]
    fn pools_whose_machines_are_recycled_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        policy in 0usize..3,
        desired in 0usize..9,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let steps = numbers.into_iter().map(SimulationStep::from_number_with_recycling);
        run(naming, desired, 0, std::iter::once(SimulationStep::Policy(policy)).chain(steps)).map_err(TestCaseError::fail)?;
    }

    /// I19. Owners of hooks are slow, exit, set hooks again, and release with the ids of earlier drains.
    #[test]
    fn pools_with_hooks_keep_the_invariants_and_converge(
        naming in prop::sample::select(&[Naming::Random, Naming::Ordinal][..]),
        desired in 0usize..9,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        run(naming, desired, 0, numbers.into_iter().map(SimulationStep::from_number_with_hooks)).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn an_explicit_pool_loses_only_targets(
        desired in 1usize..9,
        numbers in prop::collection::vec(any::<u32>(), 0..300),
    ) {
        let steps = numbers.into_iter().map(SimulationStep::from_number).filter(|step| !matches!(step, SimulationStep::Policy(_)));
        run(Naming::Random, desired, 0, std::iter::once(EXPLICIT).chain(steps)).map_err(TestCaseError::fail)?;
    }
}

/// A pool of four running machines for simulations of targeted removals.
fn four(policy: usize) -> Vec<SimulationStep> {
    let mut steps = vec![SimulationStep::Policy(policy), SimulationStep::Pass];
    steps.extend([SimulationStep::Act(RequestDelivery::Answered); 12]);
    steps.extend([SimulationStep::WatchMachines(99), SimulationStep::WatchDisks(99)]);
    steps
}

/// All components except clients of removals work once, and terminating machines are deleted.
const ROUND: [SimulationStep; 8] = [
    SimulationStep::Finish(0),
    SimulationStep::Finish(0),
    SimulationStep::WatchMachines(99),
    SimulationStep::Pass,
    SimulationStep::Act(RequestDelivery::Answered),
    SimulationStep::Act(RequestDelivery::Answered),
    SimulationStep::Act(RequestDelivery::Answered),
    SimulationStep::Act(RequestDelivery::Answered),
];

#[test]
fn a_removal_of_two_machines_survives_every_death_between_two_of_its_steps() {
    // Reserve, verify, accept, and two deletions. The client does not exit before the last position.
    let positions = 0..=5;
    for (policy, rounds) in [(0, false), (0, true), (2, false), (2, true)] {
        for (dies, vanishes) in positions.clone().flat_map(|dies| positions.clone().map(move |at| (dies, at)))
        {
            for crashes in positions.clone() {
                let mut steps = four(policy);
                steps.push(SimulationStep::Call(1));
                for position in positions.clone() {
                    if position == vanishes {
                        steps.push(SimulationStep::DeleteByHand(0));
                    }
                    if position == crashes {
                        steps.push(SimulationStep::Crash(1));
                    }
                    if position == dies {
                        steps.push(SimulationStep::RemovalClientExits(0));
                    }
                    steps.push(SimulationStep::RemovalClient(0));
                    if rounds {
                        steps.extend(ROUND);
                    }
                }
                let world = run(Naming::Random, 4, 0, steps).unwrap();
                // Only the acceptance determines the result. The first machine must exist when it is
                // verified.
                let accepted = dies > 2 && vanishes > 1;
                assert_eq!(
                    world.api.pool_machines().count(),
                    if accepted { 2 } else { 4 },
                    "{}",
                    world.transcript
                );
            }
        }
    }
}

#[test]
fn two_removals_of_the_same_machines_count_once_in_any_order() {
    for (policy, order) in [0, 2].into_iter().flat_map(|policy| (0..1024).map(move |order| (policy, order))) {
        let mut steps = four(policy);
        steps.extend([SimulationStep::Call(1), SimulationStep::Call(4)]);
        for position in 0..10 {
            steps.push(SimulationStep::RemovalClient(order >> position & 1));
            steps.extend(ROUND);
        }
        let world = run(Naming::Random, 4, 0, steps).unwrap();
        assert_eq!(
            (world.api.pool.desired, world.api.pool_machines().count()),
            (2, 2),
            "{}",
            world.transcript
        );
    }
}

#[test]
fn a_machine_that_is_not_ready_is_replaced_while_its_deletion_does_not_end() {
    let mut world = EngineSimulation::new(Naming::Random, 4, 0);
    let mut take = |steps: &[SimulationStep]| {
        for step in steps {
            world.step(*step).unwrap();
        }
        let leaving = world.api.pool_machines().filter(|machine| machine.terminating).count();
        (world.api.pool_machines().count(), leaving)
    };
    let observe = [SimulationStep::WatchMachines(99), SimulationStep::WatchDisks(99), SimulationStep::Pass];
    let act = [SimulationStep::Act(RequestDelivery::Answered); 4];
    take(&four(0));
    take(&[0, 1, 2, 3].map(SimulationStep::Toggle));
    take(&[SimulationStep::Heal(true), SimulationStep::Wait(15)]);
    take(&observe);
    take(&[SimulationStep::Toggle(0)]);
    take(&observe);
    assert_eq!(take(&act), (4, 0), "not yet");
    take(&[SimulationStep::Wait(6)]);
    take(&observe);
    assert_eq!(take(&act), (4, 1));
    take(&observe);
    assert_eq!(take(&act), (4, 1), "it is being deleted");
    take(&[SimulationStep::Wait(9)]);
    take(&observe);
    assert_eq!(take(&act), (5, 1), "it counts as gone");
    world.settle().unwrap();
    assert_eq!(world.api.pool_machines().count(), 4);
}

/// A fixed sequence of pseudo-random numbers: SplitMix64.
fn seeded(mut seed: u64) -> impl Iterator<Item = u32> {
    std::iter::repeat_with(move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = seed;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((x ^ (x >> 31)) >> 32).expect("32 bits are left")
    })
}

#[test]
fn the_transcript_of_one_seed_is_stable() {
    let world = run(Naming::Random, 5, 6, seeded(606).take(120).map(SimulationStep::from_number)).unwrap();
    insta::assert_snapshot!(world.transcript);
}

//! A create without a response is repeated, and meanwhile a targeted removal reserves the machine of the
//! first copy.

use rstest::rstest;

use super::super::api::RequestBasis;
use super::super::controller::RequestDelivery;
use super::super::step::SimulationStep;
use super::super::world::EngineSimulation;
use super::run;
use crate::model::Naming;
use crate::testing::numbered_machine_name;

/// Numbers of the two machines. A foreign disk has the name of the disk of machine 1.
const FIRST: u64 = 0;
const SECOND: u64 = 2;

/// The first machine runs. The create of the second one has no response, and that machine exists. The cache
/// does not show it.
fn unconfirmed(policy: usize) -> Vec<SimulationStep> {
    let mut steps = vec![SimulationStep::Policy(policy), SimulationStep::Pass];
    steps.extend([SimulationStep::Act(RequestDelivery::Answered); 3]);
    steps.extend([
        SimulationStep::WatchMachines(99),
        SimulationStep::WatchDisks(99),
        SimulationStep::Scale(2),
        SimulationStep::Pass,
    ]);
    steps.extend([SimulationStep::Act(RequestDelivery::AnswerLost), SimulationStep::Wait(0)]);
    steps
}

/// A client reserves and verifies the second machine. Then a user deletes it.
const RESERVED_AND_DELETED: [SimulationStep; 5] = [
    SimulationStep::Call(3),
    SimulationStep::RemovalClient(0),
    SimulationStep::RemovalClient(0),
    SimulationStep::DeleteByHand(1),
    SimulationStep::Finish(0),
];

/// The names of the pool's machines, in ascending order.
fn machines(world: &EngineSimulation) -> Vec<&str> {
    world.api.pool_machines().map(|machine| &*machine.id.name).collect()
}

#[rstest]
#[case::newest_first(0, &[FIRST])]
#[case::oldest_first(1, &[SECOND])]
// Only a targeted removal deletes machines of an Explicit pool. Its condition says which surplus it has.
#[case::explicit(2, &[FIRST, SECOND])]
fn the_surplus_of_a_create_repeated_before_its_reservation_is_trimmed_by_the_policy(
    #[case] policy: usize,
    #[case] left: &[u64],
) {
    let mut steps = unconfirmed(policy);
    // The plan repeats the create of the second machine, and the reservation comes before the request.
    steps.push(SimulationStep::Pass);
    steps.extend(RESERVED_AND_DELETED);
    steps.extend([
        SimulationStep::Act(RequestDelivery::Answered),
        SimulationStep::Act(RequestDelivery::Answered),
    ]);
    let world = run(Naming::Random, 1, 0, steps).unwrap();
    let transcript = &world.transcript;
    assert_eq!(
        transcript.matches(&format!("    create {}: ", numbered_machine_name(SECOND))).count(),
        2,
        "{transcript}"
    );
    assert_eq!(world.api.pool.desired, 1, "{transcript}");
    let mut expected: Vec<String> = left.iter().copied().map(numbered_machine_name).collect();
    expected.sort();
    assert_eq!(machines(&world), expected, "{transcript}");
}

#[test]
fn a_create_is_not_repeated_after_its_machine_was_reserved() {
    let mut steps = unconfirmed(0);
    steps.extend(RESERVED_AND_DELETED);
    steps.extend([
        SimulationStep::Pass,
        SimulationStep::Act(RequestDelivery::Answered),
        SimulationStep::Act(RequestDelivery::Answered),
    ]);
    let world = run(Naming::Random, 1, 0, steps).unwrap();
    let transcript = &world.transcript;
    assert_eq!(
        transcript.matches(&format!("    create {}: ", numbered_machine_name(SECOND))).count(),
        1,
        "{transcript}"
    );
    assert_eq!(machines(&world), [numbered_machine_name(FIRST)], "{transcript}");
}

#[test]
fn only_the_repetition_of_a_create_planned_before_the_reservation_may_replace_a_target() {
    let mut world = EngineSimulation::new(Naming::Random, 1, 0);
    for step in unconfirmed(0) {
        world.step(step).unwrap();
    }
    let before = world.api.history.len() - 1;
    for step in RESERVED_AND_DELETED {
        world.step(step).unwrap();
    }
    let after = world.api.history.len() - 1;
    let held = |number, planned| {
        let basis = RequestBasis { seen: 0, pool: 0, planned, current: true, activating: 0 };
        world.api.held(&numbered_machine_name(number), basis)
    };
    assert_eq!(held(SECOND, before), 0);
    assert_eq!(held(SECOND, after), 1);
    assert_eq!(held(SECOND + 1, before), 1);
}

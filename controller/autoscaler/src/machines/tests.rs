use jiff::Timestamp;
use rstest::rstest;
use vmpool_api::ObjectId;

use super::{DemandCounts, PoolMachine, PoolMachineState, choose_removed_machines};

fn machine(name: &str, created: i64, state: PoolMachineState) -> PoolMachine {
    PoolMachine { id: ObjectId::new(name, name), created: Timestamp::from_second(created).unwrap(), state }
}

fn machines() -> Vec<PoolMachine> {
    vec![
        machine("old-free", 1, PoolMachineState::Free),
        machine("new-free", 9, PoolMachineState::Free),
        machine("busy", 10, PoolMachineState::Busy),
        machine("restarting", 11, PoolMachineState::Other),
        machine("old-starting", 2, PoolMachineState::Provisioning),
        machine("new-starting", 3, PoolMachineState::Provisioning),
    ]
}

/// The names of those that a lowering removes.
fn names(replicas: u32, lowered: u32) -> Vec<String> {
    let chosen = choose_removed_machines(&machines(), replicas, lowered);
    chosen.iter().map(|id| id.name.to_string()).collect()
}

#[test]
fn machines_that_have_not_been_ready_leave_first_then_free_ones_newest_first() {
    assert_eq!(names(6, 3), ["new-starting", "old-starting", "new-free"]);
}

#[test]
fn a_busy_machine_and_a_restarting_one_never_leave() {
    assert_eq!(names(6, 0), ["new-starting", "old-starting", "new-free", "old-free"]);
}

#[rstest]
#[case::four_are_missing(10, 5, &["new-starting"])]
#[case::more_are_missing_than_should_leave(10, 6, &[])]
#[case::as_many_are_missing(10, 7, &[])]
#[case::there_are_more_than_replicas(4, 3, &["new-starting"])]
fn no_machine_leaves_in_the_place_of_a_missing_one(
    #[case] replicas: u32,
    #[case] lowered: u32,
    #[case] expected: &[&str],
) {
    assert_eq!(names(replicas, lowered), expected);
}

#[test]
fn each_machine_counts_in_its_state() {
    let counts = DemandCounts::of(&machines());
    assert_eq!(counts, DemandCounts { all: 6, busy: 1, free: 2, provisioning: 2 });
}

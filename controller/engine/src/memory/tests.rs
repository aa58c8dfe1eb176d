use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::numbers::Block;
use crate::pacing::FailureReason;
use crate::testing::World;

const NOW: Duration = Duration::from_secs(10);

fn failure(reason: FailureReason) -> Failure {
    Failure { reason, message: "denied".into() }
}

/// A memory in which every kind of write has failed.
fn failing() -> Memory {
    let mut memory = World::desiring(1).memory;
    memory.creating.failed(failure(FailureReason::FailedCreate), NOW, None, 0.0);
    memory.removing.failed(failure(FailureReason::FailedDelete), NOW, None, 0.0);
    memory.repairing.failed(failure(FailureReason::DiskFailure), NOW, None, 0.0);
    memory.recording.failed(failure(FailureReason::FailedRepair), NOW, None, 0.0);
    memory
}

fn causes(memory: &Memory) -> [bool; 4] {
    [&memory.creating, &memory.removing, &memory.repairing, &memory.recording]
        .map(|pacing| pacing.cause().is_some())
}

#[rstest]
#[case::nothing(Wants::default(), [false, false, false, false])]
#[case::creation(Wants { create: true, ..Wants::default() }, [true, false, false, false])]
#[case::removal(Wants { remove: true, ..Wants::default() }, [false, true, false, false])]
#[case::repair(Wants { repair: true, ..Wants::default() }, [false, false, true, false])]
#[case::the_record(Wants { record: true, ..Wants::default() }, [false, false, false, true])]
fn failures_of_what_is_not_wanted_are_forgotten(#[case] wants: Wants, #[case] kept: [bool; 4]) {
    let mut memory = failing();
    memory.keep_wanted(wants);
    assert_eq!(causes(&memory), kept);
}

#[test]
fn the_width_that_grows_after_a_failure_is_not_forgotten_with_it() {
    let mut memory = failing();
    memory.creating.succeeded();
    memory.keep_wanted(Wants::default());
    assert_eq!(memory.creating.width(NOW), Ok(2));
}

#[rstest]
#[case::an_edit_of_the_spec_is_a_reason_to_try_at_once(2, false)]
#[case::the_same_generation_is_not(1, true)]
fn a_new_generation_starts_afresh(#[case] generation: i64, #[case] pauses: bool) {
    let mut memory = failing();
    memory.meet(&World::desiring(1).pool(|pool| pool.generation = generation).pool, NOW);
    assert_eq!(causes(&memory), [pauses; 4]);
    assert_eq!(memory.creating.width(NOW).is_err(), pauses);
}

#[rstest]
#[case::no_block(0, None, 0)]
#[case::a_successor_begins_with_the_open_block(0, Some((64, 128)), 64)]
#[case::numbers_never_fall(70, Some((64, 128)), 70)]
#[case::a_block_of_another_leader_may_be_ahead(70, Some((100, 164)), 100)]
fn the_next_number(#[case] next: u64, #[case] block: Option<(u64, u64)>, #[case] expected: u64) {
    let mut memory = Memory { next_number: next, ..Memory::default() };
    let block = block.map(|(first, end)| Block { first, end });
    memory.meet(&World::desiring(1).pool(|pool| pool.block = block).pool, NOW);
    assert_eq!(memory.next_number, expected);
}

#[test]
fn the_gravest_failure_shows() {
    let mut memory = failing();
    let mut shown = Vec::new();
    while let Some(failure) = memory.failure() {
        shown.push(failure.reason);
        match failure.reason {
            FailureReason::FailedCreate => memory.creating.reset(),
            FailureReason::FailedDelete => memory.removing.reset(),
            FailureReason::DiskFailure => memory.repairing.reset(),
            FailureReason::FailedRepair => memory.recording.reset(),
        }
    }
    assert_eq!(
        shown,
        [
            FailureReason::FailedCreate,
            FailureReason::DiskFailure,
            FailureReason::FailedDelete,
            FailureReason::FailedRepair
        ]
    );
}

#[test]
fn a_reservation_is_as_old_as_it_is_known_and_forgotten_when_it_leaves() {
    let world = World::desiring(1).reserved("r", &["a"]);
    let mut memory = Memory::default();
    memory.meet(&world.pool, NOW);
    let later = NOW + Duration::from_secs(7);
    memory.meet(&world.pool, later);
    assert_eq!(memory.reservation_age("r", later), Duration::from_secs(7));
    assert_eq!(memory.reservation_age("another", later), Duration::ZERO);

    memory.meet(&World::desiring(1).pool, later);
    memory.meet(&world.pool, later);
    assert_eq!(memory.reservation_age("r", later), Duration::ZERO, "it came back as a new one");
}

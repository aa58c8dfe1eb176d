use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::FailureReason;
use crate::model::StatusSummary;
use crate::scale_up::names::NameBlock;
use crate::testing::{PoolWorld, running_machine};

const NOW: Duration = Duration::from_secs(10);

fn failure(reason: FailureReason) -> PoolFailure {
    PoolFailure { reason, message: "denied".into() }
}

/// A memory in which every kind of write failed.
fn failing() -> PassMemory {
    let mut memory = PoolWorld::desiring(1).memory;
    for stage in ApplyStage::ALL {
        let reason = match stage {
            ApplyStage::Prepare | ApplyStage::Activate | ApplyStage::Create | ApplyStage::Refill => {
                FailureReason::FailedCreate
            }
            ApplyStage::Remove => FailureReason::FailedDelete,
            ApplyStage::Repair | ApplyStage::CollectDisks | ApplyStage::ExpandDisks => {
                FailureReason::DiskFailure
            }
            ApplyStage::Update | ApplyStage::Restart => FailureReason::FailedTemplateUpdate,
            ApplyStage::Relabel | ApplyStage::RecordRevision | ApplyStage::Standby | ApplyStage::CleanUp => {
                FailureReason::FailedRepair
            }
        };
        memory.backoff_mut(stage).failed(failure(reason), NOW, None, 0.0);
    }
    memory
}

/// The stages with a recorded failure.
fn causes(memory: &mut PassMemory) -> Vec<ApplyStage> {
    ApplyStage::ALL.into_iter().filter(|stage| memory.backoff_mut(*stage).cause().is_some()).collect()
}

#[rstest]
#[case::nothing(WantedWrites::default(), &[])]
#[case::creation(WantedWrites { create: true, ..WantedWrites::default() }, &[ApplyStage::Prepare, ApplyStage::Create])]
#[case::removal(WantedWrites { remove: true, ..WantedWrites::default() }, &[ApplyStage::Remove])]
#[case::relabel(WantedWrites { relabel: true, ..WantedWrites::default() }, &[ApplyStage::Relabel])]
#[case::repair(WantedWrites { repair: true, ..WantedWrites::default() }, &[ApplyStage::Repair])]
#[case::the_record(WantedWrites { clean_up: true, ..WantedWrites::default() }, &[ApplyStage::CleanUp])]
#[case::an_activation(WantedWrites { activate: true, ..WantedWrites::default() }, &[ApplyStage::Activate])]
#[case::a_refill(WantedWrites { refill: true, ..WantedWrites::default() }, &[ApplyStage::Refill])]
#[case::standby(WantedWrites { standby: true, ..WantedWrites::default() }, &[ApplyStage::Standby])]
#[case::a_rollout(WantedWrites { update: true, ..WantedWrites::default() }, &[ApplyStage::Update])]
#[case::its_restarts(WantedWrites { restart: true, ..WantedWrites::default() }, &[ApplyStage::Restart])]
#[case::its_end(WantedWrites { record_revision: true, ..WantedWrites::default() }, &[ApplyStage::RecordRevision])]
#[case::kept_disks(WantedWrites { collect_disks: true, ..WantedWrites::default() }, &[ApplyStage::CollectDisks])]
#[case::larger_disks(WantedWrites { expand_disks: true, ..WantedWrites::default() }, &[ApplyStage::ExpandDisks])]
fn failures_of_what_is_not_wanted_are_forgotten(#[case] wants: WantedWrites, #[case] kept: &[ApplyStage]) {
    let mut memory = failing();
    memory.reset_unwanted(wants);
    assert_eq!(causes(&mut memory), kept);
}

#[test]
fn the_width_that_grows_after_a_failure_is_not_forgotten_with_it() {
    let mut memory = failing();
    memory.backoff_mut(ApplyStage::Create).succeeded();
    memory.reset_unwanted(WantedWrites::default());
    assert_eq!(memory.backoff(ApplyStage::Create).batch_size(NOW), Ok(2));
}

#[rstest]
#[case::an_edit_of_the_spec_is_a_reason_to_try_at_once(2, false)]
#[case::the_same_generation_is_not(1, true)]
fn a_new_generation_starts_afresh(#[case] generation: i64, #[case] pauses: bool) {
    let mut memory = failing();
    memory.observe(&PoolWorld::desiring(1).pool(|pool| pool.generation = generation).pool, NOW);
    assert_eq!(causes(&mut memory), if pauses { ApplyStage::ALL.to_vec() } else { Vec::new() });
    assert_eq!(memory.backoff(ApplyStage::Create).batch_size(NOW).is_err(), pauses);
}

#[rstest]
#[case::no_block(0, None, 0)]
#[case::a_new_leader_starts_with_the_current_block(0, Some((64, 128)), 64)]
#[case::numbers_never_fall(70, Some((64, 128)), 70)]
#[case::a_block_of_another_leader_may_be_ahead(70, Some((100, 164)), 100)]
fn the_next_number(#[case] next: u64, #[case] block: Option<(u64, u64)>, #[case] expected: u64) {
    let mut memory = PassMemory { next_number: next, ..PassMemory::default() };
    let block = block.map(|(first, end)| NameBlock { first, end });
    memory.observe(&PoolWorld::desiring(1).pool(|pool| pool.name_block = block).pool, NOW);
    assert_eq!(memory.next_number, expected);
}

/// A change of the machines writes the status, and the next number with it.
#[rstest]
#[case::the_definition_does_not_keep_it(None, 64)]
#[case::it_is_in_the_block(Some(70), 70)]
#[case::another_client_wrote_a_smaller_one(Some(3), 64)]
#[case::another_client_wrote_a_greater_one(Some(1 << 40), 128)]
fn a_new_leader_goes_on_from_the_number_in_the_status(#[case] published: Option<u64>, #[case] expected: u64) {
    let world = PoolWorld::desiring(1).block(64, 128);
    let summary = crate::compute_status(&world.observed(&world.snapshot()), None).summary;
    assert_eq!(summary.next_number, Some(64), "what this leader publishes");
    let published = Some(StatusSummary { next_number: published, ..summary });
    let world = world.pool(|pool| pool.published.summary = published);
    let mut memory = PassMemory::default();
    memory.observe(&world.pool, NOW);
    assert_eq!(memory.next_number, expected);
}

#[test]
fn the_gravest_failure_shows() {
    let mut memory = failing();
    let mut shown = Vec::new();
    while let Some(failure) = memory.failure() {
        let reason = failure.reason;
        for stage in ApplyStage::ALL {
            if memory.backoff_mut(stage).cause().is_some_and(|cause| cause.reason == reason) {
                memory.backoff_mut(stage).reset();
            }
        }
        shown.push(reason);
    }
    assert_eq!(
        shown,
        [
            FailureReason::FailedCreate,
            FailureReason::DiskFailure,
            FailureReason::FailedDelete,
            FailureReason::FailedTemplateUpdate,
            FailureReason::FailedRepair
        ]
    );
}

#[test]
fn a_reservation_is_as_old_as_it_is_known_and_forgotten_when_it_leaves() {
    let world = PoolWorld::desiring(1).reserved("r", &["a"]);
    let mut memory = PassMemory::default();
    memory.observe(&world.pool, NOW);
    let later = NOW + Duration::from_secs(7);
    memory.observe(&world.pool, later);
    let left = |memory: &PassMemory, request, seconds| {
        memory.reservation_left(request, Duration::from_secs(seconds), later)
    };
    assert_eq!(left(&memory, "r", 30), Some(Duration::from_secs(23)));
    assert_eq!(left(&memory, "another", 30), Some(Duration::from_secs(30)));
    assert_eq!(left(&memory, "r", 8), Some(Duration::from_secs(1)));
    assert_eq!(left(&memory, "r", 7), None);

    memory.observe(&PoolWorld::desiring(1).pool, later);
    memory.observe(&world.pool, later);
    assert_eq!(
        left(&memory, "r", 7),
        Some(Duration::from_secs(7)),
        "a pool of the same name has another UID"
    );
}

#[test]
fn another_revision_is_a_reason_to_bring_it_to_machines_at_once() {
    let mut memory = failing();
    memory.observe(&PoolWorld::desiring(1).pool(|pool| pool.revision.id = "r2".into()).pool, NOW);
    assert_eq!(memory.backoff(ApplyStage::Update).batch_size(NOW), Ok(crate::backoff::MAX_BATCH));
    assert!(memory.backoff(ApplyStage::Create).batch_size(NOW).is_err());
}

#[test]
fn the_wait_for_a_disk_ends_with_the_first_plan_without_it() {
    let (mut memory, later) = (PassMemory::default(), NOW + Duration::from_secs(7));
    memory.await_disks(&["a".into(), "b".into()], NOW);
    memory.await_disks(&["a".into(), "c".into()], later);
    let ages = ["a", "b", "c"].map(|disk| memory.awaited(disk, later).as_secs());
    assert_eq!(ages, [7, 0, 0]);
    memory.await_disks(&[], later);
    memory.await_disks(&["a".into()], later);
    assert_eq!(memory.awaited("a", later), Duration::ZERO, "a pool of the same name has another UID");
}

#[test]
fn a_disk_of_a_rejected_machine_is_not_allocated_for_a_while() {
    let mut memory = PassMemory::default();
    memory.refuse_disk(&"a".into(), NOW);
    assert_eq!(memory.disk_refusal("a", NOW), Some(REFUSAL_AGE));
    assert_eq!(memory.disk_refusal("b", NOW), None);
    let later = NOW + Duration::from_mins(9);
    assert_eq!(memory.disk_refusal("a", later), Some(Duration::from_mins(1)));
    assert_eq!(memory.disk_refusal("a", NOW + REFUSAL_AGE), None);
}

#[test]
fn the_first_pause_to_end_is_the_one_to_wait_for() {
    let mut memory = PassMemory::default();
    assert_eq!(memory.remaining_backoff(NOW), None);
    memory.backoff_mut(ApplyStage::ExpandDisks).failed(
        failure(FailureReason::DiskFailure),
        NOW,
        Some(Duration::from_secs(9)),
        0.0,
    );
    assert_eq!(memory.remaining_backoff(NOW), Some(Duration::from_secs(9)));
    memory.backoff_mut(ApplyStage::CollectDisks).failed(
        failure(FailureReason::DiskFailure),
        NOW,
        Some(Duration::from_secs(3)),
        0.0,
    );
    assert_eq!(memory.remaining_backoff(NOW), Some(Duration::from_secs(3)));
    assert_eq!(memory.remaining_backoff(NOW + Duration::from_secs(3)), Some(Duration::from_secs(6)));
}

#[test]
fn a_disk_is_suspected_until_a_machine_is_accepted_with_it_and_refused_after_a_few_times() {
    let mut memory = PassMemory::default();
    let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
    for _ in 1..SUSPICIONS {
        assert_eq!(memory.suspected_disks().count(), 0);
        memory.suspect_disks([&a, &b]);
    }
    memory.accept_disks([&a]);
    assert_eq!(memory.suspected_disks().collect::<Vec<_>>(), [&b]);
    memory.refuse_disk(&b, NOW);
    assert_eq!(memory.suspected_disks().count(), 0);
    assert_eq!((memory.disk_refusal("a", NOW), memory.disk_refusal("b", NOW)), (None, Some(REFUSAL_AGE)));
}

#[test]
fn creates_start_slowly_until_one_succeeded_in_the_last_half_minute() {
    let mut memory = PassMemory::default();
    let at = Duration::from_secs;
    assert!(memory.creates_start_slowly(at(100)));
    memory.machine_created(at(100));
    assert!(!memory.creates_start_slowly(at(100)));
    assert!(!memory.creates_start_slowly(at(129)));
    assert!(memory.creates_start_slowly(at(130)));
}

#[test]
fn the_number_of_healed_machines_continues_from_the_status() {
    let mut world = PoolWorld::desiring(1);
    world.pool.published.summary =
        Some(crate::status::compute_status(&world.observed(&world.snapshot()), None).summary);
    world.pool.published.summary.as_mut().unwrap().healed = 4;
    let mut memory = PassMemory::default();
    memory.observe(&world.pool, NOW);
    let machine = ObjectId::new("web-0", "u");
    memory.heal(&machine, NOW);
    memory.heal(&machine, NOW);
    memory.observe(&world.pool, NOW);
    assert_eq!(memory.healed_machines(), 5, "each machine counts once, and an old status changes nothing");
}

#[test]
fn machines_that_were_replaced_are_forgotten_when_they_are_gone() {
    let mut memory = PassMemory::default();
    let [gone, terminating] = ["web-0", "web-1"].map(|name| Arc::new(running_machine(name, 0)));
    for machine in [&gone, &terminating] {
        memory.heal(&machine.id, Duration::ZERO);
    }
    memory.forget_healed([&terminating].into_iter());
    assert_eq!((memory.is_healed(&gone.id.uid), memory.is_healed(&terminating.id.uid)), (false, true));
    assert_eq!(memory.healed_machines(), 2);
}

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::PassMemory;
use crate::backoff::{Backoff, MAX_BATCH};
use crate::failure::{FailureReason, PoolFailure};
use crate::membership::losses::Rehearsal;
use crate::model::{DiskDraft, Draft, Lifetime, MachineActivity, Naming, PoolDiskTemplate, ScaleDownPolicy};
use crate::plan::PoolAction;
use crate::plan::{DeleteReason, NamesInUse, SurplusRule};
use crate::scale_up::names::{MIN_BLOCK, NameBlock};
use crate::testing::{PoolWorld, created_machines, deleted_machines, numbered_machine_name, own_disk};

fn terminating(world: PoolWorld, numbers: impl IntoIterator<Item = u64>) -> PoolWorld {
    numbers.into_iter().fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| machine.terminating = true)
    })
}

fn stopped(world: PoolWorld, number: u64) -> PoolWorld {
    world.edit(&numbered_machine_name(number), |machine| machine.activity = MachineActivity::NotRunning)
}

fn released(world: PoolWorld, number: u64) -> PoolWorld {
    world.edit(&numbered_machine_name(number), |machine| machine.owner = None)
}

#[rstest]
#[case::an_empty_pool_is_filled(PoolWorld::desiring(3), 3)]
#[case::a_full_pool_is_unchanged(PoolWorld::desiring(3).with_machines(3), 0)]
#[case::a_pool_of_none_stays_empty(PoolWorld::desiring(0), 0)]
#[case::what_is_missing_is_created(PoolWorld::desiring(5).with_machines(3), 2)]
#[case::a_terminating_machine_delays_its_replacement(terminating(PoolWorld::desiring(3).with_machines(3), [0]), 0)]
#[case::a_stuck_terminating_machine_does_not_block_creates(terminating(PoolWorld::desiring(5).with_machines(3), [0]), 2)]
#[case::a_stopped_machine_is_not_replaced(stopped(PoolWorld::desiring(3).with_machines(3), 1), 0)]
#[case::a_released_machine_is_replaced(released(PoolWorld::desiring(3).with_machines(3), 1), 1)]
#[case::an_explicit_pool_grows(PoolWorld::desiring(3).with_machines(1).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit), 2)]
#[case::a_surplus_creates_nothing(PoolWorld::desiring(1).with_machines(3), 0)]
#[case::one_pass_creates_no_more_than_a_full_batch(PoolWorld::desiring(2000), MAX_BATCH)]
fn creates_what_is_missing(#[case] world: PoolWorld, #[case] expected: usize) {
    let plan = world.plan();
    assert_eq!(created_machines(&plan).len(), expected);
    assert_eq!(plan.wants.create, expected > 0);
    let rest = world.pool.desired.saturating_sub(world.machines.len()) > MAX_BATCH;
    assert_eq!(
        plan.requeue_after,
        rest.then_some(std::time::Duration::ZERO),
        "the remaining machines follow without a delay"
    );
}

#[test]
fn a_draft_carries_every_choice() {
    let world = PoolWorld::desiring(1)
        .pool(|pool| pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Ephemeral)));
    let machine = numbered_machine_name(0);
    let disk = |template: &str| DiskDraft::new(format!("{machine}-{template}").into(), template.into());
    assert_eq!(
        world.plan().actions,
        [
            PoolAction::OpenNameBlock { block: NameBlock { first: 0, end: MIN_BLOCK } },
            PoolAction::Create {
                draft: Draft {
                    name: machine.as_str().into(),
                    number: 0,
                    revision: "r1".into(),
                    disks: vec![disk("root"), disk("data")],
                    rehearsal: Rehearsal::None,
                    standby: None,
                }
            },
        ]
    );
}

#[rstest]
#[case::the_first_block_starts_at_zero(PoolWorld::desiring(3), Some((0, 64)))]
#[case::a_block_with_room_stays_open(PoolWorld::desiring(3).block(0, 64), None)]
#[case::the_last_number_of_a_block_may_be_used(PoolWorld::desiring(4).with_machines(3).block(0, 4), None)]
#[case::past_the_end_a_new_block_is_opened(PoolWorld::desiring(5).with_machines(3).block(0, 4), Some((3, 67)))]
#[case::a_block_holds_a_whole_batch(PoolWorld::desiring(400), Some((0, 400)))]
#[case::a_block_holds_no_more_than_a_batch(PoolWorld::desiring(2_000_000_000), Some((0, 500)))]
#[case::a_successor_continues_in_the_open_block(PoolWorld::desiring(3).block(64, 128), None)]
#[case::nothing_to_create_opens_nothing(PoolWorld::desiring(3).with_machines(3).block(0, 3), None)]
#[case::a_lost_answer_stays_inside_the_open_block(
    PoolWorld::desiring(80).block(0, 3).with_unconfirmed([2]), Some((2, 82))
)]
#[case::a_repeated_create_needs_no_new_block(PoolWorld::desiring(1).block(0, 3).with_unconfirmed([2]), None)]
#[case::a_lost_annotation_is_written_again(
    PoolWorld::desiring(4).with_machines(3).pool(|pool| pool.name_block = None), Some((3, 67))
)]
fn opens_a_block_exactly_when_needed(#[case] world: PoolWorld, #[case] expected: Option<(u64, u64)>) {
    let plan = world.plan();
    let blocks: Vec<(u64, u64)> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            PoolAction::OpenNameBlock { block } => Some((block.first, block.end)),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, Vec::from_iter(expected));
}

#[test]
fn a_block_reaches_past_every_name_that_is_skipped() {
    let world =
        (0..100).fold(PoolWorld::desiring(1), |world, number| world.taken(&numbered_machine_name(number)));
    let plan = world.plan();
    assert_eq!(created_machines(&plan), [numbered_machine_name(100)]);
    assert_eq!(plan.actions[0], PoolAction::OpenNameBlock { block: NameBlock { first: 0, end: 101 } });
}

#[rstest]
#[case::the_next_number(PoolWorld::desiring(1), &[0])]
#[case::a_number_of_a_removed_machine_is_not_drawn(
    PoolWorld::desiring(2).block(0, 64).accepted("r", &[&numbered_machine_name(0)]), &[1]
)]
#[case::a_number_is_never_drawn_twice(PoolWorld::desiring(1).block(0, 64).memory(|memory| memory.next_number = 7), &[7])]
#[case::numbers_below_the_open_block_do_not_return(PoolWorld::desiring(1).block(64, 128), &[64])]
#[case::a_foreign_machine_has_the_name(PoolWorld::desiring(2).taken(&numbered_machine_name(0)), &[1, 2])]
#[case::a_foreign_disk_has_the_name_of_its_disk(PoolWorld::desiring(2).taken(&format!("{}-root", numbered_machine_name(1))), &[0, 2])]
#[case::a_dying_disk_of_an_earlier_machine_has_it(
    PoolWorld::desiring(1).disk(&format!("{}-root", numbered_machine_name(0)), |_| Some(own_disk("d", &crate::testing::running_machine("x", 0)))),
    &[1]
)]
fn names_come_from_free_numbers(#[case] world: PoolWorld, #[case] numbers: &[u64]) {
    let expected: Vec<String> = numbers.iter().copied().map(numbered_machine_name).collect();
    assert_eq!(created_machines(&world.plan()), expected);
}

#[rstest]
#[case::from_zero(PoolWorld::desiring(2), &["web-0", "web-1"])]
#[case::the_smallest_hole(PoolWorld::desiring(3).with_machine("web-0", 1).with_machine("web-2", 1), &["web-1"])]
#[case::a_terminating_machine_keeps_its_ordinal(
    PoolWorld::desiring(2).with_machine("web-0", 1).edit("web-0", |machine| machine.terminating = true), &["web-1"]
)]
#[case::a_foreign_object_keeps_its_name(PoolWorld::desiring(1).taken("web-0"), &["web-1"])]
#[case::a_foreign_disk_keeps_its_name(PoolWorld::desiring(1).taken("web-0-root"), &["web-1"])]
#[case::a_lost_answer_keeps_its_ordinal(
    PoolWorld::desiring(3).memory(|memory| memory.machines.create_unconfirmed(&"web-1".into(), 1, Duration::from_secs(100))),
    &["web-1", "web-0", "web-2"]
)]
fn ordinals_are_the_smallest_that_are_free(#[case] world: PoolWorld, #[case] expected: &[&str]) {
    let plan = world.pool(|pool| pool.naming = Naming::Ordinal).plan();
    assert_eq!(created_machines(&plan), expected);
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::OpenNameBlock { .. })));
}

#[test]
fn an_ordinal_whose_storage_belongs_to_another_machine_waits_and_the_others_are_created() {
    let later = |seconds: u64| {
        let mut world = PoolWorld::desiring(3).pool(|pool| pool.naming = Naming::Ordinal).memory(|memory| {
            let why = "DataVolume root-1 is controlled by VirtualMachine b-1".to_owned();
            memory.record_storage_conflict(&"web-1".into(), why, Duration::from_secs(100));
        });
        world.uptime = Duration::from_secs(100 + seconds);
        world.plan()
    };
    let plan = later(10);
    assert_eq!(created_machines(&plan), ["web-0", "web-2"], "no greater ordinal takes its place");
    let failure = plan.failure.unwrap();
    assert_eq!(failure.reason, FailureReason::FailedCreate);
    assert_eq!(failure.message, "DataVolume root-1 is controlled by VirtualMachine b-1");
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(20)));
    let again = later(30);
    assert_eq!((created_machines(&again), &again.failure), (vec!["web-0", "web-1", "web-2"], &None));
}

#[test]
fn an_ordinal_whose_create_was_rejected_delays_no_other() {
    let refused = |failed: bool| {
        PoolWorld::desiring(3).pool(|pool| pool.naming = Naming::Ordinal).memory(|memory| {
            memory.record_result(&"web-0".into(), true);
            if failed {
                let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "denied".into() };
                memory.backoff_mut(ApplyStage::Create).failed(failure, Duration::ZERO, None, 0.0);
            }
        })
    };
    assert_eq!(created_machines(&refused(false).plan()), ["web-1", "web-2", "web-0"]);
    assert_eq!(created_machines(&refused(true).plan()), ["web-1"], "one at a time after a failure");
}

/// A user writes the number of replicas, so no pass may take time or memory in proportion to what is missing.
#[rstest]
#[case::a_rejected_create(|memory: &mut PassMemory| memory.record_result(&"web-0".into(), true))]
#[case::a_storage_conflict(|memory: &mut PassMemory| {
    memory.record_storage_conflict(&"web-0".into(), "DataVolume root-0 exists".to_owned(), Duration::from_secs(100));
})]
fn after_a_failure_a_pass_draws_no_more_ordinals_than_it_uses(#[case] failed: fn(&mut PassMemory)) {
    struct Counted(AtomicUsize);
    impl NamesInUse for Counted {
        fn has_machine(&self, _: &str) -> bool {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) < 2 * MAX_BATCH, "too many names are looked up");
            false
        }
        fn has_disk(&self, _: &str) -> bool {
            false
        }
    }
    let world = PoolWorld::desiring(usize::try_from(i32::MAX).unwrap())
        .pool(|pool| pool.naming = Naming::Ordinal)
        .memory(failed);
    let (snapshot, names) = (world.snapshot(), Counted(AtomicUsize::new(0)));
    let observed = ObservedPool { names_in_use: &names, ..world.observed(&snapshot) };
    assert_eq!(created_machines(&crate::plan_pass(&observed)).len(), MAX_BATCH);
}

/// Numbers in the order of their names.
fn by_name(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_by_key(|number| numbered_machine_name(*number));
    numbers
}

#[rstest]
#[case::all_are_wanted_and_repeated(PoolWorld::desiring(3).block(0, 64).with_unconfirmed(0..3), 3, 0, 0)]
#[case::further_ones_are_created_beside_them(PoolWorld::desiring(5).block(0, 64).with_unconfirmed(0..3), 3, 2, 0)]
#[case::those_not_wanted_any_more_are_waited_for(PoolWorld::desiring(1).block(0, 64).with_unconfirmed(0..3), 1, 0, 2)]
#[case::no_create_is_needed_any_more(PoolWorld::desiring(0).block(0, 64).with_unconfirmed(0..3), 0, 0, 3)]
#[case::machines_replaced_them(PoolWorld::desiring(3).with_machines(3).with_unconfirmed(3..5), 0, 0, 2)]
#[case::a_surplus_does_not_hide_them(PoolWorld::desiring(1).with_machines(3).with_unconfirmed(3..5), 0, 0, 2)]
fn unconfirmed_creates(
    #[case] world: PoolWorld,
    #[case] repeated: usize,
    #[case] fresh: usize,
    #[case] waited_for: usize,
) {
    let lost = world.memory.machines.unconfirmed_creates();
    let plan = world.plan();
    let names = created_machines(&plan);
    assert_eq!(names.len(), repeated + fresh);
    assert!(names[..repeated].iter().zip(&lost).all(|(name, lost)| **name == *lost.name));
    let blockers: Vec<Blocker> = lost[lost.len() - waited_for..]
        .iter()
        .map(|l| Blocker::UnconfirmedCreate { name: l.name.clone() })
        .collect();
    assert_eq!(plan.blockers, blockers);
    assert_eq!(plan.requeue_after, (waited_for > 0).then_some(REQUEST_TIMEOUT));
}

#[test]
fn a_lost_answer_is_repeated_under_its_own_number() {
    let plan = PoolWorld::desiring(2).block(0, 64).with_unconfirmed([3, 5]).plan();
    let numbers: Vec<u64> = plan
        .actions
        .iter()
        .map(|action| match action {
            PoolAction::Create { draft } => draft.number,
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(numbers, by_name([3, 5]));
}

#[test]
fn a_lost_answer_is_no_reason_to_delete() {
    let plan = PoolWorld::desiring(3).with_machines(3).with_unconfirmed([3]).plan();
    assert_eq!(deleted_machines(&plan), [""; 0]);
}

#[test]
fn the_wait_for_a_lost_answer_ends_with_the_servers_timeout() {
    let mut world = PoolWorld::desiring(0).block(0, 64).with_unconfirmed([0]);
    world.uptime += Duration::from_secs(20);
    assert_eq!(world.plan().requeue_after, Some(REQUEST_TIMEOUT.saturating_sub(Duration::from_secs(20))));
}

fn failing(pacing: &mut Backoff) {
    let cause = PoolFailure { reason: FailureReason::FailedCreate, message: "exceeded quota".into() };
    pacing.failed(cause, Duration::from_secs(100), None, 0.0);
}

#[test]
fn after_a_failure_creation_pauses_and_the_plan_says_for_how_long() {
    let plan = PoolWorld::desiring(5).memory(|memory| failing(memory.backoff_mut(ApplyStage::Create))).plan();
    let left = Duration::from_millis(250);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.blockers, [Blocker::Backoff { stage: ApplyStage::Create, left }]);
    assert_eq!(plan.requeue_after, Some(left));
    assert!(plan.wants.create);
}

#[rstest]
#[case::one_at_first(0, 1)]
#[case::then_two(1, 2)]
#[case::then_four(2, 4)]
#[case::no_more_than_is_missing(3, 5)]
fn after_the_pause_batches_grow(#[case] successes: usize, #[case] expected: usize) {
    let mut world = PoolWorld::desiring(5).memory(|memory| {
        failing(memory.backoff_mut(ApplyStage::Create));
        (0..successes).for_each(|_| memory.backoff_mut(ApplyStage::Create).succeeded());
    });
    world.uptime += Duration::from_secs(1);
    assert_eq!(created_machines(&world.plan()).len(), expected);
}

#[test]
fn lost_answers_are_repeated_before_anything_new_is_tried() {
    let mut world = PoolWorld::desiring(5)
        .block(0, 64)
        .with_unconfirmed([4])
        .memory(|memory| failing(memory.backoff_mut(ApplyStage::Create)));
    world.uptime += Duration::from_secs(1);
    assert_eq!(created_machines(&world.plan()), [numbered_machine_name(4)]);
}

#[test]
fn repairs_come_before_creates() {
    let disk = format!("{}-root", numbered_machine_name(0));
    let plan = PoolWorld::desiring(2).with_machines(1).disk(&disk, |_| None).plan();
    let stages: Vec<ApplyStage> = plan.actions.iter().map(PoolAction::stage).collect();
    assert_eq!(stages, [ApplyStage::Repair, ApplyStage::Create]);
}

#[test]
fn while_disks_cannot_be_created_no_machine_is() {
    let disk = format!("{}-root", numbered_machine_name(0));
    let world = PoolWorld::desiring(2)
        .with_machines(1)
        .disk(&disk, |_| None)
        .memory(|memory| failing(memory.backoff_mut(ApplyStage::Repair)));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    let pause = |stage| Blocker::Backoff { stage, left: Duration::from_millis(250) };
    assert_eq!(plan.blockers, [pause(ApplyStage::Repair), pause(ApplyStage::Create)]);
}

#[test]
fn while_more_disks_are_missing_than_may_be_tried_no_machine_is_created() {
    let world = [0, 1].into_iter().fold(PoolWorld::desiring(3).with_machines(2), |world, number| {
        world.disk(&format!("{}-root", numbered_machine_name(number)), |_| None)
    });
    let mut world = world.memory(|memory| failing(memory.backoff_mut(ApplyStage::Repair)));
    world.uptime += Duration::from_secs(1);
    let stages: Vec<ApplyStage> = world.plan().actions.iter().map(PoolAction::stage).collect();
    assert_eq!(stages, [ApplyStage::Repair]);
}

#[test]
fn labels_that_cannot_be_written_do_not_stop_growth() {
    let world = PoolWorld::desiring(2)
        .with_machines(1)
        .edit(&numbered_machine_name(0), |machine| machine.pool_label = None)
        .memory(|memory| failing(memory.backoff_mut(ApplyStage::Repair)));
    assert_eq!(created_machines(&world.plan()), [numbered_machine_name(1)]);
}

#[rstest]
#[case::a_flaw(
    |pool: &mut crate::Pool| pool.validation_errors.push("spec.replicas is -1".into()),
    "no machine is created, updated or removed: spec.replicas is -1"
)]
fn what_only_the_owner_can_mend_blocks_creation_but_not_removal(
    #[case] spoil: fn(&mut crate::Pool),
    #[case] message: &str,
) {
    let expanding_disks = PoolWorld::desiring(3).with_machines(1).with_unconfirmed([1]).pool(spoil).plan();
    assert_eq!(expanding_disks.actions, []);
    assert_eq!(expanding_disks.blockers, [Blocker::UserAction(message.into())]);
    assert!(expanding_disks.wants.create);

    let shrinking = PoolWorld::desiring(1).with_machines(2).pool(spoil).plan();
    let machine =
        crate::ObjectId::new(&numbered_machine_name(1), &format!("uid-of-{}", numbered_machine_name(1)));
    assert_eq!(
        shrinking.actions,
        [PoolAction::Delete { machine, reason: DeleteReason::Surplus { rule: SurplusRule::Policy } }]
    );
}

#[rstest]
#[case::reserved_and_there(PoolWorld::desiring(3).with_machines(3).reserved("r", &[&numbered_machine_name(0)]), 0)]
#[case::reserved_and_gone(PoolWorld::desiring(3).with_machines(2).reserved("r", &["web-gone"]), 0)]
#[case::reserved_twice_and_gone(
    PoolWorld::desiring(3).with_machines(1).reserved("r", &["web-gone"]).reserved("s", &["web-gone"]), 1
)]
#[case::accepted_and_gone(PoolWorld::desiring(3).with_machines(2).accepted("r", &["web-gone"]), 0)]
#[case::accepted_reserved_again_and_gone(
    PoolWorld::desiring(3).with_machines(2).accepted("r", &["web-gone"]).reserved("s", &["web-gone"]), 0
)]
#[case::accepted_and_terminating(
    terminating(PoolWorld::desiring(3).with_machines(3), [0]).accepted("r", &[&numbered_machine_name(0)]), 0
)]
#[case::others_are_missing_besides(PoolWorld::desiring(4).with_machines(2).reserved("r", &["web-gone"]), 1)]
fn a_reserved_machine_is_not_replaced(#[case] world: PoolWorld, #[case] expected: usize) {
    assert_eq!(created_machines(&world.plan()).len(), expected);
}

#[test]
fn a_create_without_an_answer_is_not_repeated_in_the_place_of_a_reserved_machine() {
    let world = PoolWorld::desiring(3)
        .with_machines(2)
        .block(0, 64)
        .with_unconfirmed([2])
        .reserved("r", &["web-gone"]);
    let plan = world.plan();
    assert_eq!(created_machines(&plan), [""; 0]);
    assert!(
        plan.blockers.contains(&Blocker::Reservation { machine: "web-gone".into() }),
        "{:?}",
        plan.blockers
    );
}

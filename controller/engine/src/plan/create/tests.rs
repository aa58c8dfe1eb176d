use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::Memory;
use crate::backoff::{Backoff, MAX_BATCH};
use crate::failure::{Failure, FailureReason};
use crate::model::{Activity, DiskTemplate, ScaleDownPolicy};
use crate::plan::{DeleteReason, NamesInUse};
use crate::testing::{World, created, deleted, name, own_disk};

fn terminating(world: World, numbers: impl IntoIterator<Item = u64>) -> World {
    numbers
        .into_iter()
        .fold(world, |world, number| world.edit(&name(number), |machine| machine.terminating = true))
}

fn stopped(world: World, number: u64) -> World {
    world.edit(&name(number), |machine| machine.activity = Activity::NotRunning)
}

fn released(world: World, number: u64) -> World {
    world.edit(&name(number), |machine| machine.owner = None)
}

#[rstest]
#[case::an_empty_pool_is_filled(World::desiring(3), 3)]
#[case::a_full_pool_is_unchanged(World::desiring(3).with_machines(3), 0)]
#[case::a_pool_of_none_stays_empty(World::desiring(0), 0)]
#[case::what_is_missing_is_created(World::desiring(5).with_machines(3), 2)]
#[case::a_terminating_machine_delays_its_replacement(terminating(World::desiring(3).with_machines(3), [0]), 0)]
#[case::a_stuck_terminating_machine_does_not_block_creates(terminating(World::desiring(5).with_machines(3), [0]), 2)]
#[case::a_stopped_machine_is_not_replaced(stopped(World::desiring(3).with_machines(3), 1), 0)]
#[case::a_released_machine_is_replaced(released(World::desiring(3).with_machines(3), 1), 1)]
#[case::an_explicit_pool_grows(World::desiring(3).with_machines(1).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit), 2)]
#[case::a_surplus_creates_nothing(World::desiring(1).with_machines(3), 0)]
#[case::one_pass_creates_no_more_than_a_full_batch(World::desiring(2000), MAX_BATCH)]
fn creates_what_is_missing(#[case] world: World, #[case] expected: usize) {
    let plan = world.plan();
    assert_eq!(created(&plan).len(), expected);
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
    let world =
        World::desiring(1).pool(|pool| pool.disks.push(DiskTemplate::new("data", Lifetime::Ephemeral)));
    let machine = name(0);
    let disk = |template: &str| DiskDraft::new(format!("{machine}-{template}").into(), template.into());
    assert_eq!(
        world.plan().actions,
        [
            Action::OpenNameBlock { block: NameBlock { first: 0, end: MIN_BLOCK } },
            Action::Create {
                draft: Draft {
                    name: machine.as_str().into(),
                    number: 0,
                    revision: "r1".into(),
                    disks: vec![disk("root"), disk("data")],
                    rehearsal: Rehearsal::None,
                }
            },
        ]
    );
}

#[rstest]
#[case::the_first_block_starts_at_zero(World::desiring(3), Some((0, 64)))]
#[case::a_block_with_room_stays_open(World::desiring(3).block(0, 64), None)]
#[case::the_last_number_of_a_block_may_be_used(World::desiring(4).with_machines(3).block(0, 4), None)]
#[case::past_the_end_a_new_block_is_opened(World::desiring(5).with_machines(3).block(0, 4), Some((3, 67)))]
#[case::a_block_holds_a_whole_batch(World::desiring(400), Some((0, 400)))]
#[case::a_block_holds_no_more_than_a_batch(World::desiring(2_000_000_000), Some((0, 500)))]
#[case::a_successor_continues_in_the_open_block(World::desiring(3).block(64, 128), None)]
#[case::nothing_to_create_opens_nothing(World::desiring(3).with_machines(3).block(0, 3), None)]
#[case::a_lost_answer_stays_inside_the_open_block(
    World::desiring(80).block(0, 3).with_unconfirmed([2]), Some((2, 82))
)]
#[case::a_repeated_create_needs_no_new_block(World::desiring(1).block(0, 3).with_unconfirmed([2]), None)]
#[case::a_lost_annotation_is_written_again(
    World::desiring(4).with_machines(3).pool(|pool| pool.name_block = None), Some((3, 67))
)]
fn opens_a_block_exactly_when_needed(#[case] world: World, #[case] expected: Option<(u64, u64)>) {
    let plan = world.plan();
    let blocks: Vec<(u64, u64)> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::OpenNameBlock { block } => Some((block.first, block.end)),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, Vec::from_iter(expected));
}

#[test]
fn a_block_reaches_past_every_name_that_is_skipped() {
    let world = (0..100).fold(World::desiring(1), |world, number| world.taken(&name(number)));
    let plan = world.plan();
    assert_eq!(created(&plan), [name(100)]);
    assert_eq!(plan.actions[0], Action::OpenNameBlock { block: NameBlock { first: 0, end: 101 } });
}

#[rstest]
#[case::the_next_number(World::desiring(1), &[0])]
#[case::a_number_of_a_removed_machine_is_not_drawn(
    World::desiring(2).block(0, 64).accepted("r", &[&name(0)]), &[1]
)]
#[case::a_number_is_never_drawn_twice(World::desiring(1).block(0, 64).memory(|memory| memory.next_number = 7), &[7])]
#[case::numbers_below_the_open_block_do_not_return(World::desiring(1).block(64, 128), &[64])]
#[case::a_foreign_machine_has_the_name(World::desiring(2).taken(&name(0)), &[1, 2])]
#[case::a_foreign_disk_has_the_name_of_its_disk(World::desiring(2).taken(&format!("{}-root", name(1))), &[0, 2])]
#[case::a_dying_disk_of_an_earlier_machine_has_it(
    World::desiring(1).disk(&format!("{}-root", name(0)), |_| Some(own_disk("d", &crate::testing::machine("x", 0)))),
    &[1]
)]
fn names_come_from_free_numbers(#[case] world: World, #[case] numbers: &[u64]) {
    let expected: Vec<String> = numbers.iter().copied().map(name).collect();
    assert_eq!(created(&world.plan()), expected);
}

#[rstest]
#[case::from_zero(World::desiring(2), &["web-0", "web-1"])]
#[case::the_smallest_hole(World::desiring(3).with_machine("web-0", 1).with_machine("web-2", 1), &["web-1"])]
#[case::a_terminating_machine_keeps_its_ordinal(
    World::desiring(2).with_machine("web-0", 1).edit("web-0", |machine| machine.terminating = true), &["web-1"]
)]
#[case::a_foreign_object_keeps_its_name(World::desiring(1).taken("web-0"), &["web-1"])]
#[case::a_foreign_disk_keeps_its_name(World::desiring(1).taken("web-0-root"), &["web-1"])]
#[case::a_lost_answer_keeps_its_ordinal(
    World::desiring(3).memory(|memory| memory.machines.create_unconfirmed(&"web-1".into(), 1, Duration::from_secs(100))),
    &["web-1", "web-0", "web-2"]
)]
fn ordinals_are_the_smallest_that_are_free(#[case] world: World, #[case] expected: &[&str]) {
    let plan = world.pool(|pool| pool.naming = Naming::Ordinal).plan();
    assert_eq!(created(&plan), expected);
    assert!(!plan.actions.iter().any(|action| matches!(action, Action::OpenNameBlock { .. })));
}

#[test]
fn an_ordinal_whose_storage_belongs_to_another_machine_waits_and_the_others_are_created() {
    let later = |seconds: u64| {
        let mut world = World::desiring(3).pool(|pool| pool.naming = Naming::Ordinal).memory(|memory| {
            let why = "DataVolume root-1 is controlled by VirtualMachine b-1".to_owned();
            memory.record_storage_conflict(&"web-1".into(), why, Duration::from_secs(100));
        });
        world.uptime = Duration::from_secs(100 + seconds);
        world.plan()
    };
    let plan = later(10);
    assert_eq!(created(&plan), ["web-0", "web-2"], "no greater ordinal takes its place");
    let failure = plan.failure.unwrap();
    assert_eq!(failure.reason, FailureReason::FailedCreate);
    assert_eq!(failure.message, "DataVolume root-1 is controlled by VirtualMachine b-1");
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(20)));
    let again = later(30);
    assert_eq!((created(&again), &again.failure), (vec!["web-0", "web-1", "web-2"], &None));
}

#[test]
fn an_ordinal_whose_create_was_rejected_delays_no_other() {
    let refused = |failed: bool| {
        World::desiring(3).pool(|pool| pool.naming = Naming::Ordinal).memory(|memory| {
            memory.record_result(&"web-0".into(), true);
            if failed {
                let failure = Failure { reason: FailureReason::FailedCreate, message: "denied".into() };
                memory.creating.failed(failure, Duration::ZERO, None, 0.0);
            }
        })
    };
    assert_eq!(created(&refused(false).plan()), ["web-1", "web-2", "web-0"]);
    assert_eq!(created(&refused(true).plan()), ["web-1"], "one at a time after a failure");
}

/// A user writes the number of replicas, so no pass may take time or memory in proportion to what is missing.
#[rstest]
#[case::a_rejected_create(|memory: &mut Memory| memory.record_result(&"web-0".into(), true))]
#[case::a_storage_conflict(|memory: &mut Memory| {
    memory.record_storage_conflict(&"web-0".into(), "DataVolume root-0 exists".to_owned(), Duration::from_secs(100));
})]
fn after_a_failure_a_pass_draws_no_more_ordinals_than_it_uses(#[case] failed: fn(&mut Memory)) {
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
    let world = World::desiring(usize::try_from(i32::MAX).unwrap())
        .pool(|pool| pool.naming = Naming::Ordinal)
        .memory(failed);
    let (snapshot, names) = (world.snapshot(), Counted(AtomicUsize::new(0)));
    let observed = Observed { names_in_use: &names, ..world.observed(&snapshot) };
    assert_eq!(created(&crate::plan(&observed)).len(), MAX_BATCH);
}

/// Numbers in the order of their names.
fn by_name(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_by_key(|number| name(*number));
    numbers
}

#[rstest]
#[case::all_are_wanted_and_repeated(World::desiring(3).block(0, 64).with_unconfirmed(0..3), 3, 0, 0)]
#[case::further_ones_are_created_beside_them(World::desiring(5).block(0, 64).with_unconfirmed(0..3), 3, 2, 0)]
#[case::those_not_wanted_any_more_are_waited_for(World::desiring(1).block(0, 64).with_unconfirmed(0..3), 1, 0, 2)]
#[case::no_create_is_needed_any_more(World::desiring(0).block(0, 64).with_unconfirmed(0..3), 0, 0, 3)]
#[case::machines_replaced_them(World::desiring(3).with_machines(3).with_unconfirmed(3..5), 0, 0, 2)]
#[case::a_surplus_does_not_hide_them(World::desiring(1).with_machines(3).with_unconfirmed(3..5), 0, 0, 2)]
fn unconfirmed_creates(
    #[case] world: World,
    #[case] repeated: usize,
    #[case] fresh: usize,
    #[case] waited_for: usize,
) {
    let lost = world.memory.machines.unconfirmed_creates();
    let plan = world.plan();
    let names = created(&plan);
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
    let plan = World::desiring(2).block(0, 64).with_unconfirmed([3, 5]).plan();
    let numbers: Vec<u64> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Create { draft } => draft.number,
            other => panic!("unexpected {other:?}"),
        })
        .collect();
    assert_eq!(numbers, by_name([3, 5]));
}

#[test]
fn a_lost_answer_is_no_reason_to_delete() {
    let plan = World::desiring(3).with_machines(3).with_unconfirmed([3]).plan();
    assert_eq!(deleted(&plan), [""; 0]);
}

#[test]
fn the_wait_for_a_lost_answer_ends_with_the_servers_timeout() {
    let mut world = World::desiring(0).block(0, 64).with_unconfirmed([0]);
    world.uptime += Duration::from_secs(20);
    assert_eq!(world.plan().requeue_after, Some(REQUEST_TIMEOUT.saturating_sub(Duration::from_secs(20))));
}

fn failing(pacing: &mut Backoff) {
    let cause = Failure { reason: FailureReason::FailedCreate, message: "exceeded quota".into() };
    pacing.failed(cause, Duration::from_secs(100), None, 0.0);
}

#[test]
fn after_a_failure_creation_pauses_and_the_plan_says_for_how_long() {
    let plan = World::desiring(5).memory(|memory| failing(&mut memory.creating)).plan();
    let left = Duration::from_millis(250);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.blockers, [Blocker::Backoff { stage: Stage::Create, left }]);
    assert_eq!(plan.requeue_after, Some(left));
    assert!(plan.wants.create);
}

#[rstest]
#[case::one_at_first(0, 1)]
#[case::then_two(1, 2)]
#[case::then_four(2, 4)]
#[case::no_more_than_is_missing(3, 5)]
fn after_the_pause_batches_grow(#[case] successes: usize, #[case] expected: usize) {
    let mut world = World::desiring(5).memory(|memory| {
        failing(&mut memory.creating);
        (0..successes).for_each(|_| memory.creating.succeeded());
    });
    world.uptime += Duration::from_secs(1);
    assert_eq!(created(&world.plan()).len(), expected);
}

#[test]
fn lost_answers_are_repeated_before_anything_new_is_tried() {
    let mut world =
        World::desiring(5).block(0, 64).with_unconfirmed([4]).memory(|memory| failing(&mut memory.creating));
    world.uptime += Duration::from_secs(1);
    assert_eq!(created(&world.plan()), [name(4)]);
}

#[test]
fn repairs_come_before_creates() {
    let disk = format!("{}-root", name(0));
    let plan = World::desiring(2).with_machines(1).disk(&disk, |_| None).plan();
    let stages: Vec<Stage> = plan.actions.iter().map(Action::stage).collect();
    assert_eq!(stages, [Stage::Repair, Stage::Create]);
}

#[test]
fn while_disks_cannot_be_created_no_machine_is() {
    let disk = format!("{}-root", name(0));
    let world = World::desiring(2)
        .with_machines(1)
        .disk(&disk, |_| None)
        .memory(|memory| failing(&mut memory.repairing));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    let pause = |stage| Blocker::Backoff { stage, left: Duration::from_millis(250) };
    assert_eq!(plan.blockers, [pause(Stage::Repair), pause(Stage::Create)]);
}

#[test]
fn while_more_disks_are_missing_than_may_be_tried_no_machine_is_created() {
    let world = [0, 1].into_iter().fold(World::desiring(3).with_machines(2), |world, number| {
        world.disk(&format!("{}-root", name(number)), |_| None)
    });
    let mut world = world.memory(|memory| failing(&mut memory.repairing));
    world.uptime += Duration::from_secs(1);
    let stages: Vec<Stage> = world.plan().actions.iter().map(Action::stage).collect();
    assert_eq!(stages, [Stage::Repair]);
}

#[test]
fn labels_that_cannot_be_written_do_not_stop_growth() {
    let world = World::desiring(2)
        .with_machines(1)
        .edit(&name(0), |machine| machine.pool_label = None)
        .memory(|memory| failing(&mut memory.repairing));
    assert_eq!(created(&world.plan()), [name(1)]);
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
    let expanding_disks = World::desiring(3).with_machines(1).with_unconfirmed([1]).pool(spoil).plan();
    assert_eq!(expanding_disks.actions, []);
    assert_eq!(expanding_disks.blockers, [Blocker::UserAction(message.into())]);
    assert!(expanding_disks.wants.create);

    let shrinking = World::desiring(1).with_machines(2).pool(spoil).plan();
    let machine = crate::ObjectId::new(&name(1), &format!("uid-of-{}", name(1)));
    assert_eq!(shrinking.actions, [Action::Delete { machine, reason: DeleteReason::Surplus }]);
}

#[rstest]
#[case::reserved_and_there(World::desiring(3).with_machines(3).reserved("r", &[&name(0)]), 0)]
#[case::reserved_and_gone(World::desiring(3).with_machines(2).reserved("r", &["web-gone"]), 0)]
#[case::reserved_twice_and_gone(
    World::desiring(3).with_machines(1).reserved("r", &["web-gone"]).reserved("s", &["web-gone"]), 1
)]
#[case::accepted_and_gone(World::desiring(3).with_machines(2).accepted("r", &["web-gone"]), 0)]
#[case::accepted_reserved_again_and_gone(
    World::desiring(3).with_machines(2).accepted("r", &["web-gone"]).reserved("s", &["web-gone"]), 0
)]
#[case::accepted_and_terminating(
    terminating(World::desiring(3).with_machines(3), [0]).accepted("r", &[&name(0)]), 0
)]
#[case::others_are_missing_besides(World::desiring(4).with_machines(2).reserved("r", &["web-gone"]), 1)]
fn a_reserved_machine_is_not_replaced(#[case] world: World, #[case] expected: usize) {
    assert_eq!(created(&world.plan()).len(), expected);
}

#[test]
fn a_create_without_an_answer_is_not_repeated_in_the_place_of_a_reserved_machine() {
    let world =
        World::desiring(3).with_machines(2).block(0, 64).with_unconfirmed([2]).reserved("r", &["web-gone"]);
    let plan = world.plan();
    assert_eq!(created(&plan), [""; 0]);
    assert!(
        plan.blockers.contains(&Blocker::Reservation { machine: "web-gone".into() }),
        "{:?}",
        plan.blockers
    );
}

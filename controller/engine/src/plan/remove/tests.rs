use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::pacing::{FULL_WIDTH, Failure, FailureReason};
use crate::plan::Wait;
use crate::testing::{World, deleted, name};

/// A world of members given as (name, creation second, running).
fn world(desired: usize, removal: Removal, members: &[(&str, i64, bool)]) -> World {
    members.iter().fold(World::desiring(desired).pool(|pool| pool.removal = removal), |world, member| {
        let (name, created, running) = *member;
        world.member(name, created).edit(name, |member| {
            member.activity = if running { Activity::Running } else { Activity::NotRunning };
        })
    })
}

const AGES: &[(&str, i64, bool)] =
    &[("web-b", 1, true), ("web-d", 3, true), ("web-a", 2, false), ("web-c", 4, true)];
const TWINS: &[(&str, i64, bool)] =
    &[("web-b", 5, true), ("web-d", 5, false), ("web-a", 5, false), ("web-c", 5, true)];
const ORDINALS: &[(&str, i64, bool)] =
    &[("web-2", 1, true), ("web-10", 2, false), ("web-0", 9, true), ("web-x", 3, true)];

#[rstest]
#[case::the_newest_first(Removal::NewestFirst, AGES, &["web-c", "web-d", "web-a", "web-b"])]
#[case::the_oldest_first(Removal::OldestFirst, AGES, &["web-b", "web-a", "web-d", "web-c"])]
#[case::among_twins_those_not_running_then_by_falling_name(
    Removal::NewestFirst, TWINS, &["web-d", "web-a", "web-c", "web-b"]
)]
#[case::among_twins_those_not_running_then_by_rising_name(
    Removal::OldestFirst, TWINS, &["web-a", "web-d", "web-b", "web-c"]
)]
#[case::the_lowest_ordinal_first_by_number_and_not_by_text(
    Removal::LowestOrdinalFirst, ORDINALS, &["web-0", "web-x", "web-2", "web-10"]
)]
#[case::the_highest_ordinal_first(
    Removal::HighestOrdinalFirst, ORDINALS, &["web-10", "web-2", "web-0", "web-x"]
)]
fn who_leaves_first(#[case] removal: Removal, #[case] members: &[(&str, i64, bool)], #[case] order: &[&str]) {
    for desired in 0..=members.len() {
        let leaving = &order[..members.len() - desired];
        assert_eq!(deleted(&world(desired, removal, members).plan()), leaving, "{desired} desired");
    }
}

#[rstest]
#[case::no_surplus(3, 3, 0, 0)]
#[case::a_surplus_leaves(2, 3, 0, 1)]
#[case::all_leave(0, 3, 0, 3)]
#[case::terminating_members_are_credited_against_the_surplus(3, 5, 2, 0)]
#[case::only_the_rest_leaves(2, 5, 2, 1)]
#[case::more_terminating_than_surplus(4, 5, 3, 0)]
#[case::fewer_members_than_desired(5, 3, 1, 0)]
fn as_many_leave_as_live_members_exceed_replicas(
    #[case] desired: usize,
    #[case] members: u64,
    #[case] terminating: u64,
    #[case] leaving: usize,
) {
    let world = World::desiring(desired).members(members);
    // The oldest are terminating, the newest leave: the two must not be mixed up.
    let world =
        (0..terminating).fold(world, |world, n| world.edit(&name(n), |member| member.terminating = true));
    let plan = world.plan();
    let expected: Vec<String> = (0..members).rev().take(leaving).map(name).collect();
    assert_eq!(deleted(&plan), expected);
    assert_eq!(plan.wants.remove, leaving > 0);
}

#[rstest]
#[case::to_nothing(0)]
#[case::by_one(2)]
fn an_explicit_pool_never_shrinks_by_itself(#[case] desired: usize) {
    let plan = World::desiring(desired).members(3).pool(|pool| pool.removal = Removal::Explicit).plan();
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_foreign_machine_with_copied_labels_neither_counts_nor_leaves() {
    let world =
        World::desiring(2).members(3).edit(&name(2), |machine| machine.owner = Some("another".into()));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn a_delete_names_the_uid_that_was_seen() {
    let plan = World::desiring(0).members(1).plan();
    let member = crate::ObjectId::new(&name(0), &format!("uid-of-{}", name(0)));
    assert_eq!(plan.actions, [Action::Delete { member, reason: DeleteReason::Surplus }]);
}

#[test]
fn one_pass_deletes_no_more_than_a_full_batch() {
    let plan = World::desiring(0).members(FULL_WIDTH as u64 + 1).plan();
    assert_eq!(deleted(&plan).len(), FULL_WIDTH);
    assert_eq!(plan.again, Some(Duration::ZERO), "the rest follows at once");
}

#[test]
fn a_member_whose_deletion_was_refused_does_not_hold_up_the_others() {
    let mut world = World::desiring(0).members(3);
    let first = |world: &World| deleted(&world.plan())[0].to_owned();
    let protected = first(&world);
    world.memory.note(&protected.as_str().into(), true);
    let next = first(&world);
    assert_ne!(next, protected);
    assert_eq!(deleted(&world.plan()).last(), Some(&protected.as_str()), "it is tried too, at last");
    // Only among those who leave: nobody takes the place of a protected one.
    let victim = first(&World::desiring(2).members(3));
    let mut world = World::desiring(2).members(3);
    world.memory.note(&victim.as_str().into(), true);
    assert_eq!(deleted(&world.plan()), [victim]);
}

#[test]
fn while_a_deletion_got_no_answer_nobody_else_leaves() {
    let mut world = World::desiring(2).members(3);
    let victim = deleted(&world.plan())[0].to_owned();
    let other = world.machines.iter().find(|machine| *machine.id.name != *victim).expect("three").clone();
    world.memory.unsure_of(&other.id.uid, world.uptime);
    assert_eq!(deleted(&world.plan()), [&*other.id.name], "the same deletion is asked for again");
    assert!(world.plan().wants.remove, "and its failure stays to be seen");
    // Somebody who is wanted again is left alone, whatever became of the deletion.
    world.pool.desired = 3;
    assert_eq!(deleted(&world.plan()), [""; 0]);
    // When it cannot be carried out any more, it counts like everybody else.
    world.pool.desired = 2;
    world.uptime += crate::ledger::REQUEST_TIMEOUT;
    assert_eq!(deleted(&world.plan()), [victim]);
}

#[test]
fn after_a_failure_removal_pauses_and_then_tries_one() {
    let cause = Failure { reason: FailureReason::FailedDelete, message: "denied".into() };
    let mut world = World::desiring(0).members(3);
    world.memory.removing.failed(cause, world.uptime, None, 0.0);
    let left = Duration::from_millis(250);
    assert_eq!(world.plan().waits, [Wait::Pause { stage: Stage::Remove, left }]);
    assert_eq!(deleted(&world.plan()), [""; 0]);
    assert_eq!(world.plan().again, Some(left));
    world.uptime += left;
    assert_eq!(deleted(&world.plan()), [name(2)]);
}

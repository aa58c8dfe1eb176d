use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::{FailureReason, PoolFailure};
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Naming, ScaleDownPolicy};
use crate::scale_down::removal::RESERVATION_AGE;
use crate::testing::{PoolWorld, fixture_id, numbered_machine_name};

const SECOND: Duration = Duration::from_secs(1);

/// Targets that no longer exist, and requests that are dropped.
type Leaving = (Vec<String>, Vec<String>);

/// The entries that a plan removes from the record.
fn settled(world: &PoolWorld) -> Option<Leaving> {
    let mut settled = world.plan().actions.into_iter().filter_map(|action| match action {
        PoolAction::PruneRecord { gone, expired, .. } => Some((
            gone.iter().map(|target| target.name.to_string()).collect(),
            expired.iter().map(ToString::to_string).collect(),
        )),
        _ => None,
    });
    let only = settled.next();
    assert_eq!(settled.next(), None, "one write");
    only
}

fn leaves(gone: &[&str], expired: &[&str]) -> Leaving {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    (owned(gone), owned(expired))
}

#[rstest]
#[case::there_are_no_targets(PoolWorld::desiring(2).with_machines(2), None)]
#[case::it_is_still_there(PoolWorld::desiring(2).with_machines(2).accepted("r", &[&numbered_machine_name(0)]), None)]
#[case::it_is_on_its_way_out(
    PoolWorld::desiring(2).with_machines(2).edit(&numbered_machine_name(0), |machine| machine.terminating = true).accepted("r", &[&numbered_machine_name(0)]), None
)]
#[case::it_is_gone(PoolWorld::desiring(2).with_machines(1).accepted("r", &["web-gone"]), Some(leaves(&["web-gone"], &[])))]
#[case::it_was_released(
    PoolWorld::desiring(2).with_machines(2).edit(&numbered_machine_name(0), |machine| machine.owner = None).accepted("r", &[&numbered_machine_name(0)]),
    Some(leaves(&[&numbered_machine_name(0)], &[]))
)]
#[case::it_is_gone_and_another_request_has_reserved_it(
    PoolWorld::desiring(2).with_machines(1).accepted("r", &["web-gone"]).reserved("s", &["web-gone"]), None
)]
#[case::it_is_gone_and_another_one_is_not(
    PoolWorld::desiring(3).with_machines(2).accepted("r", &["web-gone", &numbered_machine_name(0)]), None
)]
#[case::it_is_only_reserved(PoolWorld::desiring(2).with_machines(1).reserved("r", &["web-gone"]), None)]
fn an_accepted_entry_leaves_when_its_machine_is_gone(
    #[case] world: PoolWorld,
    #[case] expected: Option<Leaving>,
) {
    assert_eq!(settled(&world), expected);
}

/// The targets that a plan removes from the record, and the beginning of the block that the same write
/// records.
fn settled_with_block(world: &PoolWorld) -> Option<(Vec<String>, Option<u64>)> {
    world.plan().actions.into_iter().find_map(|action| match action {
        PoolAction::PruneRecord { gone, block, .. } => {
            let gone = gone.iter().map(|target| target.name.to_string()).collect();
            Some((gone, block.map(|block| block.first)))
        }
        _ => None,
    })
}

/// Machines 0 to 2 exist, and the machine with this number was removed. The former leader has recorded the
/// block 0-64.
fn with_removed(number: u64) -> PoolWorld {
    PoolWorld::desiring(4).with_machines(3).accepted("r", &[&numbered_machine_name(number)])
}

#[rstest]
#[case::the_number_of_the_target(numbered_machine_name(3), 4, Some(4))]
#[case::all_numbers_that_are_used_up(numbered_machine_name(3), 9, Some(9))]
#[case::a_name_that_the_pool_has_not_issued("web-gone".to_owned(), 0, None)]
fn the_write_that_removes_an_entry_moves_the_block_behind(
    #[case] target: String,
    #[case] next: u64,
    #[case] first: Option<u64>,
) {
    let world = PoolWorld::desiring(4).with_machines(3).accepted("r", &[&target]);
    let world = world.memory(|memory| memory.next_number = next);
    assert_eq!(settled_with_block(&world), Some((vec![target], first)));
}

/// A new leader does not know which numbers of the block the former leader used, and whose creates are under
/// way.
#[test]
fn a_new_leader_keeps_an_entry_until_no_create_of_its_name_can_be_under_way() {
    let mut world = with_removed(7).memory(|memory| memory.next_number = 0);
    let left = |world: &PoolWorld| world.memory.former_creates_left(world.uptime);
    assert_eq!(settled_with_block(&world), None);
    assert_eq!((left(&world), world.plan().requeue_after), (Some(REQUEST_TIMEOUT), Some(REQUEST_TIMEOUT)));
    world.uptime += REQUEST_TIMEOUT;
    assert_eq!(left(&world), None);
    assert_eq!(settled_with_block(&world), Some((vec![numbered_machine_name(7)], Some(8))));
    let world = world.with_unconfirmed([5]);
    assert_eq!(settled_with_block(&world), None, "its own create");
}

#[test]
fn ordinals_return_so_they_delay_no_entry() {
    let world = with_removed(7).pool(|pool| pool.naming = Naming::Ordinal);
    assert_eq!(settled_with_block(&world), Some((vec![numbered_machine_name(7)], None)));
}

#[test]
fn of_a_large_removal_many_entries_leave_together() {
    let gone: Vec<String> = (0..PRUNE_BATCH).map(|number| format!("web-gone-{number}")).collect();
    let mut names: Vec<&str> = gone.iter().map(String::as_str).collect();
    let machine = numbered_machine_name(0);
    names.push(&machine);
    let named = |names: &[&str]| PoolWorld::desiring(names.len()).with_machines(1).accepted("r", names);
    assert_eq!(settled(&named(&names[1..])), None);
    assert_eq!(settled(&named(&names)).map(|(gone, _)| gone.len()), Some(PRUNE_BATCH));
}

#[test]
fn a_pass_confirms_no_more_than_a_full_batch() {
    let gone: Vec<String> = (0..=MAX_BATCH).map(|number| format!("web-gone-{number}")).collect();
    let names: Vec<&str> = gone.iter().map(String::as_str).collect();
    let world = PoolWorld::desiring(names.len()).accepted("r", &names);
    assert_eq!(settled(&world).map(|(gone, _)| gone.len()), Some(MAX_BATCH));
    assert_eq!(world.plan().requeue_after, Some(Duration::ZERO));
}

#[test]
fn a_reservation_is_dropped_thirty_seconds_after_it_was_first_seen() {
    let mut world = PoolWorld::desiring(2).with_machines(1).reserved("r", &["web-gone"]);
    assert_eq!(world.plan().requeue_after, Some(RESERVATION_AGE));
    world.uptime += RESERVATION_AGE.saturating_sub(SECOND);
    let mut world = world.reserved("s", &["web-gone"]);
    assert_eq!(settled(&world), None);
    assert_eq!(world.plan().requeue_after, Some(SECOND));
    world.uptime += SECOND;
    assert_eq!(settled(&world), Some(leaves(&[], &["r"])));
    assert!(world.plan().needs_live_pool(), "on the pool as it is now");
}

#[test]
fn a_reservation_that_is_met_for_the_first_time_is_new() {
    let mut world = PoolWorld::desiring(2).with_machines(1);
    world.pool.record.reserve("r", &[fixture_id("web-gone")]).unwrap();
    world.uptime += 10 * RESERVATION_AGE;
    assert_eq!(settled(&world), None, "a new leader counts from its first observation");
}

#[test]
fn the_record_waits_for_the_block_because_one_write_would_refuse_the_other() {
    let world = PoolWorld::desiring(3)
        .with_machines(1)
        .pool(|pool| pool.name_block = None)
        .accepted("r", &["web-gone"]);
    let plan = world.plan();
    assert!(plan.actions.iter().any(|action| matches!(action, PoolAction::OpenNameBlock { .. })));
    assert_eq!(settled(&world), None);
    assert!(plan.wants.clean_up);
    assert_eq!(plan.requeue_after, Some(Duration::ZERO));
}

#[test]
fn a_record_that_cannot_be_written_has_a_pace_of_its_own() {
    let mut world = PoolWorld::desiring(3).with_machines(1).accepted("r", &["web-gone"]);
    let failure = PoolFailure { reason: FailureReason::FailedRepair, message: "denied".into() };
    world.memory.backoff_mut(ApplyStage::CleanUp).failed(failure, world.uptime, None, 0.0);
    let plan = world.plan();
    assert_eq!(settled(&world), None);
    assert_eq!(crate::testing::created_machines(&plan).len(), 1, "the other machines do not wait");
    assert!(plan.wants.clean_up && plan.requeue_after.is_some());
}

#[test]
fn a_pool_on_its_way_out_keeps_its_record() {
    let world = PoolWorld::desiring(2)
        .with_machines(1)
        .accepted("r", &["web-gone"])
        .pool(|pool| pool.deleting = true);
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn the_same_holds_for_an_explicit_pool() {
    let world = PoolWorld::desiring(2)
        .with_machines(1)
        .accepted("r", &["web-gone"])
        .pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit);
    assert_eq!(settled(&world), Some(leaves(&["web-gone"], &[])));
}

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::failure::{FailureReason, PoolFailure};
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{DisruptionBudget, Instance, ObjectId, RolloutPolicy};
use crate::revisions::LiveParts;
use crate::testing::{PoolWorld, numbered_machine_name};

const UPTIME: std::time::Duration = std::time::Duration::from_secs(100);

/// A pool whose current revision is `r2` and whose machines have `r1`.
fn unstored(desired: usize, machines: u64) -> PoolWorld {
    PoolWorld::desiring(desired).with_machines(machines).pool(|pool| {
        pool.revision.id = "r2".into();
        pool.revision.stored = false;
    })
}

fn history(limit: usize) -> RolloutPolicy {
    RolloutPolicy { history: limit, ..RolloutPolicy::default() }
}

fn started_with(revision: &str) -> Arc<Instance> {
    let id = ObjectId::new("web-0", "instance");
    let revision = Some(revision.into());
    let live = LiveParts::default();
    Arc::new(Instance {
        id,
        machine: None,
        terminating: false,
        revision,
        live,
        pending_update: None,
        ended: false,
        ready: true,
    })
}

fn pruned(world: &PoolWorld) -> Vec<String> {
    let actions = world.plan().actions;
    let pruned = actions.iter().filter_map(|action| match action {
        PoolAction::PruneRevision { revision } => Some(revision.to_string()),
        _ => None,
    });
    pruned.collect()
}

fn stores(world: &PoolWorld) -> bool {
    world.plan().actions.iter().any(|action| matches!(action, PoolAction::StoreRevision { .. }))
}

#[rstest]
#[case::a_machine_is_made(unstored(1, 0), true)]
#[case::a_machine_is_changed(unstored(1, 1), true)]
#[case::it_is_not_needed(unstored(0, 0), false)]
#[case::it_is_stored(unstored(1, 0).pool(|pool| pool.revision.stored = true), false)]
#[case::a_paused_pool_updates_no_machine_to_it(unstored(1, 1).pool(|pool| pool.rollout.paused = true), false)]
#[case::a_machine_has_it_and_it_is_lost(PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.revision.stored = false), true)]
#[case::a_machine_has_it_and_a_copy_is_lost(PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.revision.copies.lost = true), true)]
#[case::a_machine_has_the_same_template_and_a_copy_is_lost(unstored(1, 1).pool(|pool| {
    pool.revision.same_template = vec!["r1".into()];
    pool.revision.copies.lost = true;
}), true)]
#[case::a_machine_has_the_same_template(unstored(1, 1).pool(|pool| {
    pool.revision.same_template = vec!["r1".into()];
}), false)]
#[case::no_machine_uses_the_lost_copy(PoolWorld::desiring(0).pool(|pool| pool.revision.copies.lost = true), false)]
#[case::its_copies_are_wanted(unstored(0, 0).pool(|pool| pool.revision.copies.wanted = true), true)]
#[case::its_copies_are_wanted_and_the_pool_is_paused(unstored(1, 0).pool(|pool| {
    pool.revision.copies.wanted = true;
    pool.paused = true;
}), true)]
#[case::the_pool_is_paused(unstored(1, 0).pool(|pool| pool.paused = true), false)]
#[case::its_copies_are_wanted_and_the_pool_cannot_be_read(unstored(1, 0).pool(|pool| {
    pool.revision.copies.wanted = true;
    pool.validation_errors.push("odd".into());
}), true)]
#[case::a_pool_that_cannot_be_read_stores_nothing(unstored(1, 1).pool(|pool| pool.validation_errors.push("odd".into())), false)]
fn is_stored_when(#[case] world: PoolWorld, #[case] expected: bool) {
    assert_eq!(stores(&world), expected);
}

#[rstest]
#[case::machines_have_it(unstored(1, 1), 1)]
#[case::no_machine_has_it(unstored(0, 0), 0)]
fn copies_of_an_older_revision_are_restored_if(#[case] world: PoolWorld, #[case] expected: usize) {
    let world = world.pool(|pool| pool.revision.copies.others_lost = vec!["r1".into()]);
    let is_it = |action: &&PoolAction| matches!(action, PoolAction::RestoreCopies { revision } if *revision == "r1".into());
    assert_eq!(world.plan().actions.iter().filter(is_it).count(), expected);
}

#[test]
fn a_revision_is_stored_before_any_machine_has_it() {
    // The two missing machines also use the budget.
    let world = unstored(4, 2).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(3));
    let actions = world.plan().actions;
    let position = |wanted: fn(&PoolAction) -> bool| actions.iter().position(wanted).unwrap();
    let stored = position(|action| matches!(action, PoolAction::StoreRevision { .. }));
    assert!(stored < position(|action| matches!(action, PoolAction::Create { .. })));
    assert!(stored < position(|action| matches!(action, PoolAction::Update { .. })));
    assert!(ApplyStage::Prepare < ApplyStage::Create && ApplyStage::Prepare < ApplyStage::Update);
    assert_eq!(actions.iter().filter(|action| matches!(action, PoolAction::StoreRevision { .. })).count(), 1);
}

#[test]
fn while_it_cannot_be_stored_no_machine_gets_it() {
    let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "no".into() };
    let world = unstored(2, 2)
        .memory(|memory| memory.backoff_mut(ApplyStage::Create).failed(failure, UPTIME, None, 0.0));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert!(plan.wants.create, "the failure stays on show");
    assert_eq!(plan.requeue_after, Some(std::time::Duration::from_millis(250)));
}

#[rstest]
#[case::there_is_room(3, &["r0", "r1"], &[])]
#[case::just_enough(1, &["r0", "r1"], &[])]
#[case::the_current_one_does_not_count(0, &["r1"], &[])]
#[case::the_oldest_go(1, &["a", "b", "c", "r1"], &["a", "b"])]
#[case::for_any_position_of_the_current_one(1, &["a", "r1", "b", "c"], &["a", "b"])]
#[case::none_is_kept(0, &["a", "b", "r1"], &["a", "b"])]
#[case::the_largest_limit_keeps_all(usize::MAX, &["a", "b", "r1"], &[])]
fn of_those_not_needed(#[case] limit: usize, #[case] stored: &[&str], #[case] expected: &[&str]) {
    let mut world = PoolWorld::desiring(2).with_machines(2).pool(|pool| pool.rollout = history(limit));
    world.stored = stored.iter().map(|id| RevisionId::from(*id)).collect();
    assert_eq!(pruned(&world), expected);
}

/// Where revisions have names, scaling stores the same template again.
#[rstest]
#[case::of_the_current_template(10, &["a", "b", "r1"], &["a"], &[], &["a"])]
#[case::of_an_earlier_template(10, &["a", "b", "r1"], &[], &["a"], &["a"])]
#[case::beside_those_beyond_the_limit(1, &["a", "b", "c", "r1"], &[], &["b"], &["b", "a"])]
#[case::if_a_machine_has_it(10, &["r1"], &["r1"], &["r1"], &[])]
fn a_repeated_template_is_not_kept(
    #[case] limit: usize,
    #[case] stored: &[&str],
    #[case] same: &[&str],
    #[case] superseded: &[&str],
    #[case] expected: &[&str],
) {
    let ids = |names: &[&str]| names.iter().map(|id| RevisionId::from(*id)).collect::<Vec<_>>();
    let mut world = PoolWorld::desiring(2).with_machines(2).pool(|pool| {
        pool.rollout = history(limit);
        pool.revision.same_template = ids(same);
        pool.revision.superseded = ids(superseded);
    });
    world.stored = ids(stored);
    assert_eq!(pruned(&world), expected);
}

#[rstest]
#[case::in_effect_in_a_machine(|machine: &mut crate::Machine| machine.revision = Some("a".into()), true)]
#[case::written_to_a_machine(|machine: &mut crate::Machine| machine.written = Some("a".into()), true)]
#[case::in_effect_in_one_that_leaves(
    |machine: &mut crate::Machine| (machine.revision, machine.terminating) = (Some("a".into()), true), true
)]
#[case::in_effect_in_its_instance(|machine: &mut crate::Machine| machine.instance = Some(started_with("a")), true)]
#[case::named_by_its_label_only(
    |machine: &mut crate::Machine| {
        (machine.revision, machine.instance) = (Some("a".into()), Some(started_with("r1")));
    },
    true
)]
#[case::no_machine_refers_to_it(|_: &mut crate::Machine| {}, false)]
fn a_revision_that_a_machine_refers_to_is_never_deleted(
    #[case] edit: fn(&mut crate::Machine),
    #[case] expected: bool,
) {
    let mut world = PoolWorld::desiring(2)
        .with_machines(2)
        .pool(|pool| pool.rollout = history(0))
        .edit(&numbered_machine_name(1), edit);
    world.stored = ["a", "r1"].map(RevisionId::from).to_vec();
    assert_eq!(!pruned(&world).contains(&"a".into()), expected);
}

#[test]
fn nothing_is_pruned_while_a_machine_may_appear_that_names_it() {
    let mut world =
        PoolWorld::desiring(3).with_machines(2).pool(|pool| pool.rollout = history(0)).with_unconfirmed([2]);
    world.stored = ["a", "r1"].map(RevisionId::from).to_vec();
    assert_eq!(pruned(&world), [""; 0]);
}

#[test]
fn nothing_is_pruned_by_a_pass_that_makes_machines() {
    // A former leader may have sent the same create. Its machine has the revision that was current at that
    // time.
    let mut world = PoolWorld::desiring(2).with_machines(1).pool(|pool| pool.rollout = history(0));
    world.stored = ["a", "r1"].map(RevisionId::from).to_vec();
    assert_eq!(pruned(&world), [""; 0]);
    assert_eq!(pruned(&world.pool(|pool| pool.desired = 1)), ["a"]);
}

#[test]
fn nothing_is_pruned_while_a_machine_may_name_it_that_was_written_to_without_an_answer() {
    let mut world = PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.rollout = history(0));
    world.stored = ["a", "r1"].map(RevisionId::from).to_vec();
    let machine = world.machines[0].id.uid.clone();
    world.memory.rollout_attempts.record(
        &machine,
        &"a".into(),
        crate::plan::UpdateOutcome::Unconfirmed,
        UPTIME,
    );
    let plan = world.plan();
    assert_eq!((plan.actions, plan.requeue_after), (Vec::new(), Some(REQUEST_TIMEOUT)));
    world.uptime += REQUEST_TIMEOUT;
    world.memory.rollout_attempts.observe([].iter(), world.uptime);
    assert_eq!(pruned(&world), ["a"]);
}

#[test]
fn a_pinned_revision_stays_and_so_does_nothing_else_for_its_sake() {
    let mut world = PoolWorld::desiring(1).with_machines(1).pool(|pool| {
        pool.rollout = history(0);
        pool.revision.pinned = true;
    });
    world.stored = ["r1", "b"].map(RevisionId::from).to_vec();
    assert_eq!(pruned(&world), ["b"]);
}

#[test]
fn the_revision_whose_copies_the_current_one_gets_is_not_deleted() {
    let mut world = unstored(0, 0).pool(|pool| {
        pool.rollout = history(0);
        pool.revision.copies.inherited_from = Some("a".into());
    });
    world.stored = ["a", "b"].map(RevisionId::from).to_vec();
    assert_eq!(pruned(&world), ["b"]);
}

#[test]
fn pruning_keeps_to_its_pace() {
    let failure = PoolFailure { reason: FailureReason::FailedRepair, message: "no".into() };
    let mut world = PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.rollout = history(0));
    world.stored = ["a", "b", "r1"].map(RevisionId::from).to_vec();
    let mut world =
        world.memory(|memory| memory.backoff_mut(ApplyStage::CleanUp).failed(failure, UPTIME, None, 0.0));
    assert_eq!(pruned(&world), [""; 0]);
    assert!(world.plan().wants.clean_up);
    world.uptime += std::time::Duration::from_secs(1);
    assert_eq!(pruned(&world), ["a"]);
}

fn with_unused_copy(world: PoolWorld) -> PoolWorld {
    world.pool(|pool| pool.revision.copies.unused = vec![crate::ObjectId::new("copy", "uid-of-copy")])
}

fn deletes_copy(world: &PoolWorld) -> bool {
    world.plan().actions.iter().any(|action| matches!(action, PoolAction::DeleteCopy { .. }))
}

#[rstest]
#[case::nothing_refers_to_it(PoolWorld::desiring(1).with_machines(1), true)]
#[case::this_pass_makes_machines(PoolWorld::desiring(2).with_machines(1), false)]
#[case::a_machine_may_appear(PoolWorld::desiring(2).with_machines(1).with_unconfirmed([1]), false)]
#[case::its_revision_may_be_stored_again(
    PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.revision.stored = false), false
)]
#[case::its_revision_waits_to_be_stored_again(
    PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.revision.stored = false).memory(|memory| {
        let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "no answer".into() };
        memory.backoff_mut(ApplyStage::Create).failed(failure, UPTIME, None, 0.0);
    }),
    false
)]
#[case::the_pool_cannot_be_read(
    PoolWorld::desiring(1).with_machines(1).pool(|pool| pool.validation_errors.push("odd".into())), false
)]
fn an_unused_copy_is_deleted_if(#[case] world: PoolWorld, #[case] expected: bool) {
    assert!(!deletes_copy(&world), "there is none");
    assert_eq!(deletes_copy(&with_unused_copy(world)), expected);
}

#[test]
fn an_unused_copy_stays_while_a_machine_was_written_to_without_an_answer() {
    let mut world = with_unused_copy(PoolWorld::desiring(1).with_machines(1));
    let machine = world.machines[0].id.uid.clone();
    let unconfirmed = crate::plan::UpdateOutcome::Unconfirmed;
    world.memory.rollout_attempts.record(&machine, &"a".into(), unconfirmed, UPTIME);
    assert!(!deletes_copy(&world));
    world.uptime += REQUEST_TIMEOUT;
    world.memory.rollout_attempts.observe([].iter(), world.uptime);
    assert!(deletes_copy(&world));
}

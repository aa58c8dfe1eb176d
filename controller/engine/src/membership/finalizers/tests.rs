use std::sync::Arc;

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::Plan;
use crate::model::{DisruptionBudget, Instance, Preservation, ScaleDownPolicy, StatusSummary, TemplateParts};
use crate::revisions::{Fingerprint, LiveParts, RevisionId};
use crate::testing::{PoolWorld, another_pool, fixture_id, numbered_machine_name, observation_time};

/// A pool of three machines with finalizers.
fn world(desired: usize) -> PoolWorld {
    let world = PoolWorld::desiring(desired).with_machines(3).pool(|pool| {
        pool.finalizer = Finalizer::Present;
        pool.preservation = Preservation::UnlessChanged;
        pool.disks.clear();
    });
    (0..3).fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| {
            machine.has_finalizer = true;
            machine.disks.clear();
        })
    })
}

fn terminating(world: PoolWorld, number: u64) -> PoolWorld {
    world.edit(&numbered_machine_name(number), |machine| machine.terminating = true)
}

/// The machines that are released, and whether their storage is preserved.
fn released(plan: &Plan) -> Vec<(&str, bool)> {
    let releases = plan.actions.iter().filter_map(|action| match action {
        PoolAction::RemoveFinalizer { machine, preserve_storage } => {
            Some((&*machine.name, *preserve_storage))
        }
        _ => None,
    });
    releases.collect()
}

#[rstest]
#[case::the_count_is_right(world(2))]
#[case::machines_are_missing(world(9))]
#[case::machines_are_surplus(world(0))]
#[case::more_machines_leave_than_must(terminating(world(2), 2))]
#[case::a_paused_pool(world(2).pool(|pool| pool.paused = true))]
#[case::no_machine_is_removed_by_the_controller(
    world(1).pool(|pool| pool.scale_down_policy = ScaleDownPolicy::Explicit)
)]
#[case::an_invalid_spec(world(2).pool(|pool| pool.validation_errors = vec!["a flaw".into()]))]
fn a_machine_that_is_being_deleted_is_released(#[case] world: PoolWorld) {
    let plan = terminating(world, 0).plan();
    assert!(released(&plan).contains(&(&numbered_machine_name(0), true)), "{:?}", plan.actions);
}

/// A user may require the preservation, and then delete the machine. The caches of machines and pools are not
/// equally fresh.
#[test]
fn storage_is_discarded_only_after_a_live_read_of_the_pool() {
    let world = terminating(world(3), 0);
    assert!(!world.plan().needs_live_pool(), "nothing is lost");
    let world = world.pool(|pool| pool.preservation = Preservation::Never);
    assert_eq!(released(&world.plan()), [(&*numbered_machine_name(0), false)]);
    assert!(world.plan().needs_live_pool());
}

#[test]
fn a_live_machine_and_one_without_the_finalizer_are_not_released() {
    let world =
        terminating(world(3), 0).edit(&numbered_machine_name(0), |machine| machine.has_finalizer = false);
    assert_eq!(released(&world.plan()), []);
}

#[rstest]
#[case::preserved(&|world| world, true)]
#[case::not_wanted(&|world: PoolWorld| world.pool(|pool| pool.preservation = Preservation::Never), false)]
#[case::it_did_not_start(&|world: PoolWorld| {
    let machine = fixture_id(&numbered_machine_name(0));
    world.memory(|memory| memory.heal(&machine, std::time::Duration::from_secs(100)))
}, false)]
#[case::its_deletion_deletes_the_storage(
    &|world: PoolWorld| world.edit(&numbered_machine_name(0), |machine| machine.discards_storage = true), false
)]
#[case::the_storage_in_the_template_changed_after_its_deletion(&|world: PoolWorld| world.pool(|pool| {
    let parts = |storage: u64| TemplateParts {
        instance: Fingerprint::of(&json!(1)),
        live: LiveParts::default(),
        storage: Fingerprint::of(&json!(storage)),
    };
    pool.revision.template_parts = [("r0".into(), parts(1)), ("r1".into(), parts(2))].into();
}), true)]
fn the_storage_of_a_released_machine(#[case] edit: &dyn Fn(PoolWorld) -> PoolWorld, #[case] preserved: bool) {
    let world = terminating(edit(world(2)), 0)
        .edit(&numbered_machine_name(0), |machine| machine.written = Some(RevisionId::from("r0")));
    assert_eq!(released(&world.plan()), [(&*numbered_machine_name(0), preserved)]);
}

#[test]
fn a_deleted_pool_releases_its_machines_and_those_that_users_detached_and_then_itself() {
    let deleted = world(3)
        .pool(|pool| {
            pool.deleting = true;
            pool.rollout.budget = DisruptionBudget::Machines(1);
        })
        .edit(&numbered_machine_name(1), |machine| machine.owner = None)
        .edit(&numbered_machine_name(2), |machine| machine.owner = Some(another_pool()));
    let plan = deleted.plan();
    assert_eq!(
        released(&plan),
        [(&*numbered_machine_name(0), false), (&*numbered_machine_name(1), false)],
        "no machine of another pool"
    );
    assert_eq!(plan.actions.len(), 2, "{:?}", plan.actions);

    let without = [0, 1].into_iter().fold(deleted, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| machine.has_finalizer = false)
    });
    assert_eq!(without.plan().actions, [PoolAction::RemovePoolFinalizer]);
    let unconfirmed = without.with_unconfirmed([7]);
    let waiting = unconfirmed.plan();
    assert_eq!(waiting.actions, [], "its machine may appear and keep the finalizer");
    assert_eq!(waiting.requeue_after, Some(REQUEST_TIMEOUT), "the next pass finds out");
}

#[test]
fn a_paused_pool_can_be_deleted() {
    let deleted = world(3).pool(|pool| (pool.deleting, pool.paused) = (true, true));
    assert_eq!(released(&deleted.plan()).len(), 3);
    let without = (0..3).fold(deleted, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| machine.has_finalizer = false)
    });
    assert_eq!(without.plan().actions, [PoolAction::RemovePoolFinalizer]);
}

#[test]
fn a_deleted_machine_that_a_user_removed_from_the_pool_is_released_with_its_storage_preserved() {
    // The user may have removed it after its deletion began, and the pool preserves the storage of deleted
    // machines.
    let world = terminating(terminating(world(3), 0), 1)
        .edit(&numbered_machine_name(1), |machine| machine.owner = None);
    let expected = [(&*numbered_machine_name(0), true), (&*numbered_machine_name(1), true)];
    let plan = world.plan();
    assert_eq!(released(&plan), expected);
    let other = world.edit(&numbered_machine_name(1), |machine| machine.owner = Some(another_pool()));
    assert_eq!(released(&other.plan()), expected[..1], "the machines of other pools are not released");
}

#[rstest]
#[case::the_machines_refer_to_one(3, &["r0"])]
#[case::there_are_no_machines(0, &["r0", "r1"])]
fn a_deleted_pool_deletes_the_revisions_that_no_machine_refers_to(
    #[case] machines: usize,
    #[case] expected: &[&str],
) {
    let mut world = world(3).pool(|pool| {
        pool.deleting = true;
        pool.published.summary = None;
    });
    world.machines.truncate(machines);
    world.stored = ["r0", "r1"].map(RevisionId::from).to_vec();
    let pruned = |plan: &Plan| -> Vec<String> {
        let revisions = plan.actions.iter().filter_map(|action| match action {
            PoolAction::PruneRevision { revision } => Some(revision.as_str().to_owned()),
            _ => None,
        });
        revisions.collect()
    };
    assert_eq!(pruned(&world.plan()), expected);
    // The garbage collector may have made the machines ownerless, so that they are not observed.
    world.machines.clear();
    let summary = StatusSummary {
        observed_generation: 1,
        replicas: 3,
        ready: 3,
        available: 3,
        updated: 3,
        restart_pending: 0,
        draining: 0,
        image_outdated: 0,
        next_number: Some(3),
        healed: 0,
        revision: "r1".into(),
        used_copies: Arc::default(),
        standby: crate::standby::StandbyCounts::default(),
    };
    let world = world.pool(|pool| pool.published.summary = Some(summary));
    assert_eq!(pruned(&world.plan()), [""; 0]);
}

/// The time in the worlds of these tests is [`observation_time`].
#[rstest]
#[case::the_garbage_collector_has_time(59, false, None)]
#[case::it_had_its_time(60, false, Some(true))]
#[case::the_instance_still_stops(600, true, Some(false))]
fn a_deletion_that_only_the_garbage_collector_holds_ends(
    #[case] seconds: i64,
    #[case] has_instance: bool,
    #[case] ends: Option<bool>,
) {
    let since = observation_time() - SignedDuration::from_secs(seconds);
    let world = terminating(world(3), 0).edit(&numbered_machine_name(0), |machine| {
        machine.has_finalizer = false;
        machine.awaits_dependents_since = Some(since);
        machine.instance = has_instance.then(|| {
            Arc::new(Instance {
                id: machine.id.clone(),
                machine: Some(machine.id.uid.clone()),
                terminating: true,
                revision: None,
                live: LiveParts::default(),
                pending_update: None,
                ended: false,
                ready: false,
            })
        });
    });
    let plan = world.plan();
    let id = fixture_id(&numbered_machine_name(0));
    let is_ended = plan.actions.contains(&PoolAction::EndDeletion { machine: id });
    assert_eq!(is_ended, ends == Some(true), "{:?}", plan.actions);
    assert_eq!(plan.requeue_after.is_some(), ends.is_none(), "{:?}", plan.requeue_after);
}

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{AutohealingPolicy, ObjectId, Owner, Selectable, StartHealth, Uid};
use crate::selector::{LabelMap, Operator, Selector, SelectorRequirement};
use crate::testing::{PoolWorld, another_pool, created_machines, deleted_machines, numbered_machine_name};

fn id(name: &str) -> ObjectId {
    ObjectId::new(name, &format!("uid-of-{name}"))
}

/// A machine with a name that the pool has issued, and a pool that needs no more machines than it has.
fn world(edit: impl FnOnce(&mut Machine)) -> PoolWorld {
    let world = PoolWorld::desiring(1).with_machines(1).edit(&numbered_machine_name(0), edit);
    let machines = world.observed(&world.snapshot()).pool_machines().count();
    world.pool(|pool| pool.desired = machines)
}

fn relabel() -> PoolAction {
    PoolAction::Relabel { machine: id(&numbered_machine_name(0)) }
}

fn release() -> PoolAction {
    PoolAction::Release { machine: id(&numbered_machine_name(0)), shared: Vec::new() }
}

#[rstest]
#[case::a_complete_machine_is_unchanged(world(|_| {}), None)]
#[case::a_machine_without_the_pools_uid(world(|machine| machine.pool_uid_label = None), Some(relabel()))]
#[case::a_machine_without_the_pools_name(world(|machine| machine.pool_label = None), Some(relabel()))]
#[case::a_machine_with_another_pools_name(world(|machine| machine.pool_label = Some("db".into())), Some(relabel()))]
#[case::a_machine_with_another_pools_uid(
    world(|machine| machine.pool_uid_label = Some(Uid::from("another"))), Some(relabel())
)]
#[case::a_terminating_machine_is_unchanged(
    world(|machine| { machine.pool_label = None; machine.terminating = true; }), None
)]
#[case::a_released_machine_loses_our_markers(world(|machine| machine.owner = None), Some(release()))]
#[case::a_released_machine_without_labels_is_unchanged(
    world(|machine| { machine.owner = None; machine.pool_uid_label = None; }), None
)]
#[case::a_terminating_released_machine_is_unchanged(
    world(|machine| { machine.owner = None; machine.terminating = true; }), None
)]
#[case::a_machine_of_another_controller_is_unchanged(
    world(|machine| machine.owner = Some(another_pool())), None
)]
fn markers(#[case] world: PoolWorld, #[case] expected: Option<PoolAction>) {
    let plan = world.plan();
    assert_eq!(plan.actions, Vec::from_iter(expected));
    assert_eq!(plan.wants.relabel, !plan.actions.is_empty());
}

#[rstest]
#[case::no_name_of_the_pools_form("batch-7", Some((0, 64)))]
#[case::a_number_that_was_not_issued(&numbered_machine_name(64), Some((0, 64)))]
#[case::a_pool_that_issued_nothing(&numbered_machine_name(0), None)]
fn a_foreign_machine_with_copied_labels_is_unchanged(
    #[case] machine: &str,
    #[case] block: Option<(u64, u64)>,
) {
    let world = unowned(machine).edit_disk(&format!("{machine}-root"), |disk| disk.pool_uid_label = None);
    let world = match block {
        Some((first, end)) => world.block(first, end),
        None => world,
    };
    assert_eq!(world.plan(), Plan::default());
}

/// A machine with the labels of the pool, without an owner.
fn unowned(machine: &str) -> PoolWorld {
    PoolWorld::desiring(0).with_machine(machine, 1).edit(machine, |machine| machine.owner = None)
}

const MIGRATED: &str = "builder-seven";

/// A machine with a retained disk of the pool, and no ephemeral disk.
fn retaining() -> PoolWorld {
    unowned(MIGRATED)
        .keeping(|_| {})
        .edit(MIGRATED, |machine| machine.disks.clear())
        .holding(MIGRATED, "web-data-1")
        .disk(&format!("{MIGRATED}-root"), |_| None)
}

#[rstest]
#[case::its_ephemeral_disk_has_the_label_of_the_pool(unowned(MIGRATED), true)]
#[case::its_ephemeral_disk_is_detached(
    unowned(MIGRATED).edit(MIGRATED, |machine| {
        let disk = machine.disks.remove(0).disk;
        machine.detached.push(crate::model::DetachedDisk { template: "root".into(), disk });
    }),
    true
)]
#[case::its_disk_belongs_to_the_machine_that_it_was_copied_from(
    unowned(MIGRATED).edit_disk(&format!("{MIGRATED}-root"), |disk| disk.owner = Some(Owner::machine(&id("web-original")))), false
)]
#[case::it_mounts_a_retained_disk(retaining(), true)]
#[case::it_does_not_mount_the_retained_disk(retaining().edit_disk("web-data-1", |disk| disk.mounted_by = None), false)]
#[case::no_revision_of_the_pool_was_written_to_it(
    retaining().edit(MIGRATED, |machine| machine.written = Some("another".into())), false
)]
#[case::a_user_made_another_controller_its_owner(
    unowned(MIGRATED).edit(MIGRATED, |machine| machine.owner = Some(another_pool())), false
)]
fn a_migrated_machine_that_was_detached_is_released_if_its_disks_show_that_it_was_in_the_pool(
    #[case] world: PoolWorld,
    #[case] released: bool,
) {
    let plan = world.plan();
    let releases = |action: &PoolAction| matches!(action, PoolAction::Release { machine, .. } if *machine.name == *MIGRATED);
    assert_eq!(plan.actions.iter().any(releases), released, "{plan:?}");
}

/// A released machine, and a machine of the pool that refers to a retained disk of the released one.
fn sharing(mounted_by: Option<&str>) -> PoolWorld {
    PoolWorld::desiring(1)
        .with_machines(2)
        .keeping(|_| {})
        .holding(&numbered_machine_name(0), "web-data-1")
        .holding(&numbered_machine_name(1), "web-data-1")
        .edit(&numbered_machine_name(0), |machine| machine.owner = None)
        .edit_disk("web-data-1", |disk| disk.mounted_by = mounted_by.map(Into::into))
}

#[rstest]
#[case::no_machine_mounts(sharing(None), &["web-data-1"])]
#[case::the_machine_of_the_pool_mounts(sharing(Some(&numbered_machine_name(1))), &["web-data-1"])]
#[case::the_machine_itself_has_mounted(sharing(Some(&numbered_machine_name(0))), &[])]
#[case::no_machine_of_the_pool_refers_to(sharing(None).edit(&numbered_machine_name(1), |machine| machine.owner = None), &[])]
#[case::it_only_still_shows(
    sharing(None).edit(&numbered_machine_name(0), |machine| machine.lingering.extend(machine.disks.pop().map(|device| device.disk))),
    &["web-data-1"]
)]
fn a_released_machine_does_not_get_the_disk_of_another_machine_that(
    #[case] world: PoolWorld,
    #[case] kept: &[&str],
) {
    let plan = world.plan();
    let shared = plan.actions.iter().find_map(|action| match action {
        PoolAction::Release { machine, shared } if *machine.name == *numbered_machine_name(0) => {
            Some(shared.clone())
        }
        _ => None,
    });
    assert_eq!(shared.expect("it is released").iter().map(|disk| &**disk).collect::<Vec<_>>(), kept);
}

#[test]
fn an_ordinal_name_proves_nothing() {
    let world = PoolWorld::desiring(0)
        .with_machine("web-0", 1)
        .edit("web-0", |machine| machine.owner = None)
        .edit_disk("web-0-root", |disk| disk.pool_uid_label = None)
        .block(0, 64)
        .pool(|pool| pool.naming = Naming::Ordinal);
    assert_eq!(world.plan(), Plan::default());
}

/// Three machines that the labels of a pool with a selector select, of which the first one has lost its
/// label.
fn with_one_detached(desired: usize) -> PoolWorld {
    let selector = Selector(vec![SelectorRequirement {
        key: "farm".into(),
        operator: Operator::In,
        values: vec!["web".into()],
    }]);
    let labels = |farm: &str| {
        let labels = Some(LabelMap::from([("farm".to_owned(), farm.to_owned())]));
        Arc::new(Selectable { labels, ..Selectable::default() })
    };
    let world = PoolWorld::desiring(desired).with_machines(3).pool(|pool| {
        pool.membership = Membership::Selector(selector);
        (pool.finalizer, pool.naming) = (Finalizer::Present, Naming::Ordinal);
    });
    (0..3).fold(world, |world, number| {
        world.edit(&numbered_machine_name(number), |machine| {
            machine.has_finalizer = true;
            machine.selectable = labels(if number == 0 { "other" } else { "web" });
        })
    })
}

#[test]
fn a_machine_that_a_user_detaches_does_not_count_while_it_is_released() {
    let plan = with_one_detached(2).plan();
    assert_eq!(plan.actions, [release()], "two machines stay");
    let plan = with_one_detached(1).plan();
    assert_eq!(deleted_machines(&plan).len(), 1, "{:?}", plan.actions);
    assert!(!deleted_machines(&plan).contains(&&*numbered_machine_name(0)), "{:?}", plan.actions);
    let plan = with_one_detached(3).plan();
    assert_eq!(created_machines(&plan), ["web-0"], "it is replaced");
    let leaving = with_one_detached(3).edit(&numbered_machine_name(0), |machine| machine.terminating = true);
    assert_eq!(created_machines(&leaving.plan()), [""; 0], "it is replaced when it is gone");
}

#[test]
fn a_machine_that_a_user_detaches_is_not_deleted_although_its_release_fails() {
    let failing = |world: PoolWorld| {
        world.memory(|memory| {
            let failure = PoolFailure { reason: FailureReason::FailedRepair, message: "denied".into() };
            memory.backoff_mut(ApplyStage::Relabel).failed(failure, Duration::from_secs(100), None, 0.0);
        })
    };
    let plan = failing(with_one_detached(0)).plan();
    assert!(!deleted_machines(&plan).contains(&&*numbered_machine_name(0)), "{:?}", plan.actions);
    // It does not start either, and would be replaced if it were a member.
    let healing = failing(with_one_detached(2))
        .pool(|pool| {
            let after = Duration::from_mins(5);
            pool.autohealing = Some(AutohealingPolicy { failed_starts: 3, after });
        })
        .edit(&numbered_machine_name(0), |machine| {
            machine.start_health = StartHealth { failed_starts: 9, ..StartHealth::default() }
        });
    let plan = healing.plan();
    assert_eq!(deleted_machines(&plan), [""; 0], "{:?}", plan.actions);
}

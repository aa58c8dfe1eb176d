use rstest::rstest;

use super::*;
use crate::model::{DiskRestore, DiskState, Lifetime, Owner};
use crate::testing::PoolWorld;

const DISK: &str = "web-a-root";

/// A machine of the pool with its disk after `edit`.
fn world(edit: impl FnOnce(Option<Disk>) -> Option<Disk>) -> PoolWorld {
    PoolWorld::desiring(1).with_machine("web-a", 1).disk(DISK, edit)
}

/// A disk that the platform created with restored data, after `edit`.
fn restored(edit: impl FnOnce(&mut Disk)) -> PoolWorld {
    world(|disk| {
        let mut disk = Disk { owner: None, restore: DiskRestore::Created, ..disk? };
        edit(&mut disk);
        Some(disk)
    })
}

fn waits(world: &PoolWorld) -> bool {
    let plan = world.plan();
    let blocked = matches!(&plan.blockers[..], [Blocker::RestoringDisk { disk, .. }] if **disk == *DISK);
    assert_eq!(blocked, plan.actions.is_empty(), "{plan:?}");
    blocked
}

#[test]
fn a_disk_that_the_platform_replaces_is_not_created_in_the_gap() {
    let mut world = world(|_| None);
    assert!(!waits(&world));
    world.replaced.insert(DISK.into(), world.uptime);
    assert!(waits(&world));
    world.uptime += LONGEST_GAP.saturating_sub(Duration::from_secs(1));
    assert!(waits(&world));
    assert_eq!(world.plan().requeue_after, Some(Duration::from_secs(1)));
    world.uptime += Duration::from_secs(1);
    assert!(!waits(&world), "the platform has given up");
}

#[test]
fn a_machine_that_the_platform_restores_gets_no_disk() {
    let world = world(|_| None).edit("web-a", |machine| machine.restoring = true);
    assert!(waits(&world));
}

#[rstest]
#[case::of_an_ephemeral_template(Lifetime::Ephemeral)]
#[case::of_a_retained_template(Lifetime::Retained)]
fn a_restored_disk_gets_its_owner_again(#[case] lifetime: Lifetime) {
    for label in [true, false] {
        let world = restored(|disk| disk.pool_uid_label = disk.pool_uid_label.take().filter(|_| label))
            .pool(|pool| pool.disks[0].lifetime = lifetime);
        let plan = world.plan();
        let [PoolAction::AdoptDisk { machine, disk, template }] = &plan.actions[..] else {
            panic!("{plan:?}")
        };
        assert_eq!((&*machine.name, &*disk.name, &**template), ("web-a", DISK, "root"));
        assert_eq!((plan.blockers.len(), plan.failure.is_none()), (0, true));
    }
}

#[rstest]
#[case::that_failed(|disk: &mut Disk| disk.state = DiskState::Failed)]
#[case::of_another_pool(|disk: &mut Disk| disk.pool_uid_label = Some("other".into()))]
#[case::that_is_terminating(|disk: &mut Disk| disk.terminating = true)]
#[case::with_another_owner(
    |disk: &mut Disk| disk.owner = Some(Owner::machine(&crate::ids::ObjectId::new("web-b", "uid-of-web-b"))))]
#[case::that_a_user_took_away(|disk: &mut Disk| disk.restore = DiskRestore::None)]
fn other_disks_are_not_adopted(#[case] edit: fn(&mut Disk)) {
    let plan = restored(edit).plan();
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::AdoptDisk { .. })), "{plan:?}");
}

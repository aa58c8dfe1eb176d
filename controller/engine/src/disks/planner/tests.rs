use rstest::rstest;

use super::*;
use crate::model::{Disk, MachineActivity, ObjectId, Owner, OwnerKind, PoolDiskTemplate};
use crate::plan::ApplyStage;
use crate::testing::{POOL_UID, PoolWorld, another_pool, numbered_machine_name, own_disk, pool_owner};

const DISK: &str = "web-a-root";

/// A machine of the pool with its disk after `edit`.
fn world(edit: impl FnOnce(Option<Disk>) -> Option<Disk>) -> PoolWorld {
    PoolWorld::desiring(1).with_machine("web-a", 1).disk(DISK, edit)
}

fn machine_id() -> ObjectId {
    ObjectId::new("web-a", "uid-of-web-a")
}

fn draft(name: &str) -> DiskDraft {
    DiskDraft::new(name.into(), "root".into())
}

fn create() -> PoolAction {
    PoolAction::CreateDisk { machine: machine_id(), disk: draft(DISK) }
}

fn owned_by(owner: Option<Owner>) -> impl FnOnce(Option<Disk>) -> Option<Disk> {
    move |disk| disk.map(|disk| Disk { owner, ..disk })
}

fn id(name: &str, uid: &str) -> ObjectId {
    ObjectId::new(name, uid)
}

fn other_kind(name: &str, uid: &str) -> Owner {
    Owner { kind: OwnerKind::Other, id: ObjectId::new(name, uid) }
}

#[rstest]
#[case::its_own_disk_is_there(world(|disk| disk), None)]
#[case::its_own_disk_is_missing(world(|_| None), Some(create()))]
#[case::its_own_disk_is_terminating(world(|disk| disk.map(|disk| Disk { terminating: true, ..disk })), None)]
#[case::a_terminating_machine_gets_no_disk(
    world(|_| None).edit("web-a", |machine| machine.terminating = true), None
)]
#[case::a_foreign_machine_gets_no_disk(
    world(|_| None).edit("web-a", |machine| machine.owner = Some(another_pool())).pool(|pool| pool.desired = 0),
    None
)]
#[case::a_disk_that_came_otherwise_is_not_ours_to_create(
    world(|_| None).edit("web-a", |machine| machine.disks[0].template = None), None
)]
#[case::a_template_that_is_gone_leaves_its_disks(world(|disk| disk).pool(|pool| pool.disks.clear()), None)]
#[case::a_disk_that_the_pool_keeps_is_created_as_well(
    world(|_| None).pool(|pool| pool.disks[0].lifetime = Lifetime::Retained), Some(create())
)]
fn an_ephemeral_disk_of_a_machine(#[case] world: PoolWorld, #[case] expected: Option<PoolAction>) {
    let plan = world.plan();
    assert_eq!(plan.actions, Vec::from_iter(expected));
    assert_eq!(plan.wants.repair, !plan.actions.is_empty());
    assert_eq!(plan.blockers, []);
}

#[test]
fn a_dying_disk_of_an_earlier_machine_of_the_name_is_waited_for() {
    let world = world(owned_by(Some(Owner::machine(&ObjectId::new("web-a", "an-earlier-uid")))));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.blockers, [Blocker::TerminatingDisk { machine: machine_id(), disk: DISK.into() }]);
    assert!(plan.blockers[0].to_string().contains(DISK));
}

#[rstest]
#[case::without_owner(None, &[], "web-a-root-2")]
#[case::of_another_machine(Some(Owner::machine(&id("web-b", "uid-of-web-b"))), &[], "web-a-root-2")]
#[case::of_another_kind_with_the_name(Some(other_kind("web-a", "an-earlier-uid")), &[], "web-a-root-2")]
#[case::of_another_kind_with_the_uid(Some(other_kind("web-a", "uid-of-web-a")), &[], "web-a-root-2")]
#[case::of_another_kind_with_the_uid_of_the_pool(Some(other_kind("web", POOL_UID)), &[], "web-a-root-2")]
#[case::of_another_name_with_the_uid_of_the_pool(Some(pool_owner("db", POOL_UID)), &[], "web-a-root-2")]
#[case::and_the_next_name_is_taken(None, &["web-a-root-2", "web-a-root-3"], "web-a-root-4")]
fn a_machine_uses_another_name_if_a_foreign_disk_has_the_name(
    #[case] owner: Option<Owner>,
    #[case] taken: &[&str],
    #[case] fresh: &str,
) {
    let foreign = |disk: Option<Disk>| disk.map(|disk| Disk { owner, pool_uid_label: None, ..disk });
    let world = taken.iter().fold(world(foreign), |world, name| world.taken(name));
    let repoint =
        PoolAction::Repoint { machine: machine_id(), position: 0, from: DISK.into(), to: draft(fresh) };
    assert_eq!(world.plan().actions, [repoint]);
}

#[test]
fn a_disk_that_lost_its_owner_keeps_its_data_and_its_machine() {
    let plan = world(owned_by(None)).plan();
    assert_eq!(plan.actions, []);
    let complaint = plan.failure.expect("the pool must report it");
    assert_eq!(complaint.reason, FailureReason::DiskFailure);
    assert!(complaint.message.contains(DISK) && complaint.message.contains("owner"), "{}", complaint.message);
}

#[test]
fn a_disk_that_cannot_be_created_any_more_is_reported() {
    let plan = world(|_| None).pool(|pool| pool.disks.clear()).plan();
    assert_eq!(plan.actions, []);
    let complaint = plan.failure.expect("the pool must report it");
    assert!(
        complaint.message.contains(DISK) && complaint.message.contains("template"),
        "{}",
        complaint.message
    );
}

#[test]
fn a_disk_that_was_refused_lets_the_others_go_first() {
    let none = |_| None;
    let lost = |world: PoolWorld| world.disk("web-a-root", none).disk("web-b-root", none);
    let mut world = lost(PoolWorld::desiring(2).with_machine("web-a", 1).with_machine("web-b", 1));
    let first = |world: &PoolWorld| world.plan().actions[0].object().clone();
    assert_eq!(&*first(&world), "web-a-root");
    world.memory.record_result(&"web-a-root".into(), true);
    assert_eq!(&*first(&world), "web-b-root");
    world.memory.record_result(&"web-a-root".into(), false);
    assert_eq!(&*first(&world), "web-a-root");
}

#[test]
fn only_what_is_missing_is_created() {
    let world = PoolWorld::desiring(1)
        .pool(|pool| pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Ephemeral)))
        .with_machine("web-a", 1)
        .edit("web-a", |machine| {
            machine.disks.push(DiskRef {
                template: Some("data".into()),
                disk: "web-a-data".into(),
                position: 2,
            });
        });
    let disk = DiskDraft::new("web-a-data".into(), "data".into());
    assert_eq!(world.plan().actions, [PoolAction::CreateDisk { machine: machine_id(), disk: disk.clone() }]);

    let machine = crate::testing::running_machine("web-a", 1);
    let world = world.disk("web-a-data", |_| {
        Some(Disk {
            owner: Some(Owner::machine(&ObjectId::new("web-z", "z"))),
            ..own_disk("web-a-data", &machine)
        })
    });
    let to = DiskDraft { name: "web-a-data-2".into(), ..disk };
    let repoint = PoolAction::Repoint { machine: machine_id(), position: 2, from: "web-a-data".into(), to };
    assert_eq!(world.plan().actions, [repoint]);
}

#[test]
fn repairs_come_in_batches_too() {
    use crate::failure::{FailureReason, PoolFailure};
    use std::time::Duration;
    let mut world = (0..4).fold(PoolWorld::desiring(4).with_machines(4), |world, number| {
        world.disk(&format!("{}-root", numbered_machine_name(number)), |_| None)
    });
    assert_eq!(world.plan().actions.len(), 4);
    let cause = PoolFailure { reason: FailureReason::DiskFailure, message: "denied".into() };
    world.memory.backoff_mut(ApplyStage::Repair).failed(cause, world.uptime, None, 0.0);
    let left = Duration::from_millis(250);
    assert_eq!(world.plan().actions, []);
    assert_eq!(world.plan().blockers, [Blocker::Backoff { stage: ApplyStage::Repair, left }]);
    assert_eq!(world.plan().requeue_after, Some(left));
    world.uptime += left;
    assert_eq!(world.plan().actions.len(), 1);
}

/// A machine that another controller created has no disk map until the controller writes to it, for example
/// while the pool is paused.
fn anothers(world: PoolWorld) -> PoolWorld {
    let without_map = |machine: &mut Machine| {
        (machine.revision, machine.written) = (Some("5c8a1d2f".into()), Some("5c8a1d2f".into()));
        for device in &mut machine.disks {
            device.template = None;
        }
    };
    world.edit("web-a", without_map).pool(|pool| pool.rollout.paused = true)
}

#[rstest]
#[case::is_there(anothers(world(|disk| disk)), None)]
#[case::is_missing(anothers(world(|_| None)), Some(create()))]
#[case::is_too_small(
    anothers(world(|disk| disk.map(|disk| Disk { size: Some(1), ..disk }))).pool(|pool| pool.disks[0].size = Some(2)),
    Some(PoolAction::ExpandDisk { disk: ObjectId::new(DISK, "uid-of-web-a-root"), to: 2 })
)]
#[case::has_another_owner(
    anothers(world(owned_by(Some(Owner::machine(&ObjectId::new("web-b", "uid-of-web-b")))))), None
)]
#[case::is_called_otherwise(
    anothers(world(|_| None)).edit("web-a", |machine| machine.disks[0].disk = "web-a-other".into()), None
)]
#[case::is_missing_in_one_of_ours_that_lost_its_map(
    anothers(world(|_| None)).edit("web-a", |machine| {
        (machine.revision, machine.written) = (Some("r1".into()), Some("r1".into()));
    }),
    None
)]
fn without_a_disk_map_the_disk_of_another_controllers_machine(
    #[case] world: PoolWorld,
    #[case] expected: Option<PoolAction>,
) {
    assert_eq!(world.plan().actions, Vec::from_iter(expected));
}

#[rstest]
#[case::it_is_made_again("web-data-x7k2pq", true)]
#[case::it_is_called_like_that_of_another_template("web-data-2-x7k2pq", false)]
#[case::it_is_called_like_no_disk_of_ours("web-data-mine", false)]
fn without_a_disk_map_a_kept_disk_that_is_gone_is_known_by_its_name(#[case] disk: &str, #[case] ours: bool) {
    let world = PoolWorld::desiring(1).keeping(|_| {}).with_machine("web-a", 1).holding("web-a", disk);
    let plan = anothers(world.disk(disk, |_| None)).plan();
    let made =
        PoolAction::CreateDisk { machine: machine_id(), disk: DiskDraft::new(disk.into(), "data".into()) };
    assert_eq!(plan.actions, Vec::from_iter(ours.then_some(made)));
}

#[test]
fn without_a_disk_map_a_kept_disk_that_holds_nothing_is_replaced() {
    let kept = PoolWorld::desiring(1)
        .keeping(|_| {})
        .with_machine("web-a", 1)
        .holding("web-a", "web-data-1")
        .edit("web-a", |machine| machine.activity = MachineActivity::NotRunning)
        .edit_disk("web-data-1", |disk| disk.state = crate::model::DiskState::Lost)
        .free("web-data-2", 5);
    let plan = anothers(kept).plan();
    let [PoolAction::Repoint { position: 1, from, to, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!((&**from, &*to.name, &*to.template), ("web-data-1", "web-data-2", "data"));
}

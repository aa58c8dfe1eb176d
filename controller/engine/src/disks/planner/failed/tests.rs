use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::FailureReason;
use crate::model::{MachineActivity, ObjectId};
use crate::plan::DiskDeleteReason;
use crate::server_clock::ServerClock;
use crate::testing::{PoolWorld, fixture_id, observation_time, own_disk, running_machine, seconds_ago};

const DISK: &str = "web-a-root";

fn created(seconds: i64) -> jiff::Timestamp {
    observation_time() - jiff::SignedDuration::from_secs(seconds)
}

fn fail(disk: &mut Disk) {
    (disk.state, disk.mounted_by) = (DiskState::Failed, None);
    (disk.failure, disk.capacity) = (Some("no space left on node n1".into()), None);
}

/// A machine that does not run because its own disk failed ten minutes ago.
fn world() -> PoolWorld {
    PoolWorld::desiring(1)
        .with_machine("web-a", 1)
        .edit("web-a", |machine| machine.activity = MachineActivity::NotRunning)
        .edit_disk(DISK, |disk| {
            fail(disk);
            disk.created = created(600);
        })
}

/// The disk of an attempt; the first replacement is attempt 2.
fn attempt(number: u64, age: i64) -> PoolWorld {
    let name = format!("{DISK}-{number}");
    let owner = running_machine("web-a", 1);
    let mut disk = own_disk(&name, &owner);
    fail(&mut disk);
    disk.created = created(age);
    world()
        .disk(DISK, |_| None)
        .disk(&name, |_| Some(disk))
        .edit("web-a", |machine| machine.disks[0].disk = name.into())
}

#[test]
fn a_disk_whose_template_got_another_source_is_replaced_without_a_failure() {
    let superseded = |disk: &mut Disk| {
        (disk.state, disk.failure) = (DiskState::Superseded, Some("image alpin does not exist".into()));
    };
    let plan = world().edit_disk(DISK, superseded).plan();
    assert_eq!((plan.actions, plan.failure), (vec![replaced_by(DISK, "web-a-root-2")], None));
    let runs = world()
        .edit_disk(DISK, superseded)
        .edit("web-a", |machine| machine.activity = MachineActivity::Running);
    assert_eq!(runs.plan().actions, [], "a running machine keeps its disks");
    let with_data = world().edit_disk(DISK, superseded).edit_disk(DISK, |disk| disk.capacity = Some(1 << 30));
    assert_eq!(with_data.plan().actions, []);
}

fn replaced_by(from: &str, to: &str) -> PoolAction {
    let to = DiskDraft::new(to.into(), "root".into());
    PoolAction::Repoint { machine: fixture_id("web-a"), position: 0, from: from.into(), to }
}

#[test]
fn a_failed_disk_of_a_machine_that_never_ran_is_replaced_and_the_owner_sees_why() {
    let plan = world().plan();
    assert_eq!(plan.actions, [replaced_by(DISK, "web-a-root-2")]);
    let complaint = plan.failure.expect("the owner must see it");
    assert_eq!(complaint.reason, FailureReason::DiskFailure);
    for part in [DISK, "machine web-a", "no space left on node n1"] {
        assert!(complaint.message.contains(part), "{part} is not in {}", complaint.message);
    }
    let taken = world().taken("web-a-root-2").plan();
    assert_eq!(taken.actions, [replaced_by(DISK, "web-a-root-3")]);
}

#[rstest]
#[case::the_first(1, 0, 2)]
#[case::the_second(2, 0, 4)]
#[case::the_third_after_a_second(3, 1, 7)]
#[case::the_fifth(5, 0, 32)]
#[case::the_twentieth(20, 0, 600)]
#[case::the_last_that_there_can_be(u64::MAX, 0, 600)]
fn the_pause_before_a_replacement_grows(#[case] number: u64, #[case] age: i64, #[case] left: u64) {
    let world = if number == 1 {
        world().edit_disk(DISK, |disk| disk.created = created(age))
    } else {
        attempt(number, age)
    };
    let plan = world.plan();
    assert_eq!((&plan.actions[..], plan.requeue_after), (&[][..], Some(Duration::from_secs(left))));
    assert!(plan.failure.is_some(), "it shows during the pause as well");
}

/// The clock of the controller is ahead by ten minutes: without that of the API server, each new disk would
/// be replaced at once.
#[test]
fn a_clock_that_is_ahead_shortens_no_pause_after_the_first_response() {
    let mut ahead = attempt(5, 600);
    assert_eq!(ahead.plan().actions.len(), 1);
    ahead.server_clock = Some(ServerClock::of_response(created(600), ahead.uptime));
    let plan = ahead.plan();
    assert_eq!((&plan.actions[..], plan.requeue_after), (&[][..], Some(Duration::from_secs(31))));
}

#[test]
fn a_replacement_has_a_number_that_no_earlier_one_had() {
    assert_eq!(attempt(3, 600).plan().actions, [replaced_by("web-a-root-3", "web-a-root-4")]);
    assert_eq!(attempt(u64::MAX, 601).plan().actions.len(), 1, "there is always a name");
}

#[rstest]
#[case::it_runs(world().edit("web-a", |machine| machine.activity = MachineActivity::Running), false)]
#[case::the_disk_held_data_once(world().edit_disk(DISK, |disk| disk.capacity = Some(1)), true)]
#[case::the_volume_is_gone(world().edit_disk(DISK, |disk| disk.state = DiskState::Lost), true)]
#[case::the_disk_is_being_deleted(world().edit_disk(DISK, |disk| disk.terminating = true), false)]
#[case::the_machine_is_being_deleted(world().edit("web-a", |machine| machine.terminating = true), false)]
fn a_disk_that_may_hold_data_is_not_replaced(#[case] world: PoolWorld, #[case] told: bool) {
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.failure.is_some(), told, "{:?}", plan.failure);
}

#[test]
fn a_failed_retained_disk_is_reported_until_it_can_be_replaced() {
    let failed = |disk: &mut Disk| fail(disk);
    let world = world()
        .keeping(|_| {})
        .edit_disk(DISK, |disk| disk.state = DiskState::Ready)
        .holding("web-a", "web-data-1")
        .edit_disk("web-data-1", failed)
        .free("web-data-2", 5)
        .edit_disk("web-data-2", failed);
    let plan = world.plan();
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::Repoint { .. })), "{plan:?}");
    let complaint = plan.failure.expect("the owner must see it");
    assert!(complaint.message.contains("disk web-data-1 of machine web-a"), "{complaint:?}");
}

/// The machine has its second disk, and the first disk still exists.
fn replaced(edit: impl FnOnce(&mut Disk)) -> PoolWorld {
    let second = own_disk("web-a-root-2", &running_machine("web-a", 1));
    world()
        .disk("web-a-root-2", |_| Some(Disk { state: DiskState::Pending, mounted_by: None, ..second }))
        .edit("web-a", |machine| machine.disks[0].disk = "web-a-root-2".into())
        .edit_disk(DISK, edit)
}

#[test]
fn a_replaced_disk_is_deleted_and_reported_until_the_machine_runs() {
    let marked = |edit: fn(&mut Disk)| replaced(edit).plan();
    let plan = marked(|_| {});
    assert!(
        matches!(&plan.actions[..], [PoolAction::AnnotateDisk { disk, .. }] if &*disk.name == DISK),
        "{plan:?}"
    );
    assert!(plan.failure.is_some());
    let plan = marked(|disk| {
        (disk.annotations.free_since, disk.annotations.collecting_since) =
            (Some(seconds_ago(40)), Some(seconds_ago(40)));
    });
    let id = ObjectId::new(DISK, &format!("uid-of-{DISK}"));
    assert_eq!(plan.actions, [PoolAction::DeleteDisk { disk: id, reason: DiskDeleteReason::Broken }]);
    let running = replaced(|_| {}).edit("web-a", |machine| machine.activity = MachineActivity::Running);
    assert_eq!(running.plan().failure, None);
    // A disk that has or may have data is never deleted as a failed disk.
    assert_eq!(replaced(|disk| disk.state = DiskState::Ready).plan().actions, []);
    assert_eq!(replaced(|disk| disk.capacity = Some(1)).plan().actions, []);
    let mapped = replaced(|_| {}).edit("web-a", |machine| {
        let detached = crate::model::DetachedDisk { template: "root".into(), disk: DISK.into() };
        machine.detached.push(detached);
    });
    assert_eq!(mapped.plan().actions, [], "the disk map names it");
}

use rstest::rstest;

use crate::model::{
    DetachedDisk, Disk, DiskDraft, DiskRef, DiskSource, Lifetime, MachineActivity, Owner, PoolDiskTemplate,
};
use crate::plan::PoolAction;
use crate::testing::{
    PoolWorld, RETAINED, created_machines, fixture_id, numbered_machine_name, own_disk, retained_disk,
    running_machine,
};

/// Two machines that run, each on a retained disk of its own.
fn world() -> PoolWorld {
    PoolWorld::desiring(2)
        .with_machines(2)
        .keeping(|_| {})
        .holding(&numbered_machine_name(0), "web-data-1")
        .holding(&numbered_machine_name(1), "web-data-2")
        .edit_disk("web-data-2", |disk| disk.mounted_by = None)
}

/// A user changes the retained device of a machine to another disk.
fn refer(world: PoolWorld, machine: &str, disk: &str) -> PoolWorld {
    world.edit(machine, |machine| {
        let device = machine.disks.last_mut().expect("it has disks");
        let template = device.template.take().expect("it was not edited");
        let own = std::mem::replace(&mut device.disk, disk.into());
        machine.detached.push(DetachedDisk { template, disk: own });
    })
}

/// The second machine refers to the disk of the first one, which has it mounted.
fn shared() -> PoolWorld {
    refer(world(), &numbered_machine_name(1), "web-data-1")
}

/// A user adds a device to the second machine.
fn added(disk: &str) -> PoolWorld {
    world().edit(&numbered_machine_name(1), |machine| {
        machine.disks.push(DiskRef { template: None, disk: disk.into(), position: 2 });
    })
}

fn detach(world: PoolWorld, machine: &str) -> PoolWorld {
    world.edit(machine, |machine| {
        let device = machine.disks.pop().expect("it has disks");
        let template = device.template.expect("it was not edited");
        machine.detached.push(DetachedDisk { template, disk: device.disk });
    })
}

fn idle(world: PoolWorld, machine: &str) -> PoolWorld {
    world.edit(machine, |machine| machine.activity = MachineActivity::NotRunning)
}

fn held(disk: &str) -> DiskDraft {
    DiskDraft { name: disk.into(), template: RETAINED.into(), source: DiskSource::Existing(fixture_id(disk)) }
}

fn repoint(machine: u64, from: &str, to: DiskDraft) -> PoolAction {
    PoolAction::Repoint {
        machine: fixture_id(&numbered_machine_name(machine)),
        position: 1,
        from: from.into(),
        to,
    }
}

#[test]
fn of_two_machines_with_one_disk_the_edited_one_gets_its_own_disk_back() {
    assert_eq!(shared().plan().actions, [repoint(1, "web-data-1", held("web-data-2"))]);
    let mut backwards = shared();
    backwards.machines.reverse();
    assert_eq!(backwards.plan().actions, [repoint(1, "web-data-1", held("web-data-2"))]);
}

#[test]
fn a_disk_of_another_pool_that_is_in_use_is_named_and_stays() {
    let foreign = |user: Option<&'static str>| {
        let mut disk = retained_disk("other-data-1");
        disk.owner = Some(Owner::pool(&fixture_id("other")));
        disk.mounted_by = user.map(Into::into);
        idle(added("other-data-1").disk("other-data-1", |_| Some(disk)), &numbered_machine_name(1)).plan()
    };
    let plan = foreign(Some("other-a"));
    assert_eq!(plan.actions, []);
    let failure = plan.failure.expect("the disk is reported").message;
    let expected = format!(
        "machine {} refers to disk other-data-1, which machine other-a uses: remove the device, or stop machine other-a",
        numbered_machine_name(1)
    );
    assert_eq!(failure, expected);
    assert_eq!(foreign(None).failure, None, "it can be a disk that the user gives to the machine");
    assert_eq!(foreign(Some("web-0")).actions, []);
}

#[test]
fn a_running_machine_keeps_a_shared_disk() {
    let unmounted = |world: PoolWorld| world.edit_disk("web-data-1", |disk| disk.mounted_by = None);
    let edited_runs = idle(unmounted(shared()), &numbered_machine_name(0))
        .edit(&numbered_machine_name(0), |machine| machine.devices_ready = true);
    let plan = edited_runs.plan();
    let [PoolAction::Repoint { machine, from, to, .. }] = &plan.actions[..] else { panic!("{plan:?}") };
    assert_eq!((&*machine.name, &**from), (&*numbered_machine_name(0), "web-data-1"));
    assert_ne!(&*to.name, "web-data-2", "the disk map of the other machine names it");
    // While both machines run and the platform does not report which one has the disk mounted, the plan
    // changes neither of them.
    assert_eq!(unmounted(shared()).plan().actions, []);
    let neither_runs = idle(idle(unmounted(shared()), &numbered_machine_name(0)), &numbered_machine_name(1));
    assert_eq!(
        neither_runs.plan().actions,
        [repoint(1, "web-data-1", held("web-data-2"))],
        "the map decides"
    );
}

#[rstest]
#[case::another_machine_refers_to_it(|world: PoolWorld| {
    let mut world = world;
    world.others.insert("web-data-2".into(), vec!["a-foreign-machine".into()]);
    world
})]
#[case::it_holds_no_data(|world: PoolWorld| world.edit_disk("web-data-2", |disk| {
    disk.state = crate::model::DiskState::Lost;
}))]
#[case::it_is_being_deleted(|world: PoolWorld| world.edit_disk("web-data-2", |disk| disk.terminating = true))]
#[case::it_is_mounted_elsewhere(
    |world: PoolWorld| world.edit_disk("web-data-2", |disk| disk.mounted_by = Some("web-gone".into()))
)]
fn a_machine_whose_disk_cannot_be_used_gets_another_one(#[case] edit: fn(PoolWorld) -> PoolWorld) {
    let plan = edit(shared()).free("web-data-3", 60).plan();
    let to = DiskDraft { source: DiskSource::Free(retained_disk("web-data-3").id), ..held("web-data-3") };
    assert!(plan.actions.contains(&repoint(1, "web-data-1", to)), "{plan:?}");
}

#[test]
fn a_machine_whose_disk_does_not_exist_gets_a_new_one_of_that_name() {
    let world = shared().disk("web-data-2", |_| None);
    let to = DiskDraft::new("web-data-2".into(), RETAINED.into());
    assert_eq!(world.plan().actions, [repoint(1, "web-data-1", to)]);
}

#[test]
fn a_device_that_was_added_for_the_disk_of_another_machine_is_removed() {
    let detach = PoolAction::Detach {
        machine: fixture_id(&numbered_machine_name(1)),
        position: 2,
        disk: "web-data-1".into(),
    };
    assert_eq!(added("web-data-1").plan().actions, [detach]);
    // The same holds for an ephemeral disk.
    let root = format!("{}-root", numbered_machine_name(0));
    assert_eq!(
        added(&root).plan().actions,
        [PoolAction::Detach {
            machine: fixture_id(&numbered_machine_name(1)),
            position: 2,
            disk: root.into()
        }]
    );
}

#[test]
fn a_device_that_was_added_for_an_unused_disk_stays() {
    let world = added("web-data-3").free("web-data-3", 60).edit_disk("web-data-3", |disk| {
        disk.annotations = crate::model::DiskAnnotations::default();
    });
    assert_eq!(world.plan().actions, []);
    let foreign = added("somebodys").disk("somebodys", |_| Some(Disk::blank(fixture_id("somebodys"))));
    assert_eq!(foreign.plan().actions, []);
}

#[test]
fn a_machine_is_never_left_without_a_device() {
    let world = world().edit(&numbered_machine_name(1), |machine| {
        machine.disks = vec![DiskRef { template: None, disk: "web-data-1".into(), position: 0 }];
    });
    let plan = world.plan();
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::Detach { .. })), "{plan:?}");
    let complaint = plan.failure.expect("the owner of the pool must see it");
    assert!(
        complaint.message.contains(&numbered_machine_name(1)) && complaint.message.contains("web-data-1"),
        "{complaint:?}"
    );
}

#[test]
fn a_disk_that_ends_with_its_machine_is_not_taken_from_another_machine_that_runs_on_it() {
    let root = format!("{}-root", numbered_machine_name(0));
    let world = added(&root).edit_disk(&root, |disk| disk.mounted_by = Some(numbered_machine_name(1).into()));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    let complaint = plan.failure.expect("the owner of the pool must see it");
    assert!(complaint.message.contains(&root) && complaint.message.contains("stop"), "{complaint:?}");
    let stopped = idle(added(&root), &numbered_machine_name(1));
    assert_eq!(stopped.plan().actions.len(), 1);
}

#[test]
fn a_disk_that_only_a_disk_map_names_is_neither_marked_nor_allocated() {
    for world in [shared(), detach(world(), &numbered_machine_name(1))] {
        let world = world.pool(|pool| {
            pool.desired = 3;
            pool.disks[1].ttl = Some(std::time::Duration::from_secs(1));
        });
        let world = world.edit_disk("web-data-2", |disk| disk.mounted_by = None);
        let plan = world.plan();
        assert_eq!(created_machines(&plan).len(), 1);
        let touches = |action: &&PoolAction| match action {
            PoolAction::AnnotateDisk { disk, .. } | PoolAction::DeleteDisk { disk, .. } => {
                &*disk.name == "web-data-2"
            }
            PoolAction::Create { draft } => draft.disks.iter().any(|disk| &*disk.name == "web-data-2"),
            _ => false,
        };
        assert_eq!(plan.actions.iter().find(touches), None);
    }
}

#[test]
fn a_device_that_was_removed_by_hand_stays_removed() {
    let world = detach(world(), &numbered_machine_name(1));
    assert_eq!(world.plan().actions, []);
    // A disk that an earlier claim gave to the machine does not replace the detached disk.
    let claimed = world.free("web-data-3", 60).edit_disk("web-data-3", |disk| {
        disk.annotations = crate::model::DiskAnnotations {
            claimed_by: Some(numbered_machine_name(1).into()),
            ..Default::default()
        };
    });
    let actions = claimed.plan().actions;
    assert!(
        matches!(&actions[..], [PoolAction::AnnotateDisk { disk, annotations, .. }] if &*disk.name == "web-data-3" && annotations.claimed_by.is_none()),
        "{actions:?}"
    );
}

#[test]
fn a_rollout_does_not_attach_a_device_that_was_removed_by_hand() {
    let world = detach(world(), &numbered_machine_name(1)).pool(|pool| pool.revision.id = "r2".into());
    let world = idle(world, &numbered_machine_name(1)).free("web-data-3", 60);
    let plan = world.plan();
    let drafts = plan.actions.iter().find_map(|action| match action {
        PoolAction::Update { machine, disks, .. } if *machine == fixture_id(&numbered_machine_name(1)) => {
            Some(disks.clone())
        }
        _ => None,
    });
    let templates: Vec<_> =
        drafts.expect("it is written to").iter().map(|disk| disk.template.to_string()).collect();
    assert_eq!(templates, ["root"]);
}

#[test]
fn a_disk_map_that_names_the_disk_of_another_machine_is_corrected() {
    // The device stays unchanged, and a user edits the disk map.
    let world = world().edit(&numbered_machine_name(1), |machine| {
        machine.disks[1].template = None;
        machine.detached.push(DetachedDisk { template: RETAINED.into(), disk: "web-data-1".into() });
    });
    assert_eq!(world.plan().actions, [repoint(1, "web-data-2", held("web-data-2"))]);
}

#[test]
fn a_disk_map_that_names_a_disk_of_its_own_stays_although_another_device_could_fill_the_template() {
    let world = refer(world(), &numbered_machine_name(1), "web-data-3").free("web-data-3", 60);
    let world =
        world.edit_disk("web-data-3", |disk| disk.annotations = crate::model::DiskAnnotations::default());
    assert_eq!(world.plan().actions, [], "the data of web-data-2 must not become free");
}

#[test]
fn a_machine_that_lost_two_devices_gets_the_one_of_the_same_template_back() {
    let second = numbered_machine_name(1);
    let owner = running_machine(&second, 1);
    let world = shared()
        .pool(|pool| pool.disks.insert(1, PoolDiskTemplate::new("logs", Lifetime::Ephemeral)))
        .edit(&numbered_machine_name(0), |machine| {
            machine.disks.push(DiskRef { template: Some("logs".into()), disk: "logs-1".into(), position: 2 });
        })
        .edit(&second, |machine| {
            machine.detached.insert(0, DetachedDisk { template: "logs".into(), disk: "logs-2".into() });
        })
        .disk("logs-1", |_| {
            Some(Disk {
                template: Some("logs".into()),
                ..own_disk("logs-1", &running_machine(&numbered_machine_name(0), 1))
            })
        })
        .disk("logs-2", |_| Some(Disk { template: Some("logs".into()), ..own_disk("logs-2", &owner) }));
    assert_eq!(world.plan().actions, [repoint(1, "web-data-1", held("web-data-2"))]);
}

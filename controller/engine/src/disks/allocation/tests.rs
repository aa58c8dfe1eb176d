use jiff::Timestamp;
use rstest::rstest;
use std::time::Duration;

use super::*;
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{
    Disk, DiskAnnotations, DiskRef, DiskState, Lifetime, MachineActivity, Owner, StoredTime, Uid,
};
use crate::plan::{ApplyStage, PoolAction};
use crate::scale_up::names::DiskNamer;
use crate::testing::{
    PoolWorld, RETAINED, created_machines, numbered_machine_name, pool_owner, retained_disk, seconds_ago,
};

/// A pool of two machines, one of which exists, and a disk that has been free for a minute.
fn world() -> PoolWorld {
    PoolWorld::desiring(2)
        .with_machines(1)
        .keeping(|_| {})
        .holding(&numbered_machine_name(0), "web-data-1")
        .free("web-data-2", 60)
}

fn disk(edit: impl FnOnce(&mut Disk)) -> PoolWorld {
    world().edit_disk("web-data-2", edit)
}

/// The retained disk of each machine that a plan creates.
fn given(world: &PoolWorld) -> Vec<DiskDraft> {
    let disks = world.plan().actions.into_iter().filter_map(|action| match action {
        PoolAction::Create { draft } => draft.disks.into_iter().find(|disk| *disk.template == *RETAINED),
        _ => None,
    });
    disks.collect()
}

fn free(name: &str) -> DiskDraft {
    DiskDraft {
        name: name.into(),
        template: RETAINED.into(),
        source: DiskSource::Free(retained_disk(name).id),
    }
}

fn held(name: &str) -> DiskDraft {
    DiskDraft { source: DiskSource::Existing(retained_disk(name).id), ..free(name) }
}

/// The new disk for the machine with this number.
fn made(number: u64, attempt: u64) -> DiskDraft {
    let name = DiskNamer::new("web", &Uid::from(crate::testing::POOL_UID), RETAINED).name(number, attempt);
    DiskDraft::new(name.into(), RETAINED.into())
}

#[rstest]
#[case::it_is_ready(disk(|_| {}))]
#[case::it_waits_for_its_first_consumer(disk(|disk| disk.state = DiskState::Pending))]
#[case::it_grows_or_moves(disk(|disk| disk.state = DiskState::Changing))]
#[case::it_has_just_become_free(disk(|disk| disk.annotations = DiskAnnotations::default()))]
#[case::its_last_machine_is_gone(
    disk(|disk| disk.annotations = DiskAnnotations { claimed_by: Some("web-gone".into()), ..DiskAnnotations::default() })
)]
#[case::it_is_about_to_be_deleted_and_the_only_one(disk(|disk| disk.annotations.collecting_since = Some(seconds_ago(29))))]
#[case::its_stamp_cannot_be_read(disk(|disk| disk.annotations.free_since = Some(StoredTime::Unreadable)))]
#[case::a_machine_that_has_another_claims_it(disk(|disk| disk.annotations.claimed_by = Some(numbered_machine_name(0).into())))]
fn a_free_disk_is_used_again(#[case] world: PoolWorld) {
    assert_eq!(given(&world), [free("web-data-2")]);
}

#[rstest]
#[case::it_failed(disk(|disk| disk.state = DiskState::Failed))]
#[case::it_is_lost(disk(|disk| disk.state = DiskState::Lost))]
#[case::it_is_on_its_way_out(disk(|disk| disk.terminating = true))]
#[case::a_machine_refers_to_it(world().edit(&numbered_machine_name(0), |machine| machine.disks[1].disk = "web-data-2".into()))]
#[case::a_machine_may_still_mount_it(
    world().edit(&numbered_machine_name(0), |machine| machine.lingering.push("web-data-2".into()))
)]
#[case::a_machine_mounts_it(disk(|disk| disk.mounted_by = Some(numbered_machine_name(0).into())))]
#[case::an_image_is_made_from_it(disk(|disk| disk.used_otherwise = true))]
#[case::it_belongs_to_another_owner(disk(|disk| disk.owner = Some(pool_owner("web", "another"))))]
#[case::it_belongs_to_no_owner(disk(|disk| disk.owner = None))]
#[case::it_is_of_another_template(disk(|disk| disk.template = Some("logs".into())))]
#[case::a_machine_was_refused_for_it(
    world().memory(|memory| memory.refuse_disk(&"web-data-2".into(), Duration::from_secs(50)))
)]
fn what_is_not_free_is_not_used_and_a_disk_is_made(#[case] world: PoolWorld) {
    assert_eq!(given(&world), [made(1, 0)]);
}

#[test]
fn a_disk_with_a_user_outside_the_pool_is_not_allocated() {
    let mut world = world();
    world.others.insert("web-data-2".into(), vec!["a-foreign-machine".into()]);
    assert_eq!(given(&world), [made(1, 0)]);
}

#[test]
fn the_disk_of_a_terminating_machine_is_not_free() {
    let world = disk(|disk| disk.terminating = true)
        .edit(&numbered_machine_name(0), |machine| machine.terminating = true)
        .pool(|pool| pool.desired = 2);
    assert_eq!(given(&world), [made(1, 0)]);
}

#[rstest]
#[case::what_is_ready_comes_before_what_is_not(|disk: &mut Disk| disk.state = DiskState::Pending)]
#[case::what_is_not_about_to_be_deleted_comes_first(|disk: &mut Disk| disk.annotations.collecting_since = Some(seconds_ago(1)))]
#[case::what_became_free_last_comes_first(|disk: &mut Disk| disk.annotations.free_since = Some(seconds_ago(61)))]
fn the_better_disk_is_handed_out_first(#[case] worse: fn(&mut Disk)) {
    // The order of the names is the opposite.
    let world = world().free("web-data-1b", 60).edit_disk("web-data-1b", worse).pool(|pool| pool.desired = 4);
    assert_eq!(given(&world), [free("web-data-2"), free("web-data-1b"), made(3, 0)]);
}

#[test]
fn among_equals_the_name_decides() {
    let world = world().free("web-data-3", 60).pool(|pool| pool.desired = 3);
    assert_eq!(given(&world), [free("web-data-2"), free("web-data-3")]);
}

#[test]
fn a_refusal_is_forgotten_after_a_while() {
    let mut world = world().memory(|memory| memory.refuse_disk(&"web-data-2".into(), Duration::ZERO));
    world.uptime = crate::memory::REFUSAL_AGE.checked_sub(Duration::from_secs(1)).unwrap();
    assert_eq!(given(&world), [made(1, 0)]);
    world.uptime += Duration::from_secs(1);
    assert_eq!(given(&world), [free("web-data-2")]);
}

#[test]
fn a_new_disk_avoids_names_that_are_taken() {
    let world = disk(|disk| disk.state = DiskState::Lost).taken(&made(1, 0).name).taken(&made(1, 1).name);
    assert_eq!(given(&world), [made(1, 2)]);
}

#[test]
fn an_open_claim_is_completed_by_creating_its_machine_before_any_other() {
    let world = disk(|disk| {
        disk.annotations = DiskAnnotations {
            claimed_by: Some(numbered_machine_name(7).into()),
            ..DiskAnnotations::default()
        }
    })
    .free("web-data-3", 5)
    .pool(|pool| pool.desired = 3);
    assert_eq!(created_machines(&world.plan()), [numbered_machine_name(7), numbered_machine_name(1)]);
    assert_eq!(given(&world), [held("web-data-2"), free("web-data-3")]);
    let one = world.pool(|pool| pool.desired = 2);
    assert_eq!(created_machines(&one.plan()), [numbered_machine_name(7)]);
}

#[rstest]
#[case::its_number_is_used_up(|memory: &mut crate::PassMemory| memory.next_number = 8, numbered_machine_name(7))]
#[case::its_number_was_never_opened(|_: &mut crate::PassMemory| {}, numbered_machine_name(64))]
#[case::its_name_is_none_of_ours(|_: &mut crate::PassMemory| {}, "other".into())]
fn a_claim_that_cannot_be_completed_leaves_the_disk_free(
    #[case] edit: fn(&mut crate::PassMemory),
    #[case] claimer: String,
) {
    let world = disk(|disk| {
        disk.annotations =
            DiskAnnotations { claimed_by: Some((*claimer).into()), ..DiskAnnotations::default() }
    });
    assert_eq!(given(&world.memory(edit)), [free("web-data-2")]);
}

#[test]
fn an_allocation_ends_if_a_foreign_machine_has_the_name() {
    let claimed = disk(|disk| {
        disk.annotations = DiskAnnotations {
            claimed_by: Some(numbered_machine_name(7).into()),
            ..DiskAnnotations::default()
        }
    });
    let world = claimed.taken(&numbered_machine_name(7));
    assert_eq!(
        (created_machines(&world.plan()), given(&world)),
        (vec![&*numbered_machine_name(1)], vec![free("web-data-2")])
    );
}

#[test]
fn a_create_that_is_repeated_asks_for_the_same_disks() {
    let repeated = world().with_unconfirmed([1]);
    assert_eq!(given(&repeated), [made(1, 0)], "it may exist with that one already");
    let claimed = disk(|disk| {
        disk.annotations = DiskAnnotations {
            claimed_by: Some(numbered_machine_name(1).into()),
            ..DiskAnnotations::default()
        }
    });
    let repeated = claimed.with_unconfirmed([1]).free("web-data-3", 5);
    assert_eq!(given(&repeated), [held("web-data-2")]);
}

#[test]
fn a_machine_waits_for_a_disk_that_is_about_to_become_free_but_not_for_ever() {
    let gone = Some("web-gone".into());
    let mut world = disk(|disk| disk.mounted_by = gone).pool(|pool| pool.desired = 3);
    let plan = world.plan();
    assert_eq!(given(&world), [made(2, 0)], "one machine waits, the other does not");
    let blocker =
        Blocker::PendingDisk { machine: numbered_machine_name(1).into(), disk: "web-data-2".into() };
    assert_eq!(plan.blockers, [blocker]);
    assert_eq!(plan.requeue_after, Some(UNMOUNT_TIMEOUT));
    world.memory.await_disks(&plan.awaited, world.uptime);
    world.uptime += UNMOUNT_TIMEOUT;
    assert_eq!(given(&world), [made(1, 0), made(2, 0)]);
}

/// After a failure the plan creates one machine at a time. If that machine is blocked, the plan must choose
/// another one, because the next pass would find the same state.
#[test]
fn a_machine_that_waits_after_a_failure_is_not_tried_again_at_once() {
    let gone = Some("web-gone".into());
    let mut world = disk(|disk| disk.mounted_by = gone).pool(|pool| pool.desired = 3).memory(|memory| {
        let cause = PoolFailure { reason: FailureReason::FailedCreate, message: "exceeded quota".into() };
        memory.backoff_mut(ApplyStage::Create).failed(cause, Duration::from_secs(100), None, 0.0);
    });
    world.uptime += Duration::from_secs(1);
    let plan = world.plan();
    assert_eq!(created_machines(&plan), [""; 0]);
    assert_eq!(plan.requeue_after, Some(UNMOUNT_TIMEOUT));
}

#[test]
fn a_disk_that_may_exist_is_waited_for_unless_a_machine_has_it() {
    let lost = |disk: &str| {
        world().disk("web-data-2", |_| None).memory(|memory| {
            memory.disks.create_unconfirmed(&disk.into(), 0, Duration::ZERO);
        })
    };
    let plan = lost("web-data-zzzzzz").plan();
    assert_eq!(
        plan.blockers,
        [Blocker::PendingDisk { machine: numbered_machine_name(1).into(), disk: "web-data-zzzzzz".into() }]
    );
    assert_eq!(given(&lost("web-data-1")), [made(1, 0)], "its machine is there");
    assert_eq!(given(&lost("web-data-logs-zzzzzz")), [made(1, 0)], "it is of another template");
}

#[test]
fn what_a_waiting_machine_would_have_got_besides_goes_to_the_next() {
    let logs = |name: &str| {
        let free_since = Some(seconds_ago(9));
        Disk {
            template: Some("logs".into()),
            annotations: DiskAnnotations { free_since, ..DiskAnnotations::default() },
            ..retained_disk(name)
        }
    };
    let leaving = Disk { mounted_by: Some("web-gone".into()), ..logs("web-logs-1") };
    let mut world = world().pool(|pool| {
        pool.desired = 3;
        pool.disks.push(PoolDiskTemplate::new("logs", Lifetime::Retained));
    });
    world = world.disk("web-logs-1", |_| Some(leaving));
    assert_eq!(given(&world), [free("web-data-2")]);
    assert_eq!(created_machines(&world.plan()), [numbered_machine_name(2)]);
}

#[test]
fn templates_of_the_current_revision_alone_get_disks() {
    let world = world().pool(|pool| pool.disks[1].used = false);
    assert_eq!(given(&world), []);
    assert_eq!(created_machines(&world.plan()).len(), 1);
}

/// A second machine that refers to the disk of the first one.
fn shared(edit: impl FnOnce(PoolWorld) -> PoolWorld) -> PoolWorld {
    let second = numbered_machine_name(1);
    let world = world().with_machine(&second, 1).holding(&second, "web-data-1");
    edit(world.edit_disk("web-data-1", |disk| disk.mounted_by = None).edit(&second, |machine| {
        machine.activity = MachineActivity::NotRunning;
    }))
}

fn repointed(world: &PoolWorld) -> Vec<(String, DiskDraft)> {
    let repointed = world.plan().actions.into_iter().filter_map(|action| match action {
        PoolAction::Repoint { machine, to, .. } => Some((machine.name.to_string(), to)),
        _ => None,
    });
    repointed.collect()
}

#[rstest]
#[case::the_machine_that_mounts_it(
    |world: PoolWorld| world
        .edit_disk("web-data-1", |disk| disk.mounted_by = Some(numbered_machine_name(1).into()))
        .edit(&numbered_machine_name(1), |machine| machine.devices_ready = false),
    0
)]
#[case::then_the_machine_with_all_its_devices(
    |world: PoolWorld| world.edit(&numbered_machine_name(0), |machine| {
        (machine.devices_ready, machine.activity) = (false, MachineActivity::NotRunning);
    }),
    0
)]
#[case::else_the_oldest(|world: PoolWorld| world, 1)]
#[case::else_the_first_by_name(
    |world: PoolWorld| world
        .edit(&numbered_machine_name(0), |machine| (machine.created, machine.activity) = (Timestamp::UNIX_EPOCH, MachineActivity::NotRunning))
        .edit(&numbered_machine_name(1), |machine| machine.created = Timestamp::UNIX_EPOCH),
    u64::from(numbered_machine_name(0) < numbered_machine_name(1))
)]
fn of_two_machines_with_one_disk_one_keeps_it(#[case] edit: fn(PoolWorld) -> PoolWorld, #[case] loser: u64) {
    let world = shared(edit);
    assert_eq!(repointed(&world), [(numbered_machine_name(loser), free("web-data-2"))]);
    let mut backwards = world;
    backwards.machines.reverse();
    assert_eq!(
        repointed(&backwards),
        [(numbered_machine_name(loser), free("web-data-2"))],
        "in any order of the machines"
    );
}

#[test]
fn a_disk_is_not_detached_from_a_machine_that_may_run_on_it() {
    let running = |world: PoolWorld| {
        world.edit(&numbered_machine_name(1), |machine| machine.activity = MachineActivity::Running)
    };
    assert_eq!(repointed(&shared(running)), []);
    let told = |world: PoolWorld| {
        running(world).edit_disk("web-data-1", |disk| disk.mounted_by = Some(numbered_machine_name(0).into()))
    };
    assert_eq!(repointed(&shared(told)).len(), 1);
}

#[test]
fn a_terminating_machine_neither_keeps_a_disk_nor_loses_it() {
    let world = shared(|world| world.edit(&numbered_machine_name(0), |machine| machine.terminating = true));
    assert_eq!(repointed(&world), []);
}

#[rstest]
#[case::failed(DiskState::Failed)]
#[case::lost(DiskState::Lost)]
fn a_failed_disk_is_replaced_if_no_machine_runs_on_it(#[case] state: DiskState) {
    let broken = || world().edit_disk("web-data-1", |disk| (disk.state, disk.mounted_by) = (state, None));
    let idle = |world: PoolWorld| {
        world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning)
    };
    assert_eq!(repointed(&broken()), [], "it runs");
    assert_eq!(repointed(&idle(broken())), [(numbered_machine_name(0), free("web-data-2"))]);
    let mounted = idle(broken())
        .edit_disk("web-data-1", |disk| disk.mounted_by = Some(numbered_machine_name(0).into()));
    assert_eq!(
        repointed(&mounted),
        [(numbered_machine_name(0), free("web-data-2"))],
        "it waits for the disk"
    );
    let none = idle(broken()).disk("web-data-2", |_| None);
    assert_eq!(repointed(&none), [(numbered_machine_name(0), made(0, 0))]);
    let in_vain = idle(broken()).edit_disk("web-data-2", |disk| disk.state = DiskState::Failed);
    assert_eq!(repointed(&in_vain), [], "the same cause would make the next attempt fail");
    let terminating = idle(broken()).edit_disk("web-data-1", |disk| disk.terminating = true);
    assert_eq!(repointed(&terminating), []);
}

#[test]
fn a_disk_that_repairs_take_is_not_created_with() {
    let world = world()
        .edit_disk("web-data-1", |disk| (disk.state, disk.mounted_by) = (DiskState::Lost, None))
        .edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::Stopped);
    assert_eq!(repointed(&world), [(numbered_machine_name(0), free("web-data-2"))]);
    assert_eq!(given(&world), [made(1, 0)]);
    let marked =
        world.plan().actions.iter().filter(|action| action.stage() == ApplyStage::CollectDisks).count();
    assert_eq!(marked, 0, "the claim is the write");
}

#[rstest]
#[case::without_owner(None)]
#[case::of_another_pool(Some(pool_owner("db", "another")))]
fn a_foreign_disk_is_detached_only_from_a_stopped_machine(#[case] owner: Option<Owner>) {
    let world = world().edit_disk("web-data-1", |disk| {
        (disk.owner, disk.pool_uid_label, disk.mounted_by) = (owner, None, None);
    });
    assert_eq!(repointed(&world), []);
    let complaint = world.plan().failure.expect("the pool must report it");
    assert!(complaint.message.contains("web-data-1"), "{}", complaint.message);
    let idle =
        world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning);
    assert_eq!(repointed(&idle), [(numbered_machine_name(0), free("web-data-2"))]);
}

#[test]
fn a_disk_of_an_earlier_pool_of_the_name_is_waited_for() {
    let world = world()
        .pool(|pool| pool.desired = 1)
        .edit_disk("web-data-1", |disk| disk.owner = Some(pool_owner("web", "an-earlier-uid")));
    let plan = world.plan();
    assert_eq!(plan.actions, []);
    assert!(matches!(&plan.blockers[..], [Blocker::TerminatingDisk { disk, .. }] if **disk == *"web-data-1"));
}

#[test]
fn a_kept_disk_that_was_never_made_is_made() {
    let world = world().disk("web-data-1", |_| None).pool(|pool| pool.desired = 1);
    let disk = DiskDraft::new("web-data-1".into(), RETAINED.into());
    assert_eq!(
        world.plan().actions,
        [PoolAction::CreateDisk { machine: crate::testing::fixture_id(&numbered_machine_name(0)), disk }]
    );
}

#[rstest]
#[case::it_was_kept_once(Lifetime::Ephemeral, Some(pool_owner("web", crate::testing::POOL_UID)))]
#[case::it_was_its_own_once(Lifetime::Retained, Some(Owner::machine(&crate::testing::fixture_id(&numbered_machine_name(0)))))]
fn a_machine_keeps_its_disk_when_the_policy_changes(#[case] now: Lifetime, #[case] owner: Option<Owner>) {
    let world = PoolWorld::desiring(1)
        .with_machines(1)
        .keeping(|template| template.lifetime = now)
        .holding(&numbered_machine_name(0), "web-data-1")
        .edit_disk("web-data-1", |disk| disk.owner = owner);
    assert_eq!(world.plan(), crate::Plan::default());
}

#[test]
fn a_machine_with_a_missing_disk_gets_its_allocated_disk() {
    let claimed_by = Some(numbered_machine_name(0).into());
    let world = disk(|disk| disk.annotations = DiskAnnotations { claimed_by, ..DiskAnnotations::default() });
    let world = world.pool(|pool| pool.desired = 1);
    assert_eq!(world.plan().actions.len(), 1, "it has one: {:?}", world.plan().actions);
    assert_eq!(
        repointed(&world.disk("web-data-1", |_| None)),
        [(numbered_machine_name(0), held("web-data-2"))]
    );
}

#[test]
fn a_machine_with_a_failed_disk_gets_its_allocated_disk() {
    let claimed_by = Some(numbered_machine_name(0).into());
    let world = disk(|disk| disk.annotations = DiskAnnotations { claimed_by, ..DiskAnnotations::default() })
        .free("web-data-3", 1)
        .edit_disk("web-data-1", |disk| (disk.state, disk.mounted_by) = (DiskState::Lost, None))
        .edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning);
    assert_eq!(repointed(&world), [(numbered_machine_name(0), held("web-data-2"))]);
}

/// The disk that a machine gets for the retained template.
fn filled(world: &PoolWorld, machine: &str) -> Result<DiskDraft, Blocker> {
    let snapshot = world.snapshot();
    let observed = world.observed(&snapshot);
    let machine = observed.machines.iter().find(|found| *found.id.name == *machine).unwrap();
    FreeDisks::new(&observed).disk_for(machine, observed.pool.disks.last().unwrap())
}

fn lacking(world: PoolWorld) -> PoolWorld {
    world.edit(&numbered_machine_name(0), |machine| drop(machine.disks.pop()))
}

#[test]
fn a_machine_without_a_disk_gets_its_allocated_disk_or_a_free_or_new_one() {
    let first = numbered_machine_name(0);
    assert_eq!(filled(&world(), &first), Ok(held("web-data-1")), "the one that it has");
    let missing = world().disk("web-data-1", |_| None);
    assert_eq!(filled(&missing, &first), Ok(DiskDraft::new("web-data-1".into(), RETAINED.into())));
    let world = lacking(world().disk("web-data-1", |_| None));
    assert_eq!(filled(&world, &first), Ok(free("web-data-2")));
    let claimed = lacking(disk(|disk| {
        disk.annotations = DiskAnnotations {
            claimed_by: Some(numbered_machine_name(0).into()),
            ..DiskAnnotations::default()
        }
    }));
    let claimed = claimed.free("web-data-3", 1).disk("web-data-1", |_| None);
    assert_eq!(filled(&claimed, &first), Ok(held("web-data-2")));
    assert_eq!(
        claimed
            .pool(|pool| pool.desired = 1)
            .plan()
            .actions
            .iter()
            .filter(|a| a.stage() == ApplyStage::CollectDisks)
            .count(),
        0
    );
    let to_come = lacking(disk(|disk| {
        disk.annotations = DiskAnnotations {
            claimed_by: Some(numbered_machine_name(7).into()),
            ..DiskAnnotations::default()
        }
    }));
    let blocker =
        Blocker::PendingDisk { machine: numbered_machine_name(0).into(), disk: "web-data-2".into() };
    assert_eq!(filled(&to_come, &first), Err(blocker), "the machine of the claim may never be created");
    let none = world.disk("web-data-2", |_| None);
    assert_eq!(filled(&none, &first), Ok(made(0, 0)));
    let own = none.pool(|pool| pool.disks[1].lifetime = Lifetime::Ephemeral);
    let draft = |name: String| Ok(DiskDraft::new(name.into(), RETAINED.into()));
    assert_eq!(filled(&own, &first), draft(format!("{first}-data")));
    assert_eq!(filled(&own.taken(&format!("{first}-data")), &first), draft(format!("{first}-data-2")));
}

#[test]
fn a_machine_that_this_pool_did_not_name_gets_a_disk_with_a_name_of_its_own() {
    let mut world =
        PoolWorld::desiring(2).with_machine("by-hand-1", 1).with_machine("by-hand-2", 1).keeping(|_| {});
    let first = filled(&world, "by-hand-1").unwrap();
    assert_eq!(filled(&world, "by-hand-1").unwrap(), first, "the same every time");
    assert_ne!(filled(&world, "by-hand-2").unwrap(), first);
    world.pool.naming = Naming::Ordinal;
    world = world.with_machine("web-3", 1);
    assert_eq!(filled(&world, "web-3").unwrap(), made(3, 0));
}

#[test]
fn a_disk_is_handed_out_once_in_a_pass() {
    let world = lacking(world().disk("web-data-1", |_| None));
    let snapshot = world.snapshot();
    let observed = world.observed(&snapshot);
    let mut free_disks = FreeDisks::new(&observed);
    let (machine, template) = (&observed.machines[0], &observed.pool.disks[1]);
    let first = free_disks.disk_for(machine, template).unwrap();
    assert_eq!(first, free("web-data-2"));
    assert_eq!(free_disks.disk_for(machine, template).unwrap(), made(0, 0));
    free_disks.return_disks(vec![first.clone()]);
    assert_eq!(free_disks.disk_for(machine, template).unwrap(), first);
    let position = 1;
    assert!(machine.disks.iter().all(|DiskRef { position: at, .. }| *at != position));
}

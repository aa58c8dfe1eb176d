use rstest::rstest;

use super::*;
use crate::failure::PoolFailure;
use crate::model::{DiskState, StoredTime};
use crate::testing::{
    PoolWorld, RETAINED, another_pool, numbered_machine_name, observation_time, pool_owner, retained_disk,
    seconds_ago,
};

/// A pool of one machine, and a retained disk that has been free for a minute.
fn world() -> PoolWorld {
    PoolWorld::desiring(1)
        .with_machines(1)
        .keeping(|_| {})
        .holding(&numbered_machine_name(0), "web-data-1")
        .free("web-data-2", 60)
}

fn with_ttl(keep: usize, seconds: u64) -> PoolWorld {
    world().pool(|pool| {
        let template = &mut pool.disks[1];
        (template.keep_free, template.ttl) = (keep, Some(Duration::from_secs(seconds)));
    })
}

fn template(edit: fn(&mut PoolDiskTemplate)) -> PoolWorld {
    world().pool(|pool| edit(&mut pool.disks[1]))
}

fn disk(edit: impl FnOnce(&mut Disk)) -> PoolWorld {
    world().edit_disk("web-data-2", edit)
}

fn annotated(annotations: DiskAnnotations) -> PoolAction {
    annotate_disk_action(&retained_disk("web-data-2"), annotations)
}

fn deleted(name: &str, reason: DiskDeleteReason) -> PoolAction {
    PoolAction::DeleteDisk { disk: retained_disk(name).id, reason }
}

/// A free disk of a disk template that the pool no longer has.
const FORMER: &str = "web-logs-2";

fn without_template(annotations: DiskAnnotations) -> PoolWorld {
    let world = world().disk("web-data-2", |_| None).free(FORMER, 60);
    world.edit_disk(FORMER, |disk| (disk.template, disk.annotations) = (Some("logs".into()), annotations))
}

/// The time this number of seconds before now.
fn created(seconds: i64) -> Timestamp {
    observation_time() - jiff::SignedDuration::from_secs(seconds)
}

fn free_since(time: StoredTime) -> DiskAnnotations {
    DiskAnnotations { free_since: Some(time), ..DiskAnnotations::default() }
}

fn collecting(since: StoredTime) -> DiskAnnotations {
    DiskAnnotations { collecting_since: Some(since), ..free_since(seconds_ago(60)) }
}

#[rstest]
#[case::it_says_so_already(disk(|_| {}), None)]
#[case::it_has_just_become_free(disk(|disk| disk.annotations = DiskAnnotations::default()), Some(free_since(seconds_ago(0))))]
#[case::its_stamp_cannot_be_read(
    disk(|disk| disk.annotations = free_since(StoredTime::Unreadable)), Some(free_since(seconds_ago(0)))
)]
#[case::its_stamp_is_a_little_ahead(disk(|disk| disk.annotations = free_since(seconds_ago(-60))), None)]
#[case::its_stamp_is_from_the_future(disk(|disk| disk.annotations = free_since(seconds_ago(-61))), Some(free_since(seconds_ago(0))))]
#[case::its_stamp_is_from_year_one(
    disk(|disk| disk.annotations = free_since(StoredTime::At("0001-01-01T00:00:00Z".parse().unwrap()))),
    Some(free_since(seconds_ago(0)))
)]
#[case::its_stamp_is_before_its_creation(disk(|disk| disk.created = created(59)), Some(free_since(seconds_ago(0))))]
#[case::its_stamp_is_of_its_creation(disk(|disk| disk.created = created(60)), None)]
#[case::the_clock_of_the_api_server_is_ahead(
    disk(|disk| (disk.created, disk.annotations) = (created(-90), DiskAnnotations::default())), Some(free_since(seconds_ago(-90)))
)]
#[case::the_clock_of_the_api_server_is_ahead_and_the_stamp_is_of_the_creation(
    disk(|disk| (disk.created, disk.annotations) = (created(-90), free_since(seconds_ago(-90)))), None
)]
#[case::its_machine_is_gone(
    disk(|disk| disk.annotations = DiskAnnotations { claimed_by: Some("web-gone".into()), ..DiskAnnotations::default() }),
    Some(free_since(seconds_ago(0)))
)]
#[case::its_machine_is_there_and_has_another(
    disk(|disk| disk.annotations = DiskAnnotations { claimed_by: Some(numbered_machine_name(0).into()), ..DiskAnnotations::default() }),
    Some(free_since(seconds_ago(0)))
)]
fn a_free_disk_stores_since_when_it_is_free(
    #[case] world: PoolWorld,
    #[case] annotations: Option<DiskAnnotations>,
) {
    let plan = world.plan();
    assert_eq!(plan.actions, Vec::from_iter(annotations.map(annotated)));
    assert_eq!(plan.wants.collect_disks, !plan.actions.is_empty());
    assert_eq!((plan.requeue_after, &plan.blockers[..], &plan.awaited[..]), (None, &[][..], &[][..]));
}

/// A world in which the disk is in use, in one of several ways.
fn in_use(how: usize) -> PoolWorld {
    let machine = numbered_machine_name(0);
    let world = world();
    match how {
        0 => world.edit(&machine, |machine| machine.disks[1].disk = "web-data-2".into()),
        1 => world.edit(&machine, |machine| {
            machine.disks[1].disk = "web-data-2".into();
            machine.terminating = true;
        }),
        2 => world.edit(&machine, |machine| machine.lingering.push("web-data-2".into())),
        // The machine is released and still has the pool's label.
        3 => world.pool(|pool| pool.desired = 0).edit(&machine, |machine| {
            machine.disks[1].disk = "web-data-2".into();
            machine.owner = None;
        }),
        4 => {
            let mut world = world;
            world.others.insert("web-data-2".into(), vec!["a-foreign-machine".into()]);
            world
        }
        5 => world.edit_disk("web-data-2", |disk| disk.used_otherwise = true),
        6 => world.edit_disk("web-data-2", |disk| disk.mounted_by = Some(numbered_machine_name(0).into())),
        // The machine no longer refers to the disk, but its disk map still names the disk.
        7 => world.edit(&machine, |machine| {
            let disk = "web-data-2".into();
            machine.detached.push(crate::model::DetachedDisk { template: RETAINED.into(), disk });
        }),
        _ => unreachable!("eight ways"),
    }
}

#[rstest]
fn a_disk_in_use_is_neither_free_nor_collected(#[values(0, 1, 2, 3, 4, 5, 6, 7)] how: usize) {
    let old = in_use(how)
        .pool(|pool| pool.disks[1].ttl = Some(Duration::from_secs(1)))
        .edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(50)));
    let actions = old.plan().actions;
    assert!(
        actions.contains(&annotated(DiskAnnotations::default())),
        "the annotations are removed: {actions:?}"
    );
    assert!(!actions.iter().any(|action| matches!(action, PoolAction::DeleteDisk { .. })));

    // A claim stays, because it identifies the machine that may use the disk.
    let claimed_by = Some("web-x".into());
    let claimed =
        in_use(how).edit_disk("web-data-2", |disk| disk.annotations.claimed_by.clone_from(&claimed_by));
    assert!(
        claimed
            .plan()
            .actions
            .contains(&annotated(DiskAnnotations { claimed_by, ..DiskAnnotations::default() }))
    );

    let settled = in_use(how).edit_disk("web-data-2", |disk| disk.annotations = DiskAnnotations::default());
    assert_eq!(
        settled.plan().actions.iter().filter(|action| action.object().as_ref() == "web-data-2").count(),
        0
    );
}

#[rstest]
#[case::without_a_ttl_it_stays(template(|template| template.keep_free = 0), None, None)]
#[case::younger(with_ttl(0, 90), None, Some(30))]
#[case::exactly_as_old_is_not_older(with_ttl(0, 60), None, Some(1))]
#[case::one_second_younger(with_ttl(0, 61), None, Some(1))]
#[case::older(with_ttl(0, 59), Some(annotated(collecting(seconds_ago(0)))), Some(30))]
#[case::older_and_kept(with_ttl(1, 59), None, None)]
#[case::a_little_ahead_counts_as_now(
    with_ttl(0, 90).edit_disk("web-data-2", |disk| disk.annotations = free_since(seconds_ago(-60))), None, Some(90)
)]
#[case::marked_and_not_for_long(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(29))), None, Some(1)
)]
#[case::marked_for_the_grace(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(30))),
    Some(deleted("web-data-2", DiskDeleteReason::Expired)), None
)]
#[case::marked_with_an_unreadable_time(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.annotations = collecting(StoredTime::Unreadable)),
    Some(annotated(collecting(seconds_ago(0)))), Some(30)
)]
#[case::marked_in_the_future(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(-61))),
    Some(annotated(collecting(seconds_ago(0)))), Some(30)
)]
#[case::free_since_before_its_creation(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.created = created(30)),
    Some(annotated(free_since(seconds_ago(0)))), None
)]
#[case::marked_before_its_creation(
    with_ttl(0, 5).edit_disk("web-data-2", |disk| {
        disk.created = created(31);
        disk.annotations = DiskAnnotations { collecting_since: Some(seconds_ago(32)), ..free_since(seconds_ago(31)) };
    }),
    Some(annotated(DiskAnnotations { collecting_since: Some(seconds_ago(0)), ..free_since(seconds_ago(31)) })), Some(30)
)]
#[case::marked_and_now_it_may_stay(
    with_ttl(0, 90).edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(30))),
    Some(annotated(free_since(seconds_ago(60)))), Some(30)
)]
#[case::marked_and_now_it_is_kept(
    with_ttl(1, 59).edit_disk("web-data-2", |disk| disk.annotations = collecting(seconds_ago(30))),
    Some(annotated(free_since(seconds_ago(60)))), None
)]
#[case::the_current_revision_does_not_use_the_template(
    PoolWorld::desiring(0).keeping(|template| (template.used, template.ttl) = (false, Some(Duration::ZERO)))
        .free("web-data-2", 60),
    None, None
)]
#[case::the_pool_cannot_be_read(with_ttl(0, 59).pool(|pool| pool.validation_errors.push("no".into())), None, None)]
#[case::it_is_on_its_way_out(with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.terminating = true), None, None)]
#[case::it_has_another_owner(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.owner = Some(pool_owner("web", "another"))),
    None, None
)]
#[case::it_has_no_owner(with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.owner = None), None, None)]
#[case::its_template_is_unknown(
    with_ttl(0, 59).edit_disk("web-data-2", |disk| disk.template = None), None, None
)]
#[case::its_template_has_left(
    without_template(free_since(seconds_ago(60))), Some(annotate_disk_action(&retained_disk(FORMER), collecting(seconds_ago(0)))), Some(30)
)]
#[case::its_template_has_left_and_it_was_marked(
    without_template(collecting(seconds_ago(30))),
    Some(deleted(FORMER, DiskDeleteReason::TemplateRemoved)),
    None
)]
#[case::its_template_has_left_and_the_pool_cannot_be_read(
    without_template(collecting(seconds_ago(30))).pool(|pool| pool.validation_errors.push("no".into())), None, None
)]
fn what_becomes_of_a_free_disk(
    #[case] world: PoolWorld,
    #[case] action: Option<PoolAction>,
    #[case] again: Option<u64>,
) {
    let plan = world.plan();
    assert_eq!(plan.actions, Vec::from_iter(action));
    assert_eq!(plan.requeue_after, again.map(Duration::from_secs));
}

#[rstest]
#[case::failed(DiskState::Failed)]
#[case::lost(DiskState::Lost)]
fn a_disk_without_data_ends_after_its_ttl_or_some_minutes_and_is_never_kept(#[case] state: DiskState) {
    let aged = |world: PoolWorld, seconds| {
        world.edit_disk("web-data-2", |disk| {
            disk.state = state;
            disk.annotations = DiskAnnotations {
                collecting_since: Some(seconds_ago(40)),
                ..free_since(seconds_ago(seconds))
            };
        })
    };
    let end = [deleted("web-data-2", DiskDeleteReason::Broken)];
    let ten_minutes = i64::try_from(BROKEN_AGE.as_secs()).unwrap();
    assert_eq!(aged(world(), ten_minutes + 1).plan().actions, end);
    assert_eq!(aged(world(), ten_minutes).plan().actions, [annotated(free_since(seconds_ago(ten_minutes)))]);
    assert_eq!(aged(with_ttl(5, 59), 60).plan().actions, end);
    assert_eq!(aged(with_ttl(5, 60), 60).plan().actions, [annotated(free_since(seconds_ago(60)))]);
}

#[test]
fn the_newest_are_kept_and_broken_ones_take_no_place() {
    let mut world = with_ttl(2, 10).pool(|pool| pool.disks[1].keep_free = 2);
    for (name, seconds) in [("web-data-3", 40), ("web-data-4", 50), ("web-data-5", 70), ("web-data-6", 50)] {
        world = world.free(name, seconds);
    }
    let world = world.edit_disk("web-data-3", |disk| disk.state = DiskState::Lost);
    let plan = world.plan();
    let mut ending: Vec<&str> = plan.actions.iter().map(|action| &**action.object()).collect();
    ending.sort_unstable();
    // Disks 4 and 6 are the newest ones with data.
    assert_eq!(ending, ["web-data-2", "web-data-3", "web-data-5"]);
}

#[test]
fn the_next_look_is_for_the_oldest_that_is_not_kept() {
    let world = with_ttl(1, 100).free("web-data-3", 10).free("web-data-4", 75);
    assert_eq!(world.plan().requeue_after, Some(Duration::from_secs(25)));
    assert_eq!(world.plan().actions, []);
}

#[test]
fn the_policy_of_a_template_that_was_changed_costs_no_disk() {
    let plan = with_ttl(0, 1).pool(|pool| pool.disks[1].lifetime = Lifetime::Ephemeral).plan();
    assert_eq!(plan.actions, []);
    let complaint: PoolFailure = plan.failure.expect("the pool must report it");
    assert!(
        complaint.message.contains(RETAINED) && complaint.message.contains("Retain"),
        "{}",
        complaint.message
    );
}

#[test]
fn a_disk_that_is_still_mounted_is_waited_for() {
    let mut world = with_ttl(0, 1).edit_disk("web-data-2", |disk| disk.mounted_by = Some("web-gone".into()));
    let plan = world.plan();
    assert_eq!((&plan.actions[..], &plan.awaited[..]), (&[][..], &["web-data-2".into()][..]));
    assert_eq!(plan.requeue_after, Some(UNMOUNT_TIMEOUT));
    world.memory.await_disks(&plan.awaited, world.uptime);
    world.uptime += UNMOUNT_TIMEOUT;
    let plan = world.plan();
    // A mounted disk stays in any state of the platform.
    assert_eq!((&plan.actions[..], plan.requeue_after), (&[][..], None));
}

#[test]
fn an_allocation_to_an_unseen_machine_ends_after_the_request_timeout_and_a_live_read() {
    let claimed_by = Some(numbered_machine_name(40).into());
    let mut world = disk(|disk| {
        disk.annotations = DiskAnnotations { claimed_by: claimed_by.clone(), ..DiskAnnotations::default() }
    });
    let plan = world.plan();
    assert_eq!((&plan.actions[..], &plan.awaited[..]), (&[][..], &["web-data-2".into()][..]));
    assert_eq!(plan.requeue_after, Some(REQUEST_TIMEOUT));
    world.memory.await_disks(&plan.awaited, world.uptime);

    world.uptime += REQUEST_TIMEOUT.checked_sub(Duration::from_secs(1)).unwrap();
    assert_eq!(world.plan().actions, []);
    world.uptime += Duration::from_secs(1);
    let release = PoolAction::AnnotateDisk {
        disk: retained_disk("web-data-2").id,
        annotations: free_since(seconds_ago(0)),
        absent: claimed_by,
    };
    assert_eq!(world.plan().actions, [release]);
}

#[test]
fn a_claim_for_a_create_without_an_answer_is_kept_as_long_as_that_may_happen() {
    let world = disk(|disk| disk.annotations.claimed_by = Some(numbered_machine_name(5).into()));
    let world =
        world.edit_disk("web-data-2", |disk| disk.annotations.free_since = None).with_unconfirmed([5]);
    assert_eq!(world.plan().actions, []);
}

#[test]
fn a_claim_of_a_terminating_machine_is_over_when_it_is_gone() {
    let claimed =
        DiskAnnotations { claimed_by: Some(numbered_machine_name(0).into()), ..DiskAnnotations::default() };
    let world = disk(|disk| disk.annotations = claimed)
        .edit(&numbered_machine_name(0), |machine| machine.terminating = true);
    assert_eq!(world.plan().actions, []);
}

#[test]
fn marks_pause_after_a_failure_and_one_that_was_refused_comes_last() {
    let mut world = world().free("web-data-3", 60);
    for disk in ["web-data-2", "web-data-3"] {
        world = world.edit_disk(disk, |disk| disk.annotations.free_since = None);
    }
    world.memory.record_result(&"web-data-2".into(), true);
    let names = |world: &PoolWorld| -> Vec<String> {
        world.plan().actions.iter().map(|action| action.object().to_string()).collect()
    };
    assert_eq!(names(&world), ["web-data-3", "web-data-2"]);
    let cause = PoolFailure { reason: FailureReason::DiskFailure, message: "no".into() };
    world.memory.backoff_mut(ApplyStage::CollectDisks).failed(cause, world.uptime, None, 0.0);
    assert_eq!(names(&world), [""; 0]);
    assert_eq!(world.plan().blockers.len(), 1);
    world.uptime += Duration::from_secs(1);
    assert_eq!(names(&world), ["web-data-3"]);
}

#[test]
fn an_ephemeral_disk_of_a_removed_template_is_deleted_after_it_is_detached() {
    let owned = |machine: &str| crate::model::Owner::machine(&crate::testing::fixture_id(machine));
    let old =
        |owner| Disk { owner: Some(owner), template: Some("logs".into()), ..retained_disk("web-data-2") };
    let machine = numbered_machine_name(0);
    let detached = world().disk("web-data-2", |_| Some(old(owned(&machine))));
    let both = DiskAnnotations { free_since: Some(seconds_ago(0)), ..DiskAnnotations::default() };
    assert_eq!(detached.plan().actions, [annotated(both)]);
    let attached = detached.edit(&machine, |machine| machine.lingering.push("web-data-2".into()));
    assert_eq!(attached.plan().actions, []);
    let foreign = world().disk("web-data-2", |_| Some(old(owned("another-owner"))));
    assert_eq!(foreign.plan().actions, []);
    let terminating = world()
        .disk("web-data-2", |_| Some(old(owned(&machine))))
        .edit(&machine, |machine| machine.terminating = true);
    assert_eq!(terminating.plan().actions, []);
    let released = world().disk("web-data-2", |_| Some(old(owned(&machine)))).edit(&machine, |machine| {
        (machine.owner, machine.pool_uid_label) = (Some(another_pool()), None);
    });
    assert!(!released.plan().actions.iter().any(|action| action.stage() == ApplyStage::CollectDisks));
}

#[test]
fn times_are_compared_to_the_past_only() {
    assert_eq!(elapsed_time(observation_time(), observation_time()), Duration::ZERO);
    assert_eq!(elapsed_time(Timestamp::UNIX_EPOCH, observation_time()), Duration::ZERO);
    assert_eq!(elapsed_time(observation_time(), Timestamp::UNIX_EPOCH), Duration::from_secs(1_000_000));
}

/// A disk that would be deleted now, if its label agreed with its name.
fn relabeled(label: &str, template: impl FnOnce(&mut PoolDiskTemplate)) -> PoolWorld {
    let label = label.to_owned();
    let world = disk(|disk| {
        disk.template = Some(label.into());
        disk.annotations = collecting(seconds_ago(3600));
        disk.annotations.free_since = Some(seconds_ago(3600));
    });
    world.pool(|pool| {
        let mut cache = pool.disks[1].clone();
        cache.name = "cache".into();
        template(&mut cache);
        pool.disks.push(cache);
    })
}

#[rstest]
#[case::of_a_template_that_the_pool_does_not_have(relabeled("archive", |_| {}))]
#[case::of_a_template_with_a_shorter_life(relabeled("cache", |cache| cache.ttl = Some(Duration::from_mins(1))))]
fn a_label_alone_deletes_no_disk(#[case] world: PoolWorld) {
    let plan = world.plan();
    assert!(!plan.actions.iter().any(|action| matches!(action, PoolAction::DeleteDisk { .. })), "{plan:?}");
    assert!(
        plan.actions.contains(&annotated(free_since(seconds_ago(3600)))),
        "its mark is removed: {plan:?}"
    );
    let failure = plan.failure.expect("the pool reports it");
    assert!(
        failure.message.contains("web-data-2") && failure.message.contains("label"),
        "{}",
        failure.message
    );
}

#[test]
fn a_label_of_another_template_that_deletes_nothing_is_not_reported() {
    let plan = relabeled("cache", |_| {}).plan();
    assert_eq!(plan.failure.map(|failure| failure.message), None);
}

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::{FailureReason, PoolFailure};
use crate::model::{Disk, DiskState};
use crate::plan::Blocker;
use crate::testing::{PoolWorld, pool_owner};

/// A machine with an ephemeral disk of 10 bytes and a retained disk of 20 bytes, and a free retained disk.
/// All disks have the size of their template.
fn world() -> PoolWorld {
    PoolWorld::desiring(1)
        .with_machine("web-a", 1)
        .keeping(|template| template.size = Some(20))
        .holding("web-a", "web-data-1")
        .free("web-data-2", 5)
        .pool(|pool| pool.disks[0].size = Some(10))
        .edit_disk("web-a-root", |disk| disk.size = Some(10))
        .edit_disk("web-data-1", |disk| disk.size = Some(20))
        .edit_disk("web-data-2", |disk| disk.size = Some(20))
}

fn steps(plan: &Plan) -> Vec<(ApplyStage, &str)> {
    plan.actions.iter().map(|action| (action.stage(), &**action.object())).collect()
}

#[rstest]
#[case::its_size_is_right("web-a-root", |_: &mut Disk| {}, None)]
#[case::it_is_smaller("web-a-root", |disk: &mut Disk| disk.size = Some(9), Some(10))]
#[case::it_is_larger("web-a-root", |disk: &mut Disk| disk.size = Some(11), None)]
#[case::what_it_has_counts_where_it_asks_for_nothing(
    "web-a-root", |disk: &mut Disk| (disk.size, disk.capacity) = (None, Some(9)), Some(10)
)]
#[case::an_image_made_it_larger("web-a-root", |disk: &mut Disk| (disk.size, disk.capacity) = (None, Some(50)), None)]
#[case::what_it_asks_for_counts_before_what_it_has("web-a-root", |disk: &mut Disk| disk.capacity = Some(9), None)]
#[case::its_size_is_unknown("web-a-root", |disk: &mut Disk| disk.size = None, None)]
#[case::it_is_on_its_way_out("web-a-root", |disk: &mut Disk| (disk.size, disk.terminating) = (Some(9), true), None)]
#[case::it_is_being_made(
    "web-a-root", |disk: &mut Disk| (disk.size, disk.state) = (Some(9), DiskState::Pending), None
)]
#[case::it_grows_or_moves_already(
    "web-a-root", |disk: &mut Disk| (disk.size, disk.state) = (Some(9), DiskState::Changing), None
)]
#[case::it_belongs_to_another_machine(
    "web-a-root", |disk: &mut Disk| (disk.size, disk.owner) = (Some(9), None), None
)]
#[case::a_kept_one_in_use("web-data-1", |disk: &mut Disk| disk.size = Some(19), Some(20))]
#[case::a_free_retained_disk("web-data-2", |disk: &mut Disk| disk.size = Some(19), Some(20))]
#[case::a_retained_disk_of_another_owner(
    "web-data-2",
    |disk: &mut Disk| (disk.size, disk.owner) = (Some(19), Some(pool_owner("web", "another"))),
    None
)]
#[case::a_kept_one_on_its_way_out(
    "web-data-2", |disk: &mut Disk| (disk.size, disk.terminating) = (Some(19), true), None
)]
#[case::a_kept_one_of_another_template(
    "web-data-2", |disk: &mut Disk| (disk.size, disk.template) = (Some(19), Some("logs".into())), None
)]
fn a_disk_grows_when_it_is_smaller_and_can(
    #[case] name: &str,
    #[case] edit: fn(&mut Disk),
    #[case] to: Option<u64>,
) {
    let world = world().edit_disk(name, edit);
    let plan = world.plan();
    let grown = plan.actions.iter().filter(|action| action.stage() == ApplyStage::ExpandDisks);
    let id = world.disks[name].id.clone();
    assert_eq!(
        grown.cloned().collect::<Vec<_>>(),
        Vec::from_iter(to.map(|to| PoolAction::ExpandDisk { disk: id, to }))
    );
    assert_eq!(plan.wants.expand_disks, to.is_some());
}

#[test]
fn a_template_without_a_size_leaves_its_disks() {
    let world = world().pool(|pool| pool.disks.iter_mut().for_each(|template| template.size = None));
    let world = world.edit_disk("web-a-root", |disk| disk.size = Some(1));
    assert_eq!(world.plan(), Plan::default());
}

#[test]
fn an_ephemeral_disk_of_a_terminating_machine_is_unchanged() {
    let world = world().edit_disk("web-a-root", |disk| disk.size = Some(1));
    assert_eq!(steps(&world.plan()), [(ApplyStage::ExpandDisks, "web-a-root")]);
    let world = world.edit("web-a", |machine| machine.terminating = true);
    assert_eq!(steps(&world.plan()), []);
}

#[test]
fn a_pool_that_cannot_be_read_makes_nothing_larger() {
    let world = world().edit_disk("web-data-1", |disk| disk.size = Some(1));
    assert_eq!(steps(&world.plan()), [(ApplyStage::ExpandDisks, "web-data-1")]);
    let world = world.pool(|pool| pool.validation_errors.push("no".into()));
    assert_eq!(steps(&world.plan()), []);
}

#[test]
fn a_disk_that_refuses_to_grow_delays_neither_the_others_nor_any_mark() {
    let mut world = world()
        .edit_disk("web-data-1", |disk| disk.size = Some(1))
        .edit_disk("web-data-2", |disk| (disk.size, disk.annotations.free_since) = (Some(1), None));
    world.memory.record_result(&"web-data-1".into(), true);
    let marked = (ApplyStage::CollectDisks, "web-data-2");
    assert_eq!(
        steps(&world.plan()),
        [marked, (ApplyStage::ExpandDisks, "web-data-2"), (ApplyStage::ExpandDisks, "web-data-1")],
        "the one that was refused comes last"
    );

    let cause = PoolFailure { reason: FailureReason::DiskFailure, message: "no".into() };
    world.memory.backoff_mut(ApplyStage::ExpandDisks).failed(cause, world.uptime, None, 0.0);
    let plan = world.plan();
    assert_eq!(steps(&plan), [marked]);
    assert_eq!(
        plan.blockers,
        [Blocker::Backoff { stage: ApplyStage::ExpandDisks, left: Duration::from_millis(250) }]
    );
    assert!(plan.wants.expand_disks);

    world.uptime += Duration::from_secs(1);
    let plan = world.plan();
    assert_eq!(steps(&plan), [marked, (ApplyStage::ExpandDisks, "web-data-2")], "one at first");
    assert_eq!(plan.requeue_after, Some(Duration::ZERO));
}

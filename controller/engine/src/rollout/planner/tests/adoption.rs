//! Machines that another controller created, and that may need only markers.

use super::*;
use crate::rollout::attempts::UpdateOutcome;

/// Running machines with another controller's marker and without a disk map. The last machine does not run
/// and uses the whole budget.
fn left_behind(machines: u64) -> PoolWorld {
    let world = (0..machines).fold(allowing(machines, 1), |world, number| with(world, number, anothers));
    with(world, machines - 1, idle)
}

fn anothers(machine: &mut Machine) {
    (machine.revision, machine.written) = (Some("5c8a1d2f".into()), Some("5c8a1d2f".into()));
    for device in &mut machine.disks {
        device.template = None;
    }
}

/// All machines differ from the template in more than markers.
fn differing(world: PoolWorld) -> PoolWorld {
    (0..3).fold(world, |world, number| answering(world, number, UpdateOutcome::Differs))
}

#[test]
fn markers_wait_for_no_place_in_the_budget() {
    let plan = left_behind(4).plan();
    let markers = [0, 1, 2].map(|number| (number, Disruption::MetadataOnly));
    assert_eq!(disruption(&plan), [&markers[..], &[(3, Disruption::NotRunning)]].concat());
    assert!(plan.wants.update);
    // With a larger budget one machine may get the whole update.
    let roomy = left_behind(4).pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(2));
    assert_eq!(disruption(&roomy.plan())[..2], [(0, Disruption::Budgeted), (1, Disruption::MetadataOnly)]);
}

#[test]
fn a_machine_with_another_spec_waits_for_budget() {
    let world = differing(left_behind(4));
    assert_eq!(disruption(&world.plan()), [(3, Disruption::NotRunning)]);
    assert!(world.plan().wants.update);
    let roomy = world.pool(|pool| pool.rollout.budget = DisruptionBudget::Machines(3));
    assert_eq!(
        disruption(&roomy.plan()),
        [(0, Disruption::Budgeted), (1, Disruption::Budgeted), (3, Disruption::NotRunning)]
    );
    // A machine that differs from one revision may match the next.
    let changed = roomy.pool(|pool| {
        pool.revision.id = "r3".into();
        pool.rollout.budget = DisruptionBudget::Machines(1);
    });
    assert!(disruption(&changed.plan()).contains(&(0, Disruption::MetadataOnly)));
}

#[rstest]
#[case::the_pool_has_written_to_it(|world: PoolWorld| with(world, 0, |machine| machine.written = Some("r1".into())), false)]
#[case::it_was_never_updated(|world: PoolWorld| with(world, 0, |machine| machine.written = None), true)]
#[case::a_disk_is_to_be_added(
    |world: PoolWorld| world.pool(|pool| pool.disks.push(PoolDiskTemplate::new("data", Lifetime::Ephemeral))), false
)]
#[case::a_disk_is_to_be_taken_away(
    |world: PoolWorld| with(world, 0, |machine| {
        machine.disks.push(DiskRef { template: Some("old".into()), disk: "web-old".into(), position: 1 });
    }), false
)]
#[case::its_disk_is_not_there(|world: PoolWorld| world.disk(&format!("{}-root", numbered_machine_name(0)), |_| None), false)]
#[case::the_rollout_is_paused(|world: PoolWorld| world.pool(|pool| pool.rollout.paused = true), false)]
#[case::others_refuse_the_revision(|world: PoolWorld| refuse(refuse(world, 1), 2), true)]
fn may_need_markers_only(#[case] edit: fn(PoolWorld) -> PoolWorld, #[case] expected: bool) {
    let plan = edit(left_behind(4)).plan();
    assert_eq!(disruption(&plan).contains(&(0, Disruption::MetadataOnly)), expected, "{plan:?}");
    assert!(!disruption(&plan).contains(&(0, Disruption::Budgeted)));
}

#[test]
fn a_machine_that_rejects_labels_comes_last() {
    let mut world = refuse(left_behind(4), 0);
    let failure = PoolFailure { reason: FailureReason::FailedTemplateUpdate, message: "no".into() };
    world.memory.backoff_mut(ApplyStage::Update).failed(failure, UPTIME, None, 0.0);
    world.uptime = UPTIME + Duration::from_mins(5);
    assert_eq!(updated(&world.plan()).len(), 1);
    assert_ne!(updated(&world.plan()), [0]);
}

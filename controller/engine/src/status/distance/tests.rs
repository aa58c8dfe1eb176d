use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::*;
use crate::healing::setting::HealingPolicy;
use crate::model::{MachineActivity, ScaleDownPolicy, UnusableTemplate};
use crate::plan::blocker::{LimitedProvisioning, ProvisioningScope};
use crate::testing::{PoolWorld, numbered_machine_name, observation_time};

fn distance(world: &PoolWorld) -> Option<PoolDistance> {
    measure_distance(&world.observed(&world.snapshot()))
}

fn ready(count: usize) -> PoolWorld {
    PoolWorld::desiring(count).with_machines(u64::try_from(count).unwrap())
}

fn stopped(world: PoolWorld) -> PoolWorld {
    world.edit(&numbered_machine_name(0), |machine| machine.activity = MachineActivity::NotRunning)
}

fn outdated(world: PoolWorld) -> PoolWorld {
    world.edit(&numbered_machine_name(0), |machine| {
        machine.revision = Some("old".into());
        machine.written = Some("old".into());
    })
}

fn blocked(world: PoolWorld, blocker: Blocker) -> PoolWorld {
    world.memory(|memory| memory.blockers = vec![blocker])
}

fn protection(step: ProtectedStep) -> Blocker {
    Blocker::Protection { machine: numbered_machine_name(0).into(), step, until: None }
}

fn drain(reason: DrainReason) -> Blocker {
    let machine = Arc::from(numbered_machine_name(0));
    Blocker::Drain { machine, reason, hooks: Vec::new(), deadline: Timestamp::UNIX_EPOCH }
}

fn limit() -> Blocker {
    let scope = ProvisioningScope::Pool;
    Blocker::Provisioning(LimitedProvisioning { scope, limit: 1, provisioning: 1 })
}

fn surplus() -> PoolWorld {
    PoolWorld::desiring(1).with_machines(2)
}

fn short() -> PoolWorld {
    PoolWorld::desiring(2).with_machines(1)
}

#[rstest]
#[case::missing(short(), PoolDistance { missing: 1, unready: 1, ..PoolDistance::default() })]
#[case::surplus(surplus(), PoolDistance { surplus: 1, ..PoolDistance::default() })]
#[case::not_ready(stopped(ready(2)), PoolDistance { unready: 1, ..PoolDistance::default() })]
#[case::rollout(outdated(ready(2)), PoolDistance { outdated: 1, ..PoolDistance::default() })]
fn what_is_left_to_do_is_measured(#[case] world: PoolWorld, #[case] expected: PoolDistance) {
    assert_eq!(distance(&world), Some(expected));
}

/// The clock does not run, so a settled pool has no timer.
#[rstest]
#[case::settled(ready(2))]
#[case::none_desired(ready(0))]
#[case::paused(short().pool(|pool| pool.paused = true))]
#[case::a_paused_rollout(outdated(ready(2)).pool(|pool| pool.rollout.paused = true))]
#[case::a_rollout_that_leaves_machines(outdated(ready(2)).pool(|pool| pool.rollout.disabled = true))]
#[case::a_user_action(blocked(short(), Blocker::UserAction("free a name".into())))]
#[case::an_invalid_spec(short().pool(|pool| pool.validation_errors = vec!["no".into()]))]
#[case::a_surplus_that_leaves_when_it_stops(
    surplus().pool(|pool| pool.scale_down_policy = ScaleDownPolicy::StoppedOnly)
)]
#[case::protected_from_a_scale_down(blocked(surplus(), protection(ProtectedStep::ScaleDown)))]
#[case::protected_from_a_rollout(blocked(outdated(ready(2)), protection(ProtectedStep::Rollout)))]
#[case::protected_from_a_replacement(blocked(stopped(ready(2)), protection(ProtectedStep::Replacement)))]
#[case::a_drain_before_a_deletion(blocked(surplus(), drain(DrainReason::ScaleDown)))]
#[case::a_drain_before_a_removal(blocked(surplus(), drain(DrainReason::TargetedRemoval)))]
#[case::a_drain_before_a_restart(blocked(outdated(ready(2)), drain(DrainReason::Rollout)))]
#[case::a_reservation(blocked(surplus(), Blocker::Reservation { machine: numbered_machine_name(0).into() }))]
#[case::a_limit_on_provisioning(blocked(short(), limit()))]
#[case::an_image_that_is_imported(short().pool(|pool| {
    let message = "the image is imported".into();
    pool.images = Some(UnusableTemplate { reason: ConditionReason::ImageSyncing, message });
}))]
fn a_wait_is_no_distance(#[case] world: PoolWorld) {
    assert_eq!(distance(&world), None);
}

/// A wait of one step does not hide what keeps another one.
#[rstest]
#[case::a_machine_that_does_not_start_behind_the_limit(blocked(
    stopped(PoolWorld::desiring(3).with_machines(2)),
    limit()
))]
#[case::a_crashed_machine_beside_a_protected_one(blocked(
    stopped(surplus().pool(|pool| pool.desired = 2)),
    protection(ProtectedStep::ScaleDown)
))]
#[case::a_rollout_beside_a_drain(blocked(outdated(ready(2)), drain(DrainReason::ScaleDown)))]
#[case::a_disk_that_is_not_deleted(blocked(
    short(),
    Blocker::PendingDisk { machine: "web-x".into(), disk: "web-x-root".into() }
))]
#[case::an_image_that_failed(short().pool(|pool| {
    let message = "no such image".into();
    pool.images = Some(UnusableTemplate { reason: ConditionReason::ImageFailed, message });
}))]
fn a_wait_hides_no_other_distance(#[case] world: PoolWorld) {
    assert!(distance(&world).is_some());
}

/// Another machine takes the place of a stuck one.
#[test]
fn a_stuck_machine_is_no_surplus() {
    let world = |healing: Option<HealingPolicy>| {
        let world = PoolWorld::desiring(2).with_machines(3).pool(|pool| pool.healing = healing);
        world.edit(&numbered_machine_name(0), |machine| {
            machine.terminating = true;
            machine.terminating_since = Some(observation_time() - SignedDuration::from_hours(1));
            machine.activity = MachineActivity::NotRunning;
        })
    };
    assert_eq!(distance(&world(Some(HealingPolicy::default()))), None);
    assert_eq!(distance(&world(None)), Some(PoolDistance { surplus: 1, ..PoolDistance::default() }));
}

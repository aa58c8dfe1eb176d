//! The blocked steps of a plan in the messages of the conditions.

use std::time::Duration;

use rstest::rstest;

use super::{condition, idle, shown};
use crate::condition::ConditionType;
use crate::failure::{FailureReason, PoolFailure};
use crate::ids::ObjectId;
use crate::plan::Blocker;
use crate::testing::{PoolWorld, numbered_machine_name};

/// The world after a pass.
fn planned(mut world: PoolWorld) -> PoolWorld {
    let plan = world.plan();
    world.memory.record_blockers(&plan.blockers);
    world
}

fn failed(mut world: PoolWorld, stage: crate::plan::ApplyStage) -> PoolWorld {
    let cause = PoolFailure { reason: FailureReason::FailedCreate, message: "exceeded quota".into() };
    world.memory.backoff_mut(stage).failed(cause, world.uptime, None, 0.0);
    world
}

#[rstest]
#[case::a_reserved_machine_that_is_gone(
    PoolWorld::desiring(2).with_machines(1).reserved("r", &["web-gone"]),
    "creating machines: 1 of 2 exist; machine web-gone is reserved by a targeted removal, so no machine is created or \
     deleted instead until the removal completes or expires"
)]
#[case::reserved_machines_among_the_surplus(
    PoolWorld::desiring(0).with_machine("web-a", 1).with_machine("web-b", 2).reserved("r", &["web-b", "web-a"]),
    "deleting machines: 2 exist, 0 desired; machines web-a and web-b are reserved by targeted removals, so no machine is \
     created or deleted instead until the removal completes or expires"
)]
#[case::an_unconfirmed_create_that_is_not_needed(
    PoolWorld::desiring(0).with_machine("web-a", 1).with_unconfirmed([3]),
    "deleting machines: 1 exist, 0 desired; the create of machine NAME3 is unconfirmed, and the API server may still \
     carry it out"
)]
#[case::creates_in_backoff(
    failed(PoolWorld::desiring(2).with_machines(1), crate::plan::ApplyStage::Create),
    "creating machines: 1 of 2 exist; creating machines is in backoff after a failure"
)]
#[case::repairs_in_backoff(
    failed(PoolWorld::desiring(2).with_machines(1), crate::plan::ApplyStage::Repair),
    "creating machines: 1 of 2 exist; the controller creates no machine until it has repaired the existing ones"
)]
#[case::deletions_in_backoff(
    failed(PoolWorld::desiring(0).with_machines(1), crate::plan::ApplyStage::Remove),
    "deleting machines: 1 exist, 0 desired; deleting machines is in backoff after a failure"
)]
fn progressing_says_what_blocks_the_count(#[case] world: PoolWorld, #[case] expected: &str) {
    let expected = expected.replace("NAME3", &numbered_machine_name(3));
    let shown = condition(&shown(&planned(world)), ConditionType::Progressing);
    assert_eq!(shown, Some(format!("True ReplicasProgressing: {expected}")));
}

fn waiting(machine: &str, disk: &str) -> Blocker {
    Blocker::TerminatingDisk { machine: ObjectId::new(machine, "uid"), disk: disk.into() }
}

#[rstest]
#[case::one(1, "; machine MACHINE0 waits until disk d0 of an earlier machine is deleted")]
#[case::many(
    5,
    "; machine MACHINE0 waits until disk d0 of an earlier machine is deleted; machine MACHINE1 waits until disk d1 of an \
     earlier machine is deleted; machine MACHINE2 waits until disk d2 of an earlier machine is deleted; and 2 more wait for \
     disks"
)]
fn a_machine_that_waits_for_a_disk_is_in_the_first_condition_that_is_not_met(
    #[case] machines: u64,
    #[case] expected: &str,
) {
    let world = PoolWorld::desiring(5).with_machines(5);
    let mut names: Vec<String> = (0..machines).map(numbered_machine_name).collect();
    names.sort();
    let mut expected = expected.to_owned();
    for (index, name) in names.iter().enumerate() {
        expected = expected.replace(&format!("MACHINE{index}"), name);
    }
    let blockers: Vec<Blocker> =
        names.iter().enumerate().map(|(index, name)| waiting(name, &format!("d{index}"))).collect();
    let with = |mut world: PoolWorld| {
        world.memory.record_blockers(&blockers);
        world
    };
    let not_ready = shown(&with(idle(world, 4)));
    let message = condition(&not_ready, ConditionType::Available).unwrap();
    assert_eq!(message, format!("False InsufficientReadyReplicas: 4 of 5 machines are ready{expected}"));
    assert!(!condition(&not_ready, ConditionType::Synced).unwrap().contains("waits"));

    let outdated = PoolWorld::desiring(5).with_machines(5).pool(|pool| pool.revision.id = "r2".into());
    let outdated = shown(&with(outdated));
    assert!(condition(&outdated, ConditionType::Synced).unwrap().ends_with(&expected));
    assert!(!condition(&outdated, ConditionType::Available).unwrap().contains("waits"));
}

#[test]
fn a_new_machine_that_waits_for_a_disk_is_in_progressing() {
    let mut world = PoolWorld::desiring(2).with_machines(1);
    world.memory.record_blockers(&[Blocker::PendingDisk { machine: "web-new".into(), disk: "d".into() }]);
    let shown = condition(&shown(&world), ConditionType::Progressing).unwrap();
    assert!(
        shown.ends_with("1 of 2 exist; machine web-new waits for disk d, which will become free soon"),
        "{shown}"
    );
}

#[test]
fn the_message_of_a_backoff_does_not_change_while_it_lasts() {
    let mut world = planned(failed(PoolWorld::desiring(2).with_machines(1), crate::plan::ApplyStage::Create));
    let first = condition(&shown(&world), ConditionType::Progressing);
    world.uptime += Duration::from_millis(100);
    assert_eq!(condition(&shown(&planned(world)), ConditionType::Progressing), first);
}

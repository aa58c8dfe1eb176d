use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;

use crate::condition::{ConditionType, StatusCondition};
use crate::failure::FailureReason;
use crate::membership::losses::{Loss, LossKind, MOST_LOSSES, REHEARSAL, RETRY, Rehearsal};
use crate::model::{AutohealingPolicy, DisruptionBudget, MachineActivity, StartHealth};
use crate::plan::{Blocker, Plan, PoolAction};
use crate::testing::{PoolWorld, created_machines, deleted_machines, numbered_machine_name};

fn losing(world: PoolWorld, kind: LossKind, times: usize) -> PoolWorld {
    let uptime = world.uptime;
    world.memory(|memory| {
        for _ in 0..times {
            memory.machine_losses.lost(Loss { kind, message: "a policy took it".into() }, uptime);
        }
    })
}

fn rehearsals(plan: &Plan) -> Vec<Rehearsal> {
    let of = |action: &PoolAction| match action {
        PoolAction::Create { draft } => Some(draft.rehearsal),
        _ => None,
    };
    plan.actions.iter().filter_map(of).collect()
}

#[rstest]
#[case::at_birth(LossKind::AtBirth, MOST_LOSSES, REHEARSAL, Rehearsal::Required)]
#[case::later(LossKind::Later, 5, RETRY, Rehearsal::IfSupported)]
fn a_pool_that_keeps_no_machine_stops_and_tries_again_with_one(
    #[case] kind: LossKind,
    #[case] times: usize,
    #[case] pause: Duration,
    #[case] rehearsal: Rehearsal,
) {
    assert_eq!(created_machines(&losing(PoolWorld::desiring(5), kind, times - 1).plan()).len(), 5);
    let mut world = losing(PoolWorld::desiring(5), kind, times);
    let plan = world.plan();
    assert_eq!(created_machines(&plan), [""; 0]);
    assert_eq!(plan.requeue_after, Some(pause), "it wakes by itself");
    assert_eq!(plan.blockers, [Blocker::UserAction("a policy took it".into())]);
    assert_eq!(plan.failure.map(|failure| failure.reason), Some(FailureReason::MachineLost));
    world.uptime += pause;
    assert_eq!(rehearsals(&world.plan()), [rehearsal]);
}

#[test]
fn a_change_of_the_spec_permits_one_create() {
    let mut world = losing(PoolWorld::desiring(5), LossKind::Later, 5).pool(|pool| pool.generation += 1);
    world.memory.observe(&world.pool, world.uptime);
    assert_eq!(rehearsals(&world.plan()), [Rehearsal::IfSupported]);
}

#[test]
fn a_new_leader_does_not_lose_the_first_machines_again() {
    let condition = |kind: ConditionType, reason: &str| StatusCondition {
        kind: kind.to_string(),
        status: "True".into(),
        reason: reason.into(),
        message: "a policy took it".into(),
        last_transition: crate::testing::observation_time(),
        observed_generation: Some(1),
    };
    let lost = condition(ConditionType::ReplicaFailure, "MachineLost");
    let world = |conditions: &[StatusCondition]| {
        let mut world = PoolWorld::desiring(5).pool(|pool| pool.published.conditions = conditions.to_vec());
        world.memory = crate::PassMemory::default();
        world.memory.observe(&world.pool, world.uptime);
        world
    };
    assert_eq!(
        created_machines(&world(&[lost.clone(), condition(ConditionType::Stalled, "Blocked")]).plan()),
        [""; 0]
    );
    let failing = world(std::slice::from_ref(&lost));
    assert_eq!(created_machines(&failing.plan()).len(), 5);
    assert_eq!(created_machines(&losing(failing, LossKind::AtBirth, 1).plan()), [""; 0]);
    let older = StatusCondition { observed_generation: Some(0), ..lost };
    assert_eq!(
        created_machines(&world(&[older, condition(ConditionType::Stalled, "Blocked")]).plan()).len(),
        5
    );
}

#[test]
fn no_machine_is_deleted_to_be_created_again_while_the_pool_is_stopped() {
    let failing = PoolWorld::desiring(3).with_machines(3).pool(|pool| {
        pool.autohealing = Some(AutohealingPolicy { failed_starts: 3, after: Duration::from_mins(5) });
        pool.rollout.budget = DisruptionBudget::Machines(3);
    });
    let failing = failing.edit(&numbered_machine_name(1), |machine| {
        machine.activity = MachineActivity::NotRunning;
        machine.start_health = StartHealth { failed_starts: 3, ..StartHealth::default() };
    });
    let mut stopped = losing(failing, LossKind::Later, 3);
    let plan = stopped.plan();
    assert_eq!((deleted_machines(&plan), plan.requeue_after), (Vec::new(), Some(RETRY)));
    stopped.uptime += RETRY;
    assert_eq!(deleted_machines(&stopped.plan()), [numbered_machine_name(1)], "the next create is a trial");
}

#[test]
fn a_pool_that_keeps_no_disk_creates_none_and_no_machine_with_a_new_one() {
    let world = PoolWorld::desiring(3).with_machines(2);
    let disk: Arc<str> = format!("{}-root", numbered_machine_name(0)).into();
    let mut world = world.disk(&disk, |_| None);
    let creates_disks = |plan: &Plan| {
        let of = |action: &&PoolAction| {
            matches!(action, PoolAction::CreateDisk { .. } | PoolAction::Create { .. })
        };
        plan.actions.iter().filter(of).count()
    };
    let before = creates_disks(&world.plan());
    assert!(before > 0);
    for _ in 0..MOST_LOSSES {
        let loss = Loss { kind: LossKind::AtBirth, message: "a policy took the disk".into() };
        world.memory.disk_losses.lost(loss, world.uptime);
    }
    let plan = world.plan();
    assert_eq!(creates_disks(&plan), 0);
    assert_eq!(plan.blockers, [Blocker::UserAction("a policy took the disk".into())]);
    world.uptime += RETRY;
    assert_eq!(creates_disks(&world.plan()), 1);
}

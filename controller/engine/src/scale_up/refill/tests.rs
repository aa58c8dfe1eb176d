use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::failure::PoolFailure;
use crate::model::MachineActivity;
use crate::scale_up::provisioning_limit::ProvisioningLimit;
use crate::standby::StandbyState;
use crate::testing::{PoolWorld, created_machines, numbered_machine_name};

const AT: Duration = Duration::from_secs(100);

fn world(desired: usize, active: u64, replicas: usize) -> PoolWorld {
    PoolWorld::desiring(desired)
        .with_machines(active)
        .pool(|pool| pool.standby = Some(StandbySettings { replicas, ..StandbySettings::NONE }))
}

fn phases(plan: &Plan) -> Vec<Option<StandbyPhase>> {
    let drafts = plan.actions.iter().filter_map(|action| match action {
        PoolAction::Create { draft } => Some(draft.standby),
        _ => None,
    });
    drafts.collect()
}

#[test]
fn missing_standby_machines_are_created_after_all_active_ones() {
    assert_eq!(phases(&world(2, 1, 2).plan()), [None], "an active machine is missing");
    let plan = world(2, 2, 2).plan();
    assert_eq!(phases(&plan), [Some(StandbyPhase::Warming); 2]);
    assert!(plan.wants.refill && !plan.wants.activate);
    assert!(plan.actions.iter().all(|action| action.stage() != ApplyStage::Create));
}

#[test]
fn without_a_warm_up_standby_machines_are_created_stopped() {
    let world = world(1, 1, 1).pool(|pool| {
        let settings = StandbySettings { replicas: 1, warm_up: WarmUp::None, ..StandbySettings::NONE };
        pool.standby = Some(settings);
    });
    assert_eq!(phases(&world.plan()), [Some(StandbyPhase::Stopped)]);
}

#[test]
fn an_unconfirmed_create_of_a_standby_machine_is_repeated_as_such() {
    let unconfirmed = |world: PoolWorld| {
        world.memory(|memory| {
            memory.machines.standby_unconfirmed(&numbered_machine_name(7).into(), 7, AT);
            memory.next_number = 8;
        })
    };
    let plan = unconfirmed(world(1, 1, 1)).plan();
    assert_eq!(created_machines(&plan), [numbered_machine_name(7)]);
    assert_eq!(phases(&plan), [Some(StandbyPhase::Warming)]);
    let plan = unconfirmed(world(2, 1, 1)).plan();
    assert_eq!(phases(&plan), [None], "it is no active machine");
    assert_ne!(created_machines(&plan), [numbered_machine_name(7)]);
    let plan = unconfirmed(world(1, 1, 0)).plan();
    assert_eq!(plan.blockers, [Blocker::UnconfirmedCreate { name: numbered_machine_name(7).into() }]);
}

#[test]
fn standby_machines_count_in_the_limit_on_provisioning() {
    let limited =
        |world: PoolWorld| world.pool(|pool| pool.max_provisioning = Some(ProvisioningLimit::Machines(1)));
    assert_eq!(phases(&limited(world(1, 1, 3)).plan()), [Some(StandbyPhase::Warming)]);
    let warming = limited(world(2, 2, 3)).edit(&numbered_machine_name(1), |machine| {
        let phase = StandbyPhase::Warming;
        machine.standby = Some(Arc::new(StandbyState { phase, ready_since: None, kept_off: false }));
        machine.activity = MachineActivity::NotRunning;
        machine.created = crate::testing::observation_time();
    });
    let plan = warming.pool(|pool| pool.desired = 1).plan();
    assert_eq!(phases(&plan), [], "one provisions");
}

#[test]
fn a_failed_refill_delays_no_active_machine() {
    let failed = |world: PoolWorld| {
        world.memory(|memory| {
            let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "quota".to_owned() };
            memory.backoff_mut(ApplyStage::Refill).failed(failure, AT, None, 0.5);
        })
    };
    assert_eq!(phases(&failed(world(2, 2, 2)).plan()), []);
    assert_eq!(phases(&failed(world(3, 2, 2)).plan()), [None]);
}

/// Otherwise the status would change at the end of each backoff, and change back with the next failure.
#[rstest]
#[case::of_the_refill(ApplyStage::Refill)]
#[case::of_the_preparation(ApplyStage::Prepare)]
fn the_limits_are_reported_during_a_backoff_as_well(#[case] stage: ApplyStage) {
    let limited = world(1, 1, 3).pool(|pool| pool.max_provisioning = Some(ProvisioningLimit::Machines(1)));
    let limits = |plan: &Plan| {
        let limits = plan.blockers.iter().filter(|blocker| matches!(blocker, Blocker::Provisioning(_)));
        limits.cloned().collect::<Vec<_>>()
    };
    let reported = limits(&limited.plan());
    assert_eq!(reported.len(), 1);
    let failed = limited.memory(|memory| {
        let failure = PoolFailure { reason: FailureReason::FailedCreate, message: "quota".to_owned() };
        memory.backoff_mut(stage).failed(failure, AT, None, 0.5);
    });
    assert_eq!(phases(&failed.plan()), []);
    assert_eq!(limits(&failed.plan()), reported);
}

//! The checks of healing find machines that must not be replaced.

use std::time::Duration;

use super::super::api::RequestBasis;
use super::super::healing::{HEALING, check_healing_plan};
use super::super::step::SimulationStep;
use super::super::world::EngineSimulation;
use super::run;
use crate::PoolAction;
use crate::model::{Naming, ObjectId};
use crate::plan::DeleteReason;
use crate::protection::ProtectionEnd;
use crate::testing::{PoolWorld, numbered_machine_name};

/// What the model of the API server says about the replacement of the machine at its present version.
fn heal(world: &EngineSimulation, id: &ObjectId) -> Option<String> {
    let mut api = world.api.clone();
    let (seen, pool) = (api.machines.log.len(), api.history.len() - 1);
    let basis = RequestBasis { seen, pool, planned: pool, current: true, activating: 0 };
    let version = api.machines.objects[&id.name].version;
    api.heal(id, Some(version), basis).err()
}

#[test]
fn a_ready_or_protected_machine_that_is_healed_violates_an_invariant() {
    let mut world = run(Naming::Random, 1, 0, [SimulationStep::Heal(true)]).unwrap();
    let id = world.api.pool_machines().next().unwrap().id.clone();
    let begins =
        |world: &EngineSimulation, name: &str| heal(world, &id).is_some_and(|why| why.starts_with(name));
    assert!(begins(&world, "I20"), "it is ready");
    world.api.fail(&id);
    assert_eq!(heal(&world, &id), None);
    let until = world.api.timestamp() + Duration::from_mins(1);
    world.api.protect(&id, Some(ProtectionEnd::At(until)));
    assert!(begins(&world, "I12"), "it is protected");
    world.api.protect(&id, None);
    world.api.edit_pool(|pool| pool.healing = None);
    assert!(begins(&world, "I20"), "healing is off");
}

#[test]
fn a_plan_that_heals_while_too_many_are_unhealthy_violates_i20() {
    let check = |unhealthy: u64, healed: u64| {
        let mut world = PoolWorld::desiring(5).with_machines(5).pool(|pool| pool.healing = Some(HEALING));
        let since = crate::testing::observation_time() - HEALING.not_ready_for;
        for number in 0..unhealthy {
            world = world.edit(&numbered_machine_name(number), |machine| {
                machine.activity = crate::model::MachineActivity::NotRunning;
                machine.start_health.not_ready_since = Some(since);
            });
        }
        let mut plan = world.plan();
        plan.actions = (0..healed)
            .map(|number| {
                let name = numbered_machine_name(number);
                let machine = world.machines.iter().find(|machine| *machine.id.name == *name).unwrap();
                PoolAction::Delete { machine: machine.id.clone(), reason: DeleteReason::NotReady }
            })
            .collect();
        let snapshot = world.snapshot();
        check_healing_plan(&world.observed(&snapshot), &plan).err()
    };
    assert_eq!(check(3, 1), None, "60% of 5");
    assert!(check(4, 1).is_some_and(|why| why.starts_with("I20")));
    assert_eq!(check(4, 0), None);
}

//! The check of drains finds a machine that is deleted too early.

use super::super::api::RequestBasis;
use super::super::hooks::HookStep;
use super::super::world::EngineSimulation;
use super::run;
use crate::draining::{DrainMark, DrainReason};
use crate::model::{Naming, ObjectId};

/// What the model of the API server says about a deletion of the machine at its present version.
fn delete(world: &EngineSimulation, id: &ObjectId) -> Option<String> {
    let mut api = world.api.clone();
    let (seen, pool) = (api.machines.log.len(), api.history.len() - 1);
    let basis = RequestBasis { seen, pool, planned: pool, current: true, activating: 0 };
    let version = api.machines.objects[&id.name].version;
    api.delete(id, Some(version), basis, false).err()
}

#[test]
fn a_machine_that_is_deleted_before_its_hook_is_released_violates_i19() {
    let mut world = run(Naming::Random, 1, 0, []).unwrap();
    let id = world.api.pool_machines().next().unwrap().id.clone();
    world.api.edit_pool(|pool| pool.desired = 0);
    assert_eq!(delete(&world, &id), None);
    let is_violated = |world: &EngineSimulation| delete(world, &id).is_some_and(|why| why.starts_with("I19"));
    world.api.hook_step(&id, HookStep::Set);
    assert!(is_violated(&world), "it does not drain");
    let (now, timeout) = (world.api.timestamp(), world.api.pool.drain_timeout);
    let mark = DrainMark::begin(&id.uid, DrainReason::ScaleDown, now, timeout);
    assert!(world.api.begin_drain(&id, &mark, None).is_ok());
    world.api.hook_step(&id, HookStep::ReleaseEarlier);
    assert!(is_violated(&world), "the id is that of an earlier drain");
    let mut late = world.clone();
    late.api.now += timeout;
    assert_eq!(delete(&late, &id), None);
    world.api.hook_step(&id, HookStep::Release);
    assert_eq!(delete(&world, &id), None);
}

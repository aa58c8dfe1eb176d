use super::*;
use crate::model::StatusContent;
use crate::testing::{PoolWorld, fixture_id, numbered_machine_name};

fn paths(fields: &[&str]) -> FieldPaths {
    fields.iter().map(|field| Arc::from(*field)).collect()
}

/// A pool whose machine 1 has another value in a field.
fn world() -> PoolWorld {
    let uid = fixture_id(&numbered_machine_name(1)).uid;
    PoolWorld::desiring(3)
        .with_machines(3)
        .memory(|memory| memory.overridden.record(&uid, paths(&["spec.terminationGracePeriodSeconds"])))
}

/// `status reason: message` of one condition.
fn shown(world: &PoolWorld, kind: ConditionType) -> Option<String> {
    let status = crate::compute_status(&world.observed(&world.snapshot()), None);
    let found = status.conditions.into_iter().find(|condition| condition.is(kind))?;
    Some(format!("{} {}: {}", found.status, found.reason, found.message))
}

#[test]
fn the_status_names_the_fields_and_the_machines() {
    let world = world();
    let message = format!(
        "1 machine ({}) did not keep the values of the template in spec.terminationGracePeriodSeconds: an admission policy or \
         the platform changed them when the controller wrote them; correct the policy and then the template, or set these \
         values in the template",
        numbered_machine_name(1)
    );
    assert_eq!(
        shown(&world, ConditionType::TemplateOverridden),
        Some(format!("True FieldsOverridden: {message}"))
    );
    let count = "the current template is in effect in 2 of 3 machines";
    assert_eq!(
        shown(&world, ConditionType::Synced),
        Some(format!("False FieldsOverridden: {count}; {message}"))
    );
    for kind in [ConditionType::Ready, ConditionType::Stalled] {
        let condition = shown(&world, kind).unwrap();
        assert!(condition.contains("Blocked") && condition.contains(&message), "{condition}");
    }
    assert_eq!(crate::compute_status(&world.observed(&world.snapshot()), None).summary.updated, 2);
}

#[test]
fn a_pool_without_synced_has_the_condition_too() {
    let world = world().pool(|pool| pool.status_content = StatusContent::FailureAndPause);
    assert!(shown(&world, ConditionType::TemplateOverridden).is_some());
    assert_eq!(shown(&world, ConditionType::Synced), None);
}

#[test]
fn a_machine_that_kept_the_values_of_an_update_has_them() {
    let world = world()
        .memory(|memory| memory.overridden.record(&fixture_id(&numbered_machine_name(1)).uid, paths(&[])));
    assert_eq!(shown(&world, ConditionType::TemplateOverridden), None);
    assert!(shown(&world, ConditionType::Synced).unwrap().starts_with("True"));
}

#[test]
fn a_machine_that_is_gone_is_forgotten() {
    let mut world = world();
    let machines = world.machines.clone();
    world.memory.observe_machines(
        machines.iter().filter(|machine| *machine.id.name != *numbered_machine_name(1)),
        world.uptime,
    );
    assert_eq!(shown(&world, ConditionType::TemplateOverridden), None);
}

/// A new leader with what the former one published.
fn successor(world: &PoolWorld) -> PoolWorld {
    let conditions = crate::compute_status(&world.observed(&world.snapshot()), None).conditions;
    let mut next =
        PoolWorld::desiring(3).with_machines(3).pool(|pool| pool.published.conditions = conditions);
    next.memory = crate::PassMemory::default();
    observe(&mut next);
    next
}

fn observe(world: &mut PoolWorld) {
    world.memory.observe(&world.pool, world.uptime);
    world.memory.observe_machines(world.machines.iter(), world.uptime);
}

#[test]
fn a_new_leader_shows_what_the_former_one_found_until_the_spec_changes() {
    let world = world();
    let mut next = successor(&world);
    assert_eq!(
        shown(&next, ConditionType::TemplateOverridden),
        shown(&world, ConditionType::TemplateOverridden)
    );
    assert!(shown(&next, ConditionType::Synced).unwrap().starts_with("False FieldsOverridden"));
    next.pool.generation += 1;
    observe(&mut next);
    assert_eq!(shown(&next, ConditionType::TemplateOverridden), None);
}

#[test]
fn a_new_leader_shows_it_no_longer_when_the_machines_of_that_time_are_gone() {
    let mut next = successor(&world());
    next.machines.retain(|machine| *machine.id.name == *numbered_machine_name(0));
    observe(&mut next);
    assert!(shown(&next, ConditionType::TemplateOverridden).is_some(), "one is left");
    next.machines.clear();
    let mut next = next.with_machine("web-new", 5);
    observe(&mut next);
    assert_eq!(shown(&next, ConditionType::TemplateOverridden), None);
}

use super::*;
use crate::activity::{LIMIT, Writers};
use crate::ids::ObjectId;
use crate::model::PublishedStatus;
use crate::scale_down::removal::RemovalRecord;
use crate::status::{ComputedStatus, compute_status};
use crate::testing::{PoolWorld, numbered_machine_name};

/// One pass: the status, which the next pass finds published.
fn pass(world: &mut PoolWorld) -> ComputedStatus {
    let status = compute_status(&world.observed(&world.snapshot()), None);
    world.pool.published = PublishedStatus {
        summary: Some(status.summary.clone()),
        conditions: status.conditions.clone(),
        activity: status.activity.clone(),
        ..PublishedStatus::default()
    };
    status
}

fn line(entry: &ActivityEntry) -> String {
    let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or("-").to_owned();
    let ActivityEntry { reason, actor, from, to, .. } = entry;
    format!("{} by {}: {} -> {}", reason.as_str(), text(actor), text(from), text(to))
}

/// The entries that the next pass adds.
fn added(world: &mut PoolWorld) -> Vec<String> {
    let before = world.pool.published.activity.len();
    pass(world).activity[before..].iter().map(line).collect()
}

fn changed(world: PoolWorld, change: impl FnOnce(&mut crate::model::Pool)) -> PoolWorld {
    let generation = world.pool.generation + 1;
    world.pool(|pool| {
        pool.generation = generation;
        change(pool);
    })
}

fn writers(name: &str) -> Writers {
    let name: Option<Arc<str>> = Some(name.into());
    Writers { replicas: name.clone(), paused: name.clone(), template: name }
}

#[test]
fn a_new_pool_and_each_change_of_replicas_are_logged_with_the_writer() {
    let mut world = PoolWorld::desiring(3).pool(|pool| pool.writers = writers("kubectl"));
    assert_eq!(added(&mut world), ["Scaled by kubectl: - -> 3"]);
    assert_eq!(added(&mut world), [""; 0], "nothing has changed");
    let mut world = changed(world, |pool| {
        pool.desired = 5;
        pool.writers = writers("autoscaler");
    });
    assert_eq!(added(&mut world), ["Scaled by autoscaler: 3 -> 5"]);
    let mut world = changed(world, |pool| pool.writers = writers("kubectl"));
    assert_eq!(added(&mut world), [""; 0], "another field has changed");
}

#[test]
fn missing_machines_are_no_change_of_replicas() {
    let mut world = PoolWorld::desiring(3).with_machines(2);
    pass(&mut world);
    world.pool.published.activity.clear();
    assert_eq!(added(&mut world), [""; 0]);
}

#[test]
fn a_targeted_removal_is_logged_with_its_user() {
    let mut world = PoolWorld::desiring(3).with_machines(3);
    pass(&mut world);
    let target = ObjectId::new(&numbered_machine_name(0), "uid");
    let record = |by: &str| {
        let text = format!(r#"[{{"name":"{}","uid":"{}","by":"{by}"}}]"#, target.name, target.uid.as_str());
        RemovalRecord::parse(&text).unwrap()
    };
    let mut world = changed(world, |pool| {
        pool.desired = 2;
        pool.record = record("jo");
        pool.writers = writers(REMOVALS);
    });
    assert_eq!(added(&mut world), ["TargetedRemoval by jo: 3 -> 2"]);
    // A user scales the pool down while the target is still terminating.
    let mut world = changed(world, |pool| {
        pool.desired = 1;
        pool.writers = writers("kubectl");
    });
    assert_eq!(added(&mut world), ["Scaled by kubectl: 2 -> 1"]);
}

#[test]
fn a_rollout_is_logged_when_it_starts_and_when_all_machines_have_the_revision() {
    let mut world = PoolWorld::desiring(2).with_machines(2).pool(|pool| pool.writers = writers("kubectl"));
    pass(&mut world);
    let new = |machine: &mut crate::model::Machine| {
        machine.revision = Some("r2".into());
        machine.written = Some("r2".into());
    };
    let mut world = changed(world, |pool| pool.revision.id = "r2".into());
    assert_eq!(added(&mut world), ["RolloutStarted by kubectl: r1 -> r2"]);
    let mut world = world.edit(&numbered_machine_name(0), new);
    assert_eq!(added(&mut world), [""; 0]);
    let mut world = world.edit(&numbered_machine_name(1), new);
    assert_eq!(added(&mut world), ["RolloutCompleted by -: r1 -> r2"]);
    assert_eq!(added(&mut world), [""; 0]);
}

#[test]
fn a_revision_with_the_same_template_is_no_rollout() {
    let mut world = PoolWorld::desiring(2).with_machines(2);
    pass(&mut world);
    let mut world = changed(world, |pool| {
        pool.revision.id = "r2".into();
        pool.revision.same_template = vec!["r1".into()];
    });
    assert_eq!(added(&mut world), [""; 0]);
}

#[test]
fn a_rollout_during_a_pause_starts_when_the_pool_is_resumed() {
    let mut world = PoolWorld::desiring(2).with_machines(2).pool(|pool| pool.writers = writers("ed"));
    pass(&mut world);
    let mut world = changed(world, |pool| {
        pool.rollout.paused = true;
        pool.revision.id = "r2".into();
    });
    assert_eq!(added(&mut world), ["Paused by ed: - -> -"]);
    let mut world = changed(world, |pool| pool.rollout.paused = false);
    assert_eq!(added(&mut world), ["Resumed by ed: - -> -", "RolloutStarted by ed: r1 -> r2"]);
}

#[test]
fn healed_machines_are_logged() {
    let mut world = PoolWorld::desiring(1).with_machines(1);
    pass(&mut world);
    let summary = StatusSummary { healed: 2, ..world.pool.published.summary.clone().unwrap() };
    let observed = world.snapshot();
    let log = extended_activity_log(&world.observed(&observed), &summary);
    assert_eq!(log.last().map(line).as_deref(), Some("Healed by -: 0 -> 2"));
}

#[test]
fn the_log_is_bounded_and_a_new_leader_repeats_no_entry() {
    let mut world = PoolWorld::desiring(1);
    for desired in 0..50 {
        world = changed(world, |pool| pool.desired = desired);
        pass(&mut world);
        world.memory = crate::PassMemory::default();
        world.memory.observe(&world.pool, world.uptime);
        assert_eq!(added(&mut world), [""; 0]);
    }
    let log = &world.pool.published.activity;
    assert_eq!(log.len(), LIMIT);
    assert_eq!(log.last().map(line).as_deref(), Some("Scaled by -: 48 -> 49"));
}

//! Machines with hooks finish the work of their guests before they leave or restart.

use std::time::Duration;

use serde_json::{Value, json};
use vmpool_engine::draining::{DRAIN, DrainMark, HOOK_PREFIX, MARK};

use super::protection::{automatic, machine, newest};
use super::rollouts::{MACHINES, edit, label, resize, shown};
use super::targeted_removals::{accept, event_notes, reserve};
use super::{SECOND, count};
use crate::testing::{Fate, LeaderWorld, MERGE_PATCH, Verb, machine_names};

/// The drain of these pools lasts one minute at most.
const TIMEOUT: Duration = Duration::from_mins(1);

fn set_hook(world: &LeaderWorld, name: &str, value: &str) {
    let key = format!("{HOOK_PREFIX}job");
    world.server.edit(MACHINES, name, |machine| machine["metadata"]["annotations"][key] = json!(value));
}

fn mark(world: &LeaderWorld, name: &str) -> Option<DrainMark> {
    let machine = machine(world, name);
    machine["metadata"]["annotations"][MARK].as_str().and_then(DrainMark::parse)
}

fn release(world: &LeaderWorld, name: &str) {
    let id = mark(world, name).expect("it drains").id;
    set_hook(world, name, &id);
}

fn exists(world: &LeaderWorld, name: &str) -> bool {
    world.server.get(MACHINES, name).is_some()
}

/// Sets the timeout and a hook on each machine.
async fn set_hooks(world: &LeaderWorld) {
    edit(world, |pool| pool["metadata"]["annotations"][DRAIN] = json!(r#"{"timeout": "1m"}"#));
    world.run_machines();
    for name in machine_names(&world.machines()) {
        set_hook(world, &name, "");
    }
    world.calm().await;
    world.take_writes();
}

/// Running machines with hooks.
async fn with_hooks(replicas: usize) -> LeaderWorld {
    let world = LeaderWorld::with_pool(replicas).await;
    set_hooks(&world).await;
    world
}

#[tokio::test]
async fn a_drain_for_a_scale_down_costs_one_patch() {
    let world = with_hooks(3).await;
    let leaving = newest(&world);
    world.scale(2);
    world.calm().await;
    let writes = world.take_writes();
    assert_eq!((count(&writes, MERGE_PATCH, MACHINES), count(&writes, Verb::Delete, MACHINES)), (1, 0));
    let marked: Vec<String> = machine_names(&world.machines());
    let marked: Vec<&String> = marked.iter().filter(|name| mark(&world, name).is_some()).collect();
    assert_eq!(marked, [&leaving]);
    assert_eq!(world.status()["drainingReplicas"], 1);
    let page = world.metrics.page();
    assert!(page.contains("vmpool_pool_draining{"), "{page}");
    world.advance(30 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "nothing is written while it drains");

    release(&world, &leaving);
    world.calm().await;
    assert!(!exists(&world, &leaving));
    let writes = world.take_writes();
    assert_eq!((count(&writes, MERGE_PATCH, MACHINES), count(&writes, Verb::Delete, MACHINES)), (0, 1));
    let delete = writes.iter().find(|call| call.is(Verb::Delete, MACHINES)).unwrap();
    assert!(delete.body["preconditions"]["resourceVersion"].is_string(), "{}", delete.body);
    assert_eq!(event_notes(&world, "DrainBegan").len(), 1);
    assert_eq!(event_notes(&world, "DrainDeadlinePassed"), [""; 0]);
    assert!(world.metrics.page().contains("vmpool_drain_deadlines_passed_total 0"));
}

#[tokio::test]
async fn at_the_deadline_the_machine_leaves_with_an_event() {
    let world = with_hooks(3).await;
    let leaving = newest(&world);
    world.scale(2);
    world.calm().await;
    world.advance(TIMEOUT.checked_sub(10 * SECOND).unwrap()).await;
    assert!(exists(&world, &leaving));
    world.advance(20 * SECOND).await;
    assert!(!exists(&world, &leaving));
    let notes = event_notes(&world, "DrainDeadlinePassed");
    let page = world.metrics.page();
    for series in ["vmpool_drain_deadlines_passed_total 1", "vmpool_drain_duration_seconds_count 1"] {
        assert!(page.contains(series), "no {series} in\n{page}");
    }
    assert!(notes.len() == 1 && notes[0].contains(&leaving) && notes[0].contains("job"), "{notes:?}");
}

#[tokio::test]
async fn a_machine_that_stays_is_called_back() {
    let world = with_hooks(3).await;
    let leaving = newest(&world);
    world.scale(2);
    world.calm().await;
    world.take_writes();
    world.scale(3);
    world.calm().await;
    let writes = world.take_writes();
    assert_eq!((count(&writes, MERGE_PATCH, MACHINES), count(&writes, Verb::Create, MACHINES)), (1, 0));
    assert!(exists(&world, &leaving) && mark(&world, &leaving).is_none());
    assert_eq!(event_notes(&world, "DrainEnded").len(), 1);
    assert!(world.status()["drainingReplicas"].is_null(), "absent when it is zero");
}

#[tokio::test]
async fn a_released_machine_that_would_stay_is_replaced() {
    let world = with_hooks(3).await;
    let leaving = newest(&world);
    world.scale(2);
    world.calm().await;
    world.server.hold(MACHINES);
    release(&world, &leaving);
    world.scale(3);
    world.calm().await;
    world.server.release();
    world.calm().await;
    assert!(!exists(&world, &leaving), "its agent may have stopped");
    assert_eq!(world.machines().len(), 3);
}

#[tokio::test]
async fn a_hook_that_is_set_after_the_plan_is_respected() {
    let world = LeaderWorld::with_pool(3).await;
    world.run_machines();
    world.calm().await;
    let leaving = newest(&world);
    let (server, name, mut waits) = (world.server.clone(), leaving.clone(), true);
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, MACHINES) && std::mem::take(&mut waits) {
            let key = format!("{HOOK_PREFIX}job");
            server.edit(MACHINES, &name, |machine| machine["metadata"]["annotations"][key] = json!(""));
        }
        Fate::Serve
    });
    world.scale(2);
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert!(mark(&world, &leaving).is_some());
}

#[tokio::test]
async fn the_target_of_an_accepted_removal_drains() {
    let world = with_hooks(3).await;
    let target = machine_names(&world.machines()).remove(0);
    reserve(&world, "r", &[&target]);
    accept(&world, "r");
    world.calm().await;
    assert!(exists(&world, &target) && world.machines().len() == 3);
    release(&world, &target);
    world.calm().await;
    assert!(!exists(&world, &target) && world.machines().len() == 2);
}

#[tokio::test]
async fn a_rollout_drains_a_machine_before_its_restart_and_removes_the_mark_after_it() {
    let world = automatic(1).await;
    set_hooks(&world).await;
    let name = newest(&world);
    resize(&world, "1Gi");
    world.calm().await;
    let memory = |world: &LeaderWorld| machine(world, &name)["spec"]["memory"]["size"].clone();
    assert_eq!((memory(&world), mark(&world, &name).is_some()), (json!("512Mi"), true));
    release(&world, &name);
    world.calm().await;
    assert_eq!(memory(&world), "1Gi");
    world.take_writes();
    world.run_machines();
    world.calm().await;
    let machine: Value = machine(&world, &name);
    assert_eq!(label(&machine), shown(&world));
    assert_eq!(mark(&world, &name), None);
    let writes = world.take_writes();
    let of_machines = writes.iter().filter(|call| call.resource == MACHINES).count();
    assert_eq!(of_machines, 1, "one write records the revision and removes the mark: {writes:?}");
}

//! Machines that other machines replace.

use std::time::Duration;

use serde_json::json;
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::recycling::{RECYCLE, REQUEST};

use super::passes;
use super::rollouts::{MACHINES, edit};
use crate::testing::{LeaderWorld, Verb, machine_names};

/// A user requests the replacement of a machine.
fn request_replacement(world: &LeaderWorld, machine: &str) {
    let now = timestamp_text(world.env.now() + Duration::from_secs(1));
    world.server.edit(MACHINES, machine, |machine| machine["metadata"]["annotations"][REQUEST] = json!(now));
}

/// The machines among `before` that still exist.
fn left(world: &LeaderWorld, before: &[String]) -> usize {
    machine_names(&world.machines()).iter().filter(|name| before.contains(name)).count()
}

#[tokio::test]
async fn requested_machines_are_replaced_one_after_the_other_at_the_version_that_was_planned() {
    let world = LeaderWorld::with_pool(3).await;
    let before = machine_names(&world.machines());
    request_replacement(&world, &before[0]);
    request_replacement(&world, &before[1]);
    world.calm().await;
    assert_eq!((left(&world, &before), world.machines().len()), (2, 3), "the budget is one machine");
    let writes = world.take_writes();
    let deletions: Vec<_> = writes.iter().filter(|call| call.is(Verb::Delete, MACHINES)).collect();
    assert_eq!(deletions.len(), 1);
    let preconditions = &deletions[0].body["preconditions"];
    assert!(
        preconditions["uid"].is_string() && preconditions["resourceVersion"].is_string(),
        "{preconditions}"
    );
    world.run_machines();
    world.calm().await;
    assert_eq!((left(&world, &before), world.machines().len()), (1, 3));
    let reported = |event: &serde_json::Value| {
        event["reason"] == "SuccessfulDelete"
            && event["message"].as_str().is_some_and(|text| text.contains("its replacement was requested"))
    };
    assert!(world.server.all("events").iter().any(reported), "the event says why");
    world.run_machines();
    world.calm().await;
    assert_eq!((left(&world, &before), world.machines().len()), (1, 3), "the others stay");
}

#[tokio::test]
async fn a_pool_wakes_when_a_machine_is_too_old_and_writes_nothing_before() {
    let world = LeaderWorld::with_pool(3).await;
    let before = machine_names(&world.machines());
    let setting = json!({ "maxLifetime": "10m", "jitter": 0 }).to_string();
    edit(&world, |pool| pool["metadata"]["annotations"][RECYCLE] = json!(setting));
    world.calm().await;
    world.take_writes();
    world.advance(Duration::from_mins(9)).await;
    assert_eq!(world.take_writes().len(), 0);
    world.advance(Duration::from_mins(2)).await;
    assert_eq!((left(&world, &before), world.machines().len()), (2, 3));
}

#[tokio::test]
async fn a_pool_whose_next_machine_is_due_in_days_keeps_its_safety_interval() {
    let world = LeaderWorld::with_pool(3).await;
    let setting = json!({ "maxLifetime": "168h", "jitter": 0 }).to_string();
    edit(&world, |pool| pool["metadata"]["annotations"][RECYCLE] = json!(setting));
    world.calm().await;
    let before = passes(&world.metrics.page());
    world.advance(world.settings.resync + Duration::from_mins(1)).await;
    assert!(passes(&world.metrics.page()) > before);
}

//! Machines that other machines replace.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use vmpool_engine::protection::timestamp_text;
use vmpool_engine::recycling::{RECYCLE, REQUEST};
use vmpool_runtime::testing::{ManualClock, test_env};

use super::passes;
use super::rollouts::{MACHINES, edit};
use crate::server_clock::SharedServerClock;
use crate::testing::{LeaderWorld, Verb, machine_names, pool_manifest};

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

/// A world whose controller has a wall clock of its own, with a running pool that limits the age of machines.
async fn with_own_clock() -> (LeaderWorld, ManualClock) {
    let mut world = LeaderWorld::new();
    let clock = world.clock.with_separate_wall_clock();
    world.env = test_env(&clock, 8);
    let mut pool = pool_manifest("web", 3);
    let setting = json!({ "maxLifetime": "10m", "jitter": 0 }).to_string();
    pool["metadata"]["annotations"] = json!({ RECYCLE: setting });
    world.server.create("virtualmachinepools", pool);
    world.lead();
    settle_machines(&world).await;
    (world, clock)
}

/// Runs all machines, so that the pool has its disruption budget again, several times.
async fn settle_machines(world: &LeaderWorld) {
    for _ in 0..5 {
        world.calm().await;
        world.run_machines();
    }
}

#[tokio::test]
async fn a_leader_with_a_clock_that_is_ahead_replaces_machines_when_they_are_too_old() {
    let (mut world, clock) = with_own_clock().await;
    let before = machine_names(&world.machines());
    world.kill_leader().await;
    world.server_clock = SharedServerClock::default();
    clock.step_wall(jiff::SignedDuration::from_hours(1));
    world.lead();
    settle_machines(&world).await;
    assert_eq!((left(&world, &before), world.machines().len()), (3, 3));
    world.advance(Duration::from_mins(8)).await;
    settle_machines(&world).await;
    assert_eq!(left(&world, &before), 3);
    world.advance(Duration::from_mins(2)).await;
    settle_machines(&world).await;
    assert_eq!(left(&world, &before), 0, "they are really too old");
}

#[rstest]
#[tokio::test]
async fn a_wall_clock_that_jumps_ahead_replaces_no_machine(#[values(false, true)] is_lease_lost: bool) {
    let (mut world, clock) = with_own_clock().await;
    let before = machine_names(&world.machines());
    clock.step_wall(jiff::SignedDuration::from_hours(1));
    if is_lease_lost {
        world.kill_leader().await;
        world.lead();
    }
    // The pool plans again.
    let setting = json!({ "maxLifetime": "11m", "jitter": 0 }).to_string();
    edit(&world, |pool| pool["metadata"]["annotations"][RECYCLE] = json!(setting));
    settle_machines(&world).await;
    assert_eq!(left(&world, &before), 3);
}

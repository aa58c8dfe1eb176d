//! The progress deadline of pools: when the status says that a pool is stalled, and what that costs.

use std::time::Duration;

use serde_json::{Value, json};

use super::SECOND;
use super::rollouts::POOLS;
use crate::testing::{LeaderWorld, pool_manifest};

const EXCEEDED: &str = "ProgressDeadlineExceeded";

fn pool_with_deadline(replicas: usize, seconds: u64) -> Value {
    let mut pool = pool_manifest("web", replicas);
    pool["spec"]["progressDeadlineSeconds"] = json!(seconds);
    pool
}

/// The statuses of `Reconciling` and `Stalled`, and the reason of the latter.
fn phase(world: &LeaderWorld) -> String {
    let [reconciling, stalled] = ["Reconciling", "Stalled"].map(|kind| world.condition(kind).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text(&reconciling["status"]), text(&stalled["status"]), text(&stalled["reason"]))
}

fn events(world: &LeaderWorld) -> Vec<String> {
    let events = world.server.all("events").into_iter().filter(|event| event["reason"] == EXCEEDED);
    events.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn machines_that_do_not_start_stall_the_pool_at_the_deadline_without_an_event_of_the_cluster() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, pool_with_deadline(2, 60));
    world.lead();
    world.calm().await;
    assert_eq!(phase(&world), "True False Scaling");
    world.advance(SECOND * 50).await;
    assert_eq!((phase(&world).as_str(), events(&world).len()), ("True False Scaling", 0));
    // No object changes: the pool wakes for its deadline.
    world.advance(SECOND * 15).await;
    assert_eq!(phase(&world), format!("False True {EXCEEDED}"));
    let found = events(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("no progress for 60 s"), "{found:?}");
    assert!(found[0].contains("0 of 2 machines are ready"), "{found:?}");
    // It is said once, and no write follows.
    world.take_writes();
    world.advance(SECOND * 300).await;
    assert_eq!((events(&world).len(), world.take_writes().len()), (1, 0));
    world.run_machines();
    world.calm().await;
    assert_eq!(phase(&world), "False False Ready");
}

#[tokio::test]
async fn the_default_is_ten_minutes_and_an_unreadable_deadline_counts_as_it() {
    let mut world = LeaderWorld::new();
    let mut pool = pool_manifest("web", 1);
    pool["spec"]["progressDeadlineSeconds"] = json!("soon");
    world.server.create(POOLS, pool);
    world.lead();
    world.advance(Duration::from_mins(9)).await;
    assert_eq!(phase(&world), "True False Scaling");
    let invalid = world.condition("InvalidSettings").expect("the pool says so");
    assert!(invalid["message"].as_str().unwrap().contains("progressDeadlineSeconds"), "{invalid}");
    world.advance(Duration::from_mins(2)).await;
    assert_eq!(phase(&world), format!("False True {EXCEEDED}"));
}

#[tokio::test]
async fn a_change_of_the_spec_begins_the_deadline_again() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, pool_with_deadline(1, 60));
    world.lead();
    world.advance(SECOND * 50).await;
    world.scale(2);
    world.advance(SECOND * 50).await;
    assert_eq!(phase(&world), "True False Scaling");
    world.advance(SECOND * 20).await;
    assert_eq!(phase(&world), format!("False True {EXCEEDED}"));
}

#[tokio::test]
async fn a_new_leader_begins_the_deadline_again() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, pool_with_deadline(1, 60));
    world.lead();
    world.advance(SECOND * 50).await;
    world.kill_leader().await;
    world.lead();
    world.advance(SECOND * 50).await;
    assert_eq!(phase(&world), "True False Scaling");
    world.advance(SECOND * 30).await;
    assert_eq!(phase(&world), format!("False True {EXCEEDED}"));
}

#[tokio::test]
async fn a_settled_pool_sends_nothing_at_its_deadline() {
    let mut world = LeaderWorld::new();
    world.server.create(POOLS, pool_with_deadline(2, 60));
    world.lead();
    world.calm().await;
    world.run_machines();
    world.calm().await;
    assert_eq!(phase(&world), "False False Ready");
    world.server.take_log();
    world.advance(SECOND * 120).await;
    let requests: Vec<String> = world.server.take_log().iter().map(ToString::to_string).collect();
    assert!(requests.is_empty(), "{requests:?}");
}

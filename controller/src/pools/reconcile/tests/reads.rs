//! Live reads that fail.

use serde_json::json;

use super::SECOND;
use crate::testing::{Call, Fate, LeaderWorld, Refusal, Verb, machine_names, pool_manifest};

/// Whether this is the list of the revisions of one pool, and not that of the watch.
fn lists_revisions(call: &Call) -> bool {
    let selector = call.parameter("labelSelector");
    call.is(Verb::List, "controllerrevisions")
        && selector.is_some_and(|selector| selector.contains("pool-uid"))
}

fn deny(world: &LeaderWorld, refusal: &Refusal) {
    let refusal = refusal.clone();
    world.server.intercept(
        move |call| {
            if lists_revisions(call) { Fate::Refuse(refusal.clone()) } else { Fate::Serve }
        },
    );
}

#[tokio::test]
async fn a_denied_list_of_revisions_shows_in_the_status_and_is_retried_with_backoff() {
    let mut world = LeaderWorld::new();
    deny(&world, &Refusal::new(403, "Forbidden", "no right to list"));
    world.server.create("virtualmachinepools", pool_manifest("web", 2));
    world.lead();
    world.advance(SECOND * 65).await;
    let lists = world.server.take_log().iter().filter(|call| lists_revisions(call)).count();
    // 0.25 + 0.5 + ... + 32 seconds are 63.75, less up to a tenth.
    assert!((8..=9).contains(&lists), "{lists}");
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedRead");
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.starts_with("reading the revisions of the template") && message.contains("no right to list")
    );
    let synced = world.condition("Synced").unwrap();
    assert_eq!((&synced["status"], &synced["reason"]), (&json!("False"), &json!("FailedRead")));
    let events = world.server.all("events");
    assert!(events.iter().any(|event| event["reason"] == "FailedRead" && event["type"] == "Warning"));
    let counted = format!("vmpool_failures_total{{reason=\"FailedRead\"}} {lists}");
    assert!(world.metrics.page().contains(&counted), "{counted}");

    world.server.behave();
    world.advance(SECOND * 65).await;
    assert_eq!(world.machines().len(), 2);
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert_eq!(world.condition("Synced").unwrap()["status"], "True");
}

#[tokio::test]
async fn after_a_failed_read_the_status_still_counts_machines() {
    let mut world = LeaderWorld::with_pool(3).await;
    let generation = world.status()["observedGeneration"].clone();
    world.kill_leader().await;
    deny(&world, &Refusal::new(403, "Forbidden", "no right to list"));
    world.scale(5);
    let name = machine_names(&world.machines()).remove(0);
    world.server.edit("virtualmachines", &name, |machine| machine["status"]["phase"] = json!("Stopped"));
    world.lead();
    world.calm().await;
    let status = world.status();
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&json!(3), &json!(2)));
    assert_eq!(status["observedGeneration"], generation, "the new spec is not in effect");
    assert_eq!(world.condition("Synced").unwrap()["reason"], "FailedRead");
}

#[tokio::test]
async fn a_busy_api_server_determines_the_delay_of_the_next_read() {
    let mut world = LeaderWorld::new();
    deny(&world, &Refusal::new(429, "TooManyRequests", "try again later").after(30));
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
    world.lead();
    world.advance(SECOND * 65).await;
    assert_eq!(world.server.take_log().iter().filter(|call| lists_revisions(call)).count(), 3);
}

#[tokio::test]
async fn a_failed_read_of_the_pool_delays_only_what_needs_it() {
    let world = LeaderWorld::with_pool(2).await;
    world.server.intercept(|call| {
        if call.is(Verb::Get, "virtualmachinepools") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no right to read"));
        }
        Fate::Serve
    });
    world.scale(3);
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "FailedRead");
    // Without a create, the plan needs no read.
    world.scale(2);
    world.calm().await;
    assert_eq!(world.condition("ReplicaFailure"), None);
}

//! Webhooks of other owners that do not answer. With the failure policy Ignore, the API server carries out a
//! write after their timeout, if its client waits for so long.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::testing::{Conduct, Fate};

/// A pool `web` in another namespace.
fn pool_in(namespace: &str, replicas: usize) -> Value {
    let mut pool = pool_manifest("web", replicas);
    pool["metadata"]["namespace"] = json!(namespace);
    pool
}

/// Delays writes of machines, but not of their status, in namespaces with this prefix.
fn delay(world: &LeaderWorld, prefix: &'static str, seconds: u32) {
    world.server.intercept(move |call| {
        let is_delayed = call.is_write()
            && call.resource == "virtualmachines"
            && call.subresource.is_empty()
            && call.namespace.starts_with(prefix);
        let before = if is_delayed { SECOND * seconds } else { Duration::ZERO };
        Conduct { before, outcome: Fate::ServeIfAwaited, after: Duration::ZERO }
    });
}

fn machines_in(world: &LeaderWorld, namespace: &str) -> usize {
    world.machines().iter().filter(|machine| machine["metadata"]["namespace"] == namespace).count()
}

#[rstest]
#[case::two_of_ten_seconds_in_a_row(20)]
#[case::one_of_thirty_seconds(30)]
#[tokio::test]
async fn a_pool_becomes_complete_under_slow_webhooks(#[case] seconds: u32) {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 3));
    delay(&world, "team-a", seconds);
    world.lead();
    world.advance(SECOND * 10).await;
    let failure = world.condition("ReplicaFailure").unwrap();
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.contains("no answer within 8s: an admission webhook or the API server is slow"),
        "{message}"
    );
    world.advance(SECOND * 5 * seconds).await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    world.run_machines();
    world.calm().await;
    assert_eq!(world.condition("Available").unwrap()["status"], "True");
    assert!(world.condition("ReplicaFailure").is_none_or(|failure| failure["status"] == "False"));

    world.scale(1);
    world.advance(SECOND * 5 * seconds).await;
    assert_eq!(world.machines().len(), 1, "deletes outlast them, too");
}

#[tokio::test]
async fn slow_machines_of_one_namespace_do_not_delay_another_pool() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_in("slow", 100));
    world.server.create("virtualmachinepools", pool_in("healthy", 3));
    delay(&world, "slow", 30);
    world.lead();
    world.advance(SECOND * 150).await;
    assert!(machines_in(&world, "slow") > 3, "it makes progress");
    assert_eq!(machines_in(&world, "healthy"), 3);
    world
        .server
        .edit_in("healthy", "virtualmachinepools", "web", |pool| pool["spec"]["replicas"] = json!(60));
    world.advance(SECOND * 5).await;
    assert_eq!(machines_in(&world, "healthy"), 60);
    world.advance(SECOND * 350).await;
    assert_eq!(machines_in(&world, "slow"), 100);
}

#[tokio::test]
async fn slow_pools_do_not_hold_the_workers() {
    let mut world = LeaderWorld::new();
    let slow = world.settings.workers * 2;
    for number in 0..slow {
        world.server.create("virtualmachinepools", pool_in(&format!("slow-{number}"), 4));
    }
    delay(&world, "slow", 30);
    world.lead();
    world.advance(SECOND * 20).await;
    world.server.create("virtualmachinepools", pool_manifest("web", 3));
    world.advance(SECOND * 10).await;
    assert_eq!(machines_in(&world, "team-a"), 3);
    world.advance(SECOND * 150).await;
    for number in 0..slow {
        assert_eq!(machines_in(&world, &format!("slow-{number}")), 4);
    }
}

#[tokio::test]
async fn a_changed_count_takes_effect_while_creates_are_slow() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 60));
    delay(&world, "team-a", 30);
    world.lead();
    world.advance(SECOND * 140).await;
    let before = world.machines().len();
    assert!((3..40).contains(&before), "{before}");
    world.scale(2);
    world.advance(SECOND * 35).await;
    let settings = world.settings;
    let most = before + settings.writes_in_flight / 4;
    assert!(world.machines().len() <= most, "only creates in flight: {}", world.machines().len());
    world.advance(SECOND * 300).await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_slow_writes() {
    let mut world = LeaderWorld::new();
    world.server.create("virtualmachinepools", pool_manifest("web", 20));
    delay(&world, "team-a", 30);
    world.lead();
    world.advance(SECOND * 60).await;
    world.stop.cancel();
    world.advance(world.settings.request_deadline + SECOND * 2).await;
    assert!(world.leader_ended());
}

#[tokio::test]
async fn a_surplus_that_ends_during_a_slow_write_removes_no_machine() {
    let world = LeaderWorld::with_pool(1).await;
    let oldest = machine_names(&world.machines()).remove(0);
    for machines in [2, 3] {
        world.advance(SECOND * 5).await;
        world.scale(machines);
        world.calm().await;
        world.run_machines();
        world.calm().await;
    }
    let newest = world
        .machines()
        .into_iter()
        .max_by_key(|machine| machine["metadata"]["creationTimestamp"].to_string());
    let newest = machine_names(&newest.into_iter().collect::<Vec<_>>()).remove(0);
    let middle = machine_names(&world.machines()).into_iter().find(|name| *name != oldest && *name != newest);
    world.server.intercept(|call| {
        let before =
            if call.resource == "virtualdisks" && call.is_write() { SECOND * 20 } else { Duration::ZERO };
        Conduct { before, outcome: Fate::ServeIfAwaited, after: Duration::ZERO }
    });
    world.server.delete("virtualdisks", &format!("{oldest}-root"));
    world.scale(2);
    world.advance(SECOND * 5).await;
    assert_eq!(world.machines().len(), 3, "the disk is created first");
    world.server.delete("virtualmachines", &middle.unwrap());
    world.advance(SECOND * 60).await;
    let mut expected = [oldest, newest];
    expected.sort();
    assert_eq!(machine_names(&world.machines()), expected);
}

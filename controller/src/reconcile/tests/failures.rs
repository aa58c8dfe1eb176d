//! Requests that are refused, lost or late.

use http::StatusCode;
use serde_json::{Value, json};

use super::{SECOND, assert_units_are_complete, count};
use crate::testing::{Fault, Verb, World, pool, refusal};

#[tokio::test]
async fn a_lost_answer_to_a_create_ends_with_exactly_the_desired_number() {
    let mut world = World::new();
    let mut lost = 2;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && lost > 0 {
            lost -= 1;
            return Fault::AnswerLost;
        }
        Fault::None
    });
    // The watch does not help: what was committed must be found out by asking again.
    world.server.hold("virtualmachines");
    world.server.create("virtualmachinepools", pool("web", 3));
    world.lead();
    world.advance(SECOND * 20).await;
    assert_eq!(world.machines().len(), 3);
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_request_that_never_arrived_is_repeated_under_the_same_name() {
    let mut world = World::new();
    let mut refused = 1;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && refused > 0 {
            refused -= 1;
            return Fault::Unreachable;
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 1));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), 1);
    assert_units_are_complete(&world);
    let log = world.take_writes();
    let names: Vec<&str> =
        log.iter().filter(|call| call.is(Verb::Create, "virtualmachines")).map(|call| &*call.name).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(names[0], names[1]);
}

#[tokio::test]
async fn a_lost_answer_to_a_delete_makes_nobody_else_leave() {
    let world = World::with_pool(3).await;
    world.server.hold("virtualmachines");
    let mut lost = 1;
    world.server.intercept(move |call| {
        if call.verb == Verb::Delete && lost > 0 {
            lost -= 1;
            return Fault::AnswerLost;
        }
        Fault::None
    });
    world.scale(2);
    world.calm().await;
    assert_eq!(count(&world.take_writes(), Verb::Delete, "virtualmachines"), 1, "it counts as leaving");
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn a_disk_that_could_not_be_created_comes_before_the_next_machine() {
    let mut world = World::new();
    let mut failures = 3;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualdisks") && failures > 0 {
            failures -= 1;
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "no storage left"));
        }
        Fault::None
    });
    world.settings.writes_in_flight = 1;
    world.server.create("virtualmachinepools", pool("web", 3));
    world.lead();
    world.advance(SECOND / 10).await;
    assert_eq!(world.machines().len(), 1, "the batch stops at the first failure");
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    let order: Vec<String> = world
        .take_writes()
        .iter()
        .filter(|call| call.verb == Verb::Create)
        .map(|call| call.resource.clone())
        .collect();
    let disk = "virtualdisks";
    assert_eq!(order[..5], ["virtualmachines", disk, disk, disk, disk], "{order:?}");
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_full_quota_costs_one_request_per_try_with_growing_pauses() {
    let mut world = World::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "exceeded quota: machines"));
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 100));
    world.lead();
    world.advance(SECOND / 10).await;
    let first = count(&world.server.take_log(), Verb::Create, "virtualmachines");
    assert!((1..=world.settings.writes_in_flight).contains(&first), "{first}");
    world.advance(SECOND * 60).await;
    let log = world.server.take_log();
    // 0.25 + 0.5 + ... + 32 seconds are 63.75, less up to a tenth.
    assert_eq!(count(&log, Verb::Create, "virtualmachines"), 8);
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "FailedCreate");
    assert!(failure["message"].as_str().unwrap().contains("exceeded quota"), "{failure}");
    let warnings: Vec<Value> = world.server.all("events");
    assert!(warnings.iter().any(|event| event["reason"] == "FailedCreate" && event["type"] == "Warning"));

    world.server.behave();
    world.advance(SECOND * 65).await;
    world.calm().await;
    assert_eq!(world.machines().len(), 100);
    assert_eq!(world.condition("ReplicaFailure"), None);
    assert_units_are_complete(&world);
}

#[tokio::test]
async fn an_edit_of_the_spec_ends_the_pause_after_a_failure() {
    let mut world = World::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fault::Refuse(refusal(StatusCode::FORBIDDEN, "Forbidden", "bad template"));
        }
        Fault::None
    });
    world.server.create("virtualmachinepools", pool("web", 2));
    world.lead();
    world.advance(SECOND * 40).await;
    world.server.behave();
    world.server.edit("virtualmachinepools", "web", |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["osType"] = json!("Windows");
    });
    world.advance(SECOND).await;
    assert_eq!(world.machines().len(), 2);
}

#[tokio::test]
async fn writes_in_flight_are_bounded_over_all_pools() {
    let mut world = World::new();
    world.settings.writes_in_flight = 5;
    // A slow server, so that whatever may pile up does.
    world.server.intercept(|call| if call.is_write() { Fault::Slow(SECOND / 10) } else { Fault::None });
    for name in ["a", "b", "c"] {
        world.server.create("virtualmachinepools", pool(name, 10));
    }
    world.lead();
    world.advance(SECOND * 10).await;
    assert_eq!(world.machines().len(), 30);
    assert_eq!(world.server.most_in_flight(), 5);
}

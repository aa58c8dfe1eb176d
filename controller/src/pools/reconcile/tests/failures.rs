//! Requests that are refused, lost or delayed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{SECOND, assert_units_are_complete, count};
use crate::pools::observe::MOST_SETTLED;
use crate::testing::{Call, Conduct, Fate, LeaderWorld, Refusal, Verb, pool_manifest};

#[tokio::test]
async fn a_lost_response_to_a_create_ends_with_the_desired_number() {
    let mut world = LeaderWorld::new();
    let mut lost = 2;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && lost > 0 {
            lost -= 1;
            return Fate::ResponseLost;
        }
        Fate::Serve
    });
    // The watch is held, so the result of the write must be found by a live read.
    world.server.hold("virtualmachines");
    world.server.create("virtualmachinepools", pool_manifest("web", 3));
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
    let mut world = LeaderWorld::new();
    let mut refused = 1;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualmachines") && refused > 0 {
            refused -= 1;
            return Fate::Unreachable;
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
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
async fn an_unconfirmed_delete_causes_no_other_deletion() {
    let world = LeaderWorld::with_pool(3).await;
    world.server.hold("virtualmachines");
    let mut lost = 1;
    world.server.intercept(move |call| {
        if call.verb == Verb::Delete && lost > 0 {
            lost -= 1;
            return Fate::ResponseLost;
        }
        Fate::Serve
    });
    world.scale(2);
    world.calm().await;
    let deletes: Vec<String> = deleted(&world.take_writes());
    assert_eq!(deletes.len(), 1, "the live count shows that the machine is terminating");
    world.server.release();
    world.calm().await;
    assert_eq!(world.machines().len(), 2);
}

fn deleted(writes: &[Call]) -> Vec<String> {
    let deletes = writes.iter().filter(|call| call.is(Verb::Delete, "virtualmachines"));
    deletes.map(|call| call.name.clone()).collect()
}

#[tokio::test]
async fn a_delete_that_never_arrived_is_sent_again_without_an_event() {
    let world = LeaderWorld::with_pool(3).await;
    let mut lost = 4;
    world.server.intercept(move |call| {
        if call.verb == Verb::Delete && lost > 0 {
            lost -= 1;
            return Fate::Unreachable;
        }
        Fate::Serve
    });
    world.scale(2);
    world.advance(SECOND).await;
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "FailedDelete", "it shows meanwhile");
    world.advance(SECOND * 10).await;
    let deletes = deleted(&world.take_writes());
    assert!(deletes.iter().all(|name| *name == deletes[0]), "{deletes:?}");
    assert_eq!(world.machines().len(), 2);
    assert!(world.condition("ReplicaFailure").is_none());
}

#[tokio::test]
async fn a_machine_whose_deletion_is_rejected_does_not_delay_the_others() {
    let world = LeaderWorld::with_pool(20).await;
    let protected = world.machines()[7]["metadata"]["name"].as_str().unwrap().to_owned();
    let name = protected.clone();
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, "virtualmachines") && *call.name == *name {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "protected"));
        }
        Fate::Serve
    });
    world.scale(0);
    world.advance(SECOND * 60).await;
    let left = world.machines();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["metadata"]["name"], protected);
    assert_eq!(world.condition("ReplicaFailure").unwrap()["reason"], "FailedDelete");
}

#[tokio::test]
async fn a_disk_that_could_not_be_created_is_retried_before_the_next_machine() {
    let mut world = LeaderWorld::new();
    let mut failures = 3;
    world.server.intercept(move |call| {
        if call.is(Verb::Create, "virtualdisks") && failures > 0 {
            failures -= 1;
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no storage left"));
        }
        Fate::Serve
    });
    world.settings.writes_in_flight = 1;
    world.server.create("virtualmachinepools", pool_manifest("web", 3));
    world.lead();
    world.advance(SECOND / 10).await;
    assert_eq!(world.machines().len(), 1, "the batch stops at the first failure");
    world.advance(SECOND * 30).await;
    assert_eq!(world.machines().len(), 3);
    assert_units_are_complete(&world);
    let order: Vec<String> = world
        .take_writes()
        .iter()
        .filter(|call| call.verb == Verb::Create && call.resource != "controllerrevisions")
        .map(|call| call.resource.clone())
        .collect();
    let disk = "virtualdisks";
    assert_eq!(order[..5], ["virtualmachines", disk, disk, disk, disk], "{order:?}");
    assert_eq!(world.condition("ReplicaFailure"), None);
}

#[tokio::test]
async fn a_full_quota_costs_one_request_per_try_with_growing_pauses() {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "exceeded quota: machines"));
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 100));
    world.lead();
    world.advance(SECOND / 10).await;
    let first = count(&world.server.take_log(), Verb::Create, "virtualmachines");
    assert_eq!(first, 1);
    world.advance(SECOND * 65).await;
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

/// Lets the API server reject creates of machines beyond this number.
fn limit_machines(world: &LeaderWorld, quota: usize) {
    let mut existing = world.machines().len();
    world.server.intercept(move |call| {
        if !call.is(Verb::Create, "virtualmachines") {
            return Fate::Serve;
        }
        if existing >= quota {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "exceeded quota: machines"));
        }
        existing += 1;
        Fate::Serve
    });
}

#[tokio::test]
async fn a_partial_quota_costs_few_rejections() {
    let mut world = LeaderWorld::new();
    limit_machines(&world, 5);
    world.server.create("virtualmachinepools", pool_manifest("web", 100));
    world.lead();
    world.advance(SECOND / 10).await;
    assert_eq!(world.machines().len(), 5);
    let sent = count(&world.server.take_log(), Verb::Create, "virtualmachines");
    assert!((6..=11).contains(&sent), "at most as many rejections as successes and one more: {sent}");
}

#[tokio::test]
async fn after_a_success_in_the_last_half_minute_creates_are_sent_at_full_width() {
    let width = LeaderWorld::new().settings.writes_in_flight;
    for (pause, least, most) in [(SECOND, width, width), (SECOND * 40, 1, 1)] {
        let world = LeaderWorld::with_pool(10).await;
        world.advance(pause).await;
        world.server.take_log();
        limit_machines(&world, 10);
        world.scale(300);
        world.advance(SECOND / 10).await;
        let sent = count(&world.server.take_log(), Verb::Create, "virtualmachines");
        assert!((least..=most).contains(&sent), "{sent} after {pause:?}");
    }
}

#[tokio::test]
async fn an_edit_of_the_spec_ends_the_pause_after_a_failure() {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "bad template"));
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 2));
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
    let mut world = LeaderWorld::new();
    world.settings.writes_in_flight = 5;
    // A slow server, so that requests accumulate.
    world
        .server
        .intercept(|call| if call.is_write() { Conduct::slow(SECOND / 10) } else { Conduct::default() });
    for name in ["a", "b", "c"] {
        world.server.create("virtualmachinepools", pool_manifest(name, 10));
    }
    world.lead();
    world.advance(SECOND * 10).await;
    assert_eq!(world.machines().len(), 30);
    assert_eq!(world.server.most_in_flight(), 5);
}

#[tokio::test]
async fn rejected_disks_of_new_machines_are_a_disk_failure() {
    // The creates start at full width, because one has just succeeded.
    let world = LeaderWorld::with_pool(1).await;
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualdisks") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no storage left"));
        }
        Fate::Serve
    });
    world.scale(20);
    // The status is written at most once per second.
    world.advance(SECOND / 5).await;
    let (begun, tries) = (world.machines().len(), count(&world.take_writes(), Verb::Create, "virtualdisks"));
    assert!(begun > 5 && tries < begun, "no repair before the pause: {tries} of {begun}");
    world.advance(SECOND).await;
    let failure = world.condition("ReplicaFailure").unwrap();
    assert_eq!(failure["reason"], "DiskFailure", "{failure}");
    let repairs = count(&world.take_writes(), Verb::Create, "virtualdisks");
    assert!((1..=4).contains(&repairs), "one by one: {repairs}");
    world.server.behave();
    world.advance(SECOND * 65).await;
    world.calm().await;
    assert_units_are_complete(&world);
    assert_eq!(world.machines().len(), 20);
}

#[tokio::test]
async fn a_machine_that_was_already_gone_causes_no_event() {
    let world = LeaderWorld::with_pool(2).await;
    let deletions = |world: &LeaderWorld| {
        world.server.all("events").iter().filter(|event| event["reason"] == "SuccessfulDelete").count()
    };
    let server = world.server.clone();
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, "virtualmachines") {
            server.delete("virtualmachines", &call.name);
        }
        Fate::Serve
    });
    world.scale(1);
    world.calm().await;
    assert_eq!((world.machines().len(), deletions(&world)), (1, 0));
    world.server.behave();
    world.scale(0);
    world.calm().await;
    assert_eq!((world.machines().len(), deletions(&world)), (0, 1));
}

#[tokio::test]
async fn a_long_refusal_is_cut_in_the_condition() {
    let mut world = LeaderWorld::new();
    world.server.intercept(|call| {
        if call.is(Verb::Create, "virtualmachines") {
            return Fate::Refuse(Refusal::new(403, "Forbidden", "no \u{20ac} ".repeat(10_000)));
        }
        Fate::Serve
    });
    world.server.create("virtualmachinepools", pool_manifest("web", 1));
    world.lead();
    world.calm().await;
    let failure = world.condition("ReplicaFailure").unwrap();
    let message = failure["message"].as_str().unwrap();
    assert!((900..=1000).contains(&message.len()), "{}", message.len());
}

#[tokio::test]
async fn many_overdue_entries_are_settled_in_portions_and_all_of_them() {
    let mut world = LeaderWorld::new();
    world.server.hold("virtualmachines");
    world.server.create("virtualmachinepools", pool_manifest("web", MOST_SETTLED * 2));
    world.lead();
    world.calm().await;
    assert_eq!(world.machines().len(), MOST_SETTLED * 2);
    // Indexed by the number of finished passes.
    let reads = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    world.server.intercept({
        let (reads, metrics) = (reads.clone(), world.metrics.clone());
        move |call| {
            if call.is(Verb::Get, "virtualmachines") {
                let page = metrics.page();
                let ended = page.lines().filter(|line| line.starts_with("vmpool_passes_total")).collect();
                *reads.lock().entry(ended).or_default() += 1;
            }
            Fate::Serve
        }
    });
    world.advance(SECOND * 40).await;
    let reads = reads.lock();
    assert_eq!(reads.values().sum::<usize>(), MOST_SETTLED * 2, "{reads:?}");
    assert!(reads.values().all(|portion| *portion <= MOST_SETTLED), "{reads:?}");
}

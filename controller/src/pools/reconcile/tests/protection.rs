//! Protected machines.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use vmpool_engine::protection::{MAX_PROTECTION, UNTIL, timestamp_text};

use super::rollouts::{MACHINES, edit, label, resize, shown};
use super::{SECOND, count};
use crate::testing::{Fate, LeaderWorld, MERGE_PATCH, Verb, machine_names};

/// The time this number of seconds after now, as in the annotation.
fn at(world: &LeaderWorld, seconds: u64) -> String {
    timestamp_text(world.env.now() + Duration::from_secs(seconds))
}

fn annotate(world: &LeaderWorld, machine: &str, key: &str, value: &str) {
    world.server.edit(MACHINES, machine, |machine| machine["metadata"]["annotations"][key] = json!(value));
}

fn protect(world: &LeaderWorld, machine: &str, seconds: u64) {
    annotate(world, machine, UNTIL, &at(world, seconds));
}

/// The newest machine, which a scale-down deletes first.
pub(super) fn newest(world: &LeaderWorld) -> String {
    let machines = world.machines();
    let created = |machine: &&Value| {
        let metadata = &machine["metadata"];
        (metadata["creationTimestamp"].to_string(), metadata["name"].to_string())
    };
    let newest = machines.iter().max_by_key(created).expect("there are machines");
    machine_names(std::slice::from_ref(newest)).remove(0)
}

pub(super) fn machine(world: &LeaderWorld, name: &str) -> Value {
    world.server.get(MACHINES, name).expect("it exists")
}

/// Machines that the platform restarts without approval for a change of memory.
pub(super) async fn automatic(replicas: usize) -> LeaderWorld {
    let world = LeaderWorld::with_pool(replicas).await;
    edit(&world, |pool| {
        pool["spec"]["virtualMachineTemplate"]["spec"]["disruptions"] =
            json!({ "restartApprovalMode": "Automatic" });
        pool["spec"]["rollout"] = json!({ "maxUnavailable": "100%" });
    });
    for _ in 0..4 {
        world.calm().await;
        world.run_machines();
    }
    world.calm().await;
    world.take_writes();
    world
}

#[tokio::test]
async fn a_scale_down_removes_another_machine_and_waits_for_the_last_protected_one() {
    let world = LeaderWorld::with_pool(3).await;
    let kept = newest(&world);
    protect(&world, &kept, 60);
    world.calm().await;
    world.scale(1);
    world.calm().await;
    assert_eq!(machine_names(&world.machines()), [&*kept], "both others are deleted");
    world.scale(0);
    world.calm().await;
    assert_eq!(machine_names(&world.machines()), [&*kept]);
    let condition = world.condition("BlockedByProtection").expect("the pool says why");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("the scale-down to 0 waits for protected machine {kept}")),
        "{message}"
    );
    world.take_writes();
    world.advance(60 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "the clocks of two programs may differ by 30 seconds");
    world.advance(30 * SECOND).await;
    assert_eq!(world.machines().len(), 0);
    assert_eq!(world.condition("BlockedByProtection"), None);
}

#[tokio::test]
async fn a_machine_that_is_protected_after_the_plan_is_not_deleted() {
    let world = LeaderWorld::with_pool(3).await;
    let (kept, until) = (newest(&world), at(&world, 600));
    let (server, name, mut waits) = (world.server.clone(), kept.clone(), true);
    world.server.intercept(move |call| {
        if call.is(Verb::Delete, MACHINES) && std::mem::take(&mut waits) {
            server.edit(MACHINES, &name, |machine| machine["metadata"]["annotations"][UNTIL] = json!(until));
        }
        Fate::Serve
    });
    world.scale(2);
    world.calm().await;
    let left = machine_names(&world.machines());
    assert!(left.contains(&kept) && left.len() == 2, "another machine is deleted: {left:?}");
}

#[tokio::test]
async fn a_time_that_is_not_valid_is_corrected_once_with_an_event() {
    let world = LeaderWorld::with_pool(2).await;
    edit(&world, |pool| pool["metadata"]["annotations"][MAX_PROTECTION] = json!("30m"));
    world.calm().await;
    let names = machine_names(&world.machines());
    annotate(&world, &names[0], UNTIL, "tomorrow");
    annotate(&world, &names[1], UNTIL, &at(&world, 24 * 3600));
    world.take_writes();
    let latest = world.env.now() + Duration::from_mins(30) + 5 * SECOND;
    world.calm().await;
    for name in &names {
        let until = machine(&world, name)["metadata"]["annotations"][UNTIL].as_str().unwrap().to_owned();
        let until: Timestamp = until.parse().expect("it is a time");
        assert!(until <= latest && until > world.env.now(), "{until}");
    }
    assert_eq!(count(&world.take_writes(), MERGE_PATCH, MACHINES), 2);
    let events = world.server.all("events");
    let events = events.iter().filter(|event| event["reason"] == "ProtectionShortened").count();
    assert_eq!(events, 2);
    world.advance(60 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0);
}

#[tokio::test]
async fn a_rollout_waits_for_protected_machines_that_would_restart() {
    let world = automatic(2).await;
    let kept = newest(&world);
    protect(&world, &kept, 60);
    world.calm().await;
    let before = machine(&world, &kept)["spec"].clone();
    resize(&world, "1Gi");
    world.calm().await;
    world.run_machines();
    world.calm().await;
    assert_eq!(machine(&world, &kept)["spec"], before);
    let other = machine_names(&world.machines()).into_iter().find(|name| *name != kept).unwrap();
    assert_eq!(machine(&world, &other)["spec"]["memory"]["size"], "1Gi");
    let message = world.condition("BlockedByProtection").expect("the pool says why")["message"].to_string();
    assert!(message.contains("the rollout waits for 1 machine"), "{message}");
    world.take_writes();
    world.advance(30 * SECOND).await;
    assert_eq!(world.take_writes().len(), 0, "nothing is tried meanwhile");
    world.advance(60 * SECOND).await;
    assert_eq!(machine(&world, &kept)["spec"]["memory"]["size"], "1Gi");
}

#[tokio::test]
async fn labels_of_a_changed_template_reach_a_protected_machine() {
    let world = automatic(2).await;
    let kept = newest(&world);
    protect(&world, &kept, 600);
    world.calm().await;
    edit(&world, |pool| {
        pool["spec"]["virtualMachineTemplate"]["metadata"] = json!({ "labels": { "tier": "gold" } });
    });
    world.calm().await;
    let machine = machine(&world, &kept);
    assert_eq!(machine["metadata"]["labels"]["tier"], "gold");
    assert_eq!(label(&machine), shown(&world), "the revision is in effect at once");
    assert_eq!(world.condition("BlockedByProtection"), None);
}

#[tokio::test]
async fn a_protected_machine_that_needs_an_approval_is_updated_unless_the_update_takes_it_away() {
    let world = LeaderWorld::with_pool(1).await;
    let kept = newest(&world);
    protect(&world, &kept, 600);
    world.calm().await;
    resize(&world, "1Gi");
    world.calm().await;
    assert_eq!(machine(&world, &kept)["spec"]["memory"]["size"], "1Gi", "a person approves the restart");
    world.run_machines();
    world.calm().await;
    edit(&world, |pool| {
        let template = &mut pool["spec"]["virtualMachineTemplate"]["spec"];
        template["memory"]["size"] = json!("2Gi");
        template["disruptions"] = json!({ "restartApprovalMode": "Automatic" });
    });
    world.calm().await;
    assert_eq!(machine(&world, &kept)["spec"]["memory"]["size"], "1Gi");
    assert!(world.condition("BlockedByProtection").is_some());
}

#[tokio::test]
async fn a_machine_that_is_protected_after_the_plan_of_its_update_keeps_its_spec() {
    let world = automatic(1).await;
    let kept = newest(&world);
    world.server.hold(MACHINES);
    protect(&world, &kept, 600);
    resize(&world, "1Gi");
    world.calm().await;
    assert_eq!(machine(&world, &kept)["spec"]["memory"]["size"], "512Mi");
    world.server.release();
    world.calm().await;
    assert_eq!(machine(&world, &kept)["spec"]["memory"]["size"], "512Mi");
}

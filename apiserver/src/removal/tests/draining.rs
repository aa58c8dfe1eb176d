//! Targets with hooks: the controller drains and deletes them.

use serde_json::json;
use vmpool_engine::draining::HOOK_PREFIX;

use crate::testing::{ApiServerWorld, Call, RequestFault, TestResponse, Verb, record_of};

fn set_hook(world: &ApiServerWorld, name: &str) {
    world.server.store(|store| {
        store.edit_machine(name, |machine| {
            machine["metadata"]["annotations"][format!("{HOOK_PREFIX}job")] = json!("");
        });
    });
}

async fn post(world: &ApiServerWorld, body: &str) -> TestResponse {
    let process = world.process(1);
    let answer = world.through(process.post("", body)).await.unwrap();
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.body);
    answer
}

fn take_deletes(world: &ApiServerWorld) -> Vec<Call> {
    let log = world.server.take_log();
    log.into_iter().filter(|call| call.verb == Verb::Delete).collect()
}

/// Whether the record names the machine, and whether its removal is forced.
fn recorded(world: &ApiServerWorld, name: &str) -> Option<bool> {
    let record = world.server.store(|store| record_of(&store.pool()));
    record.entries().iter().find(|entry| &*entry.target.name == name).map(|entry| entry.force)
}

#[tokio::test]
async fn a_target_with_a_hook_is_left_to_the_controller() {
    let world = ApiServerWorld::with_pool(1, 3);
    set_hook(&world, "web-1");
    post(&world, r#"{"targets":["web-0","web-1"]}"#).await;
    let deleted: Vec<String> = take_deletes(&world).iter().map(|call| call.name.clone()).collect();
    assert_eq!(deleted, ["web-0"]);
    assert_eq!(world.server.store(|store| store.replicas()), 1);
    assert_eq!(recorded(&world, "web-1"), Some(false));
}

#[tokio::test]
async fn a_target_without_hooks_is_deleted_at_the_version_that_was_read() {
    let world = ApiServerWorld::with_pool(1, 3);
    post(&world, r#"{"targets":["web-1"]}"#).await;
    let deletes = take_deletes(&world);
    assert!(deletes[0].body["preconditions"]["resourceVersion"].is_string(), "{}", deletes[0].body);
}

#[tokio::test]
async fn a_forced_removal_deletes_a_target_with_a_hook_in_any_state() {
    let world = ApiServerWorld::with_pool(1, 3);
    set_hook(&world, "web-1");
    post(&world, r#"{"targets":["web-1"],"force":true}"#).await;
    let deletes = take_deletes(&world);
    assert_eq!(deletes.len(), 1);
    assert!(deletes[0].body["preconditions"]["resourceVersion"].is_null(), "{}", deletes[0].body);
    assert_eq!(recorded(&world, "web-1"), Some(true), "the controller does not drain it, either");
}

#[tokio::test]
async fn a_hook_that_is_set_between_the_verification_and_the_delete_is_respected() {
    let world = ApiServerWorld::with_pool(1, 3);
    let mut once = true;
    world.server.intercept(move |call, store| {
        if call.verb == Verb::Delete && std::mem::take(&mut once) {
            store.edit_machine("web-1", |machine| {
                machine["metadata"]["annotations"][format!("{HOOK_PREFIX}job")] = json!("");
            });
        }
        RequestFault::None
    });
    post(&world, r#"{"targets":["web-1"]}"#).await;
    assert_eq!(take_deletes(&world).len(), 1, "the delete is rejected and not repeated");
    let machine = world.server.store(|store| store.machine("web-1")).expect("it drains first");
    assert!(machine["metadata"]["deletionTimestamp"].is_null());
}

/// Other changes are no hooks.
#[tokio::test]
async fn a_target_that_changed_is_deleted_at_its_new_version() {
    let world = ApiServerWorld::with_pool(1, 3);
    let mut once = true;
    world.server.intercept(move |call, store| {
        if call.verb == Verb::Delete && std::mem::take(&mut once) {
            store.edit_machine("web-1", |machine| machine["status"]["phase"] = json!("Stopped"));
        }
        RequestFault::None
    });
    post(&world, r#"{"targets":["web-1"]}"#).await;
    assert_eq!(take_deletes(&world).len(), 2);
}

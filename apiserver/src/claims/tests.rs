//! Claims and releases on the API server model.

mod basics;
mod faults;
mod kubevirt;
mod removals;
mod typed_bodies;
mod waiting;

use serde_json::{Value, json};
use vmpool_engine::protection::{CLAIM, UNTIL};

use crate::testing::{ApiServerProcess, ApiServerWorld, NAMESPACE, TestResponse};

/// A world with a pool `web` of running machines, `web-0` the oldest.
fn running(seed: u64, replicas: usize) -> ApiServerWorld {
    let world = ApiServerWorld::with_pool(seed, replicas);
    world.server.store(|store| {
        for index in 0..replicas {
            store.edit_machine(&format!("web-{index}"), |machine| {
                machine["status"] = json!({ "phase": "Running", "ipAddress": format!("10.0.0.{index}") });
                let owner = machine["metadata"]["ownerReferences"][1]["uid"].clone();
                machine["metadata"]["labels"][vmpool_api::labels::POOL_UID] = owner;
                machine["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{index:02}Z"));
            });
        }
    });
    world
}

/// Sends a request about the pool `web` as a user.
async fn send(
    process: &ApiServerProcess,
    user: &str,
    subresource: &str,
    body: &Value,
) -> Option<TestResponse> {
    let pool = format!("namespaces/{NAMESPACE}/virtualmachinepools/web");
    let path = format!("/apis/subresources.vmpool.dev/v1alpha1/{pool}/{subresource}");
    let mut request = crate::testing::request_as_alice("POST", &path, &body.to_string());
    request.headers_mut().insert("X-Remote-User", user.parse().unwrap());
    process.call(request).await
}

async fn claim(world: &ApiServerWorld, process: &ApiServerProcess, body: Value) -> TestResponse {
    world.through(send(process, "alice", "claim", &body)).await.unwrap()
}

async fn release(world: &ApiServerWorld, process: &ApiServerProcess, body: Value) -> TestResponse {
    world.through(send(process, "alice", "release", &body)).await.unwrap()
}

fn body(id: &str) -> Value {
    json!({ "id": id, "durationSeconds": 600 })
}

/// The name of the claimed machine.
fn machine(answer: &TestResponse) -> String {
    answer.body["machine"]["name"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

fn assert_refused(answer: &TestResponse, code: u16, reason: &str) {
    assert_eq!((answer.code.as_u16(), &answer.body["reason"]), (code, &json!(reason)), "{}", answer.body);
    assert_eq!(answer.body["status"], "Failure");
}

/// The names of the machines with a claim.
fn claimed(world: &ApiServerWorld) -> Vec<String> {
    world.server.store(|store| {
        let machines = store.machines();
        let claimed = machines.iter().filter(|machine| machine["metadata"]["annotations"][CLAIM].is_string());
        claimed.map(|machine| machine["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    })
}

/// Protects a machine like a user, for a time in seconds.
fn protect(world: &ApiServerWorld, name: &str, seconds: u64) {
    let until =
        vmpool_engine::protection::time_after(world.env.now(), std::time::Duration::from_secs(seconds));
    let until = vmpool_engine::protection::timestamp_text(until);
    world.server.store(|store| {
        store.edit_machine(name, |machine| machine["metadata"]["annotations"][UNTIL] = json!(until));
    });
}

//! The record of claims that found no machine.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_autoscaler::waiting::{WaitingClaimKey, WaitingClaims};

use super::{assert_refused, body, claim, running};
use crate::state::ApiServerSettings;
use crate::testing::{ApiServerProcess, ApiServerWorld, NAMESPACE, SETTINGS};

const AUTOSCALERS: &str = "poolautoscalers.vmpool.dev";

/// A world with a pool without machines, and a server that records claims.
fn recording(pool: &str) -> (ApiServerWorld, ApiServerProcess) {
    let world = running(1, 0);
    let reference = json!({
        "apiVersion": "virtualization.deckhouse.io/v1alpha2", "kind": "VirtualMachinePool", "name": pool,
    });
    let autoscaler = json!({
        "metadata": { "name": "web", "namespace": NAMESPACE },
        "spec": { "poolRef": reference, "maxReplicas": 3 },
    });
    world.server.store(|store| store.model().create_now(AUTOSCALERS, autoscaler).unwrap());
    let process = ApiServerProcess::start(&world, 1, ApiServerSettings { autoscales: true, ..SETTINGS });
    (world, process)
}

/// The number of claims in the annotation of the pool.
fn waiting(world: &ApiServerWorld) -> u32 {
    let pool = world.server.store(|store| store.pool());
    let text = pool["metadata"]["annotations"][WAITING_CLAIMS].as_str().unwrap_or_default().to_owned();
    WaitingClaims::parse(&text, world.env.now().as_second()).count(&BTreeSet::new())
}

async fn pass_time(world: &ApiServerWorld, time: Duration) {
    world.through(world.env.sleep(time)).await;
}

#[tokio::test]
async fn a_claim_without_a_machine_is_recorded_until_it_is_not_tried_any_more() {
    let (world, process) = recording("web");
    assert_refused(&claim(&world, &process, body("job-1")).await, 409, "NoMachineAvailable");
    pass_time(&world, Duration::from_secs(1)).await;
    assert_eq!(waiting(&world), 1);
    let pool = world.server.store(|store| store.pool());
    let text = pool["metadata"]["annotations"][WAITING_CLAIMS].as_str().unwrap().to_owned();
    assert!(text.contains(WaitingClaimKey::new("alice", "job-1").as_str()), "{text}");
    assert!(!text.contains("alice"), "{text}");
    pass_time(&world, Duration::from_secs(30)).await;
    assert_eq!(waiting(&world), 0);
}

#[tokio::test]
async fn many_claims_cost_one_write_in_two_seconds() {
    let (world, process) = recording("web");
    world.server.take_log();
    for id in 0..10 {
        claim(&world, &process, body(&format!("job-{id}"))).await;
    }
    pass_time(&world, Duration::from_secs(3)).await;
    assert_eq!(waiting(&world), 10);
    let writes = world.server.take_log();
    let writes = writes.iter().filter(|call| call.is_write() && call.resource == "virtualmachinepools");
    assert_eq!(writes.count(), 2, "one for the first claim, and one for the others");
}

#[tokio::test]
async fn without_an_autoscaler_of_the_pool_nothing_is_written() {
    let (world, process) = recording("another");
    claim(&world, &process, body("job-1")).await;
    pass_time(&world, Duration::from_secs(3)).await;
    assert_eq!(waiting(&world), 0);
}

#[tokio::test]
async fn a_dry_run_and_a_claim_of_one_machine_do_not_wait() {
    let (world, process) = recording("web");
    let mut dry = body("job-1");
    dry["dryRun"] = json!(["All"]);
    claim(&world, &process, dry).await;
    let mut named = body("job-2");
    named["machine"] = json!("web-7");
    claim(&world, &process, named).await;
    pass_time(&world, Duration::from_secs(3)).await;
    assert_eq!(waiting(&world), 0);
}

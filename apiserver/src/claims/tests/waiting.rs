//! The record of claims that found no machine.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::json;
use vmpool_api::annotations::WAITING_CLAIMS;
use vmpool_autoscaler::waiting::{WaitingClaimKey, WaitingClaims};

use super::{assert_refused, body, claim, running, send};
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

/// Each user claims with new ids, at a rate of ten thousand claims a minute in all.
async fn flood(world: &ApiServerWorld, process: &ApiServerProcess, users: usize, seconds: usize) {
    const CLAIMS_IN_A_SECOND: usize = 167;
    for second in 0..seconds {
        let claims = (0..CLAIMS_IN_A_SECOND).map(|number| async move {
            let user = format!("user-{}", number % users);
            send(process, &user, "claim", &body(&format!("job-{second}-{number}"))).await
        });
        let _answers = world.through(join_all(claims)).await;
        pass_time(world, Duration::from_secs(1)).await;
    }
}

/// The number of entries in the annotation, ended ones included, and its size in bytes.
fn recorded(world: &ApiServerWorld) -> (usize, usize) {
    let pool = world.server.store(|store| store.pool());
    let text = pool["metadata"]["annotations"][WAITING_CLAIMS].as_str().unwrap_or("{}").to_owned();
    let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    (entries.len(), text.len())
}

#[tokio::test]
async fn ten_thousand_claims_a_minute_are_bounded() {
    let (world, process) = recording("web");
    world.server.take_log();
    let begin = world.env.uptime();
    flood(&world, &process, 20, 12).await;
    let (entries, bytes) = recorded(&world);
    assert!((400..=500).contains(&entries), "{entries}");
    assert!(bytes < 40_000, "{bytes} bytes");
    let writes = world.server.take_log();
    let writes = writes.iter().filter(|call| call.is_write() && call.resource == "virtualmachinepools");
    let allowed = usize::try_from(world.since(begin).as_secs() / 2).unwrap() + 2;
    let writes = writes.count();
    assert!(writes <= allowed, "{writes} writes, {allowed} are allowed");
}

#[tokio::test]
async fn one_user_does_not_keep_out_the_claims_of_others() {
    let (world, process) = recording("web");
    flood(&world, &process, 1, 4).await;
    assert_eq!(recorded(&world).0, 50);
    assert_refused(&claim(&world, &process, body("job-1")).await, 409, "NoMachineAvailable");
    pass_time(&world, Duration::from_secs(3)).await;
    let pool = world.server.store(|store| store.pool());
    let text = pool["metadata"]["annotations"][WAITING_CLAIMS].as_str().unwrap().to_owned();
    assert!(text.contains(WaitingClaimKey::new("alice", "job-1").as_str()), "{text}");
}

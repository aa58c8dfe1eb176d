//! Changes of the pool by other clients, and refusals of kube-apiserver.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;

use crate::testing::{
    ApiServerWorld, Call, FaultyServerStore, MERGE_PATCH, RequestFault, TestResponse, Verb,
};

fn is_patch(call: &Call) -> bool {
    call.is(MERGE_PATCH, "virtualmachinepools")
}

/// Whether the request decrements `replicas` of the pool.
fn is_acceptance(call: &Call) -> bool {
    is_patch(call) && call.body["spec"]["replicas"].is_i64()
}

fn change_pool(store: &mut FaultyServerStore) {
    store.edit_pool(|pool| {
        let count = pool["status"]["count"].as_i64().unwrap_or(0);
        pool["status"]["count"] = json!(count + 1);
    });
}

fn assert_withdrawn(world: &ApiServerWorld, replicas: i64) {
    world.server.store(|store| {
        assert_eq!(store.replicas(), replicas);
        let record = store.pool()["metadata"]["annotations"][SCALE_DOWN_TARGETS].clone();
        assert!(record.is_null(), "the reservation was not withdrawn: {record}");
    });
}

async fn remove(world: &ApiServerWorld, targets: &[&str]) -> TestResponse {
    world.through(world.process(1).remove(targets)).await.unwrap()
}

#[tokio::test]
async fn conflicts_are_retried_for_at_least_five_seconds() {
    let world = ApiServerWorld::with_pool(1, 3);
    let (env, start) = (world.env.clone(), world.env.uptime());
    world.server.intercept(move |call, store| {
        if is_patch(call) && env.uptime().saturating_sub(start) < Duration::from_secs(5) {
            change_pool(store);
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 2);
    let attempts = world.server.take_log().iter().filter(|call| is_patch(call)).count();
    assert!((10..100).contains(&attempts), "{attempts} attempts");
}

#[tokio::test]
async fn a_pool_that_keeps_changing_ends_in_a_conflict_within_the_deadline() {
    let world = ApiServerWorld::with_pool(1, 3);
    let start = world.env.uptime();
    world.server.intercept(move |call, store| {
        // Only the acceptance conflicts.
        if is_acceptance(call) {
            change_pool(store);
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CONFLICT, "{}", answer.body);
    assert!(answer.body["message"].as_str().unwrap().contains("other clients kept changing the pool"));
    let took = world.since(start);
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(15), "{took:?}");
    assert_withdrawn(&world, 3);
}

#[tokio::test]
async fn an_unavailable_webhook_is_named_and_is_not_a_conflict() {
    let stages: [fn(&Call) -> bool; 2] = [is_patch, is_acceptance];
    for stage in stages {
        let world = ApiServerWorld::with_pool(1, 3);
        let start = world.env.uptime();
        world.server.intercept(
            move |call, _| if stage(call) { RequestFault::WebhookDown } else { RequestFault::None },
        );
        let answer = remove(&world, &["web-0"]).await;
        assert_eq!(answer.code, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
        assert_eq!(answer.body["reason"], "ServiceUnavailable");
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 5);
        let message = answer.body["message"].as_str().unwrap();
        let contains = |part: &str| assert!(message.contains(part), "{part:?} is missing: {message}");
        contains("failed calling webhook \"pools.webhook.vmpool.dev\"");
        contains("connection refused");
        contains("no machine was removed");
        assert!(world.since(start) < Duration::from_secs(15));
        assert_withdrawn(&world, 3);
    }
}

#[tokio::test]
async fn a_webhook_that_recovers_in_time_does_not_fail_the_removal() {
    let world = ApiServerWorld::with_pool(1, 3);
    let (env, start) = (world.env.clone(), world.env.uptime());
    world.server.intercept(move |call, _| {
        let down = is_patch(call) && env.uptime().saturating_sub(start) < Duration::from_secs(5);
        if down { RequestFault::WebhookDown } else { RequestFault::None }
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 2);
}

#[tokio::test]
async fn server_errors_of_writes_are_not_reported_as_conflict() {
    let world = ApiServerWorld::with_pool(1, 3);
    world.server.intercept(|call, _| {
        if is_patch(call) { RequestFault::Refuse(503, "ServiceUnavailable") } else { RequestFault::None }
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
    assert!(
        answer.body["message"].as_str().unwrap().contains("refused: ServiceUnavailable"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_target_that_vanishes_before_verification_fails_the_request() {
    let world = ApiServerWorld::with_pool(1, 3);
    world.server.intercept(|call, store| {
        if is_patch(call) && !is_acceptance(call) {
            store.finish("web-0");
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0", "web-1"]).await;
    assert_eq!(answer.code, StatusCode::BAD_REQUEST, "{}", answer.body);
    assert!(answer.body["message"].as_str().unwrap().contains("\"web-0\" not found"));
    world.server.clear_faults();
    assert_withdrawn(&world, 3);
    world.settle().await;
    world.server.store(|store| {
        assert_eq!(store.created.len(), 1, "no removal was accepted, so the machine is replaced");
        assert!(store.victims.is_empty());
    });
}

#[tokio::test]
async fn a_target_that_vanishes_after_verification_is_not_replaced() {
    let world = ApiServerWorld::with_pool(1, 3);
    let env = world.env.clone();
    world.server.intercept(move |call, store| {
        if is_acceptance(call) {
            store.finish("web-0");
            store.reconcile(env.uptime());
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    world.settle().await;
    world.server.store(|store| {
        assert_eq!(store.names(), ["web-1", "web-2"]);
        assert!(store.created.is_empty() && store.victims.is_empty());
    });
}

#[tokio::test]
async fn a_refusal_of_admission_is_forwarded_and_the_reservation_withdrawn() {
    for (code, reason) in [(403, "Forbidden"), (422, "Invalid")] {
        let world = ApiServerWorld::with_pool(1, 3);
        world.server.intercept(move |call, _| {
            if is_acceptance(call) { RequestFault::Refuse(code, reason) } else { RequestFault::None }
        });
        let answer = remove(&world, &["web-0"]).await;
        assert_eq!(answer.code.as_u16(), code);
        assert_eq!(answer.body["reason"], reason);
        assert_withdrawn(&world, 3);
    }
}

#[tokio::test]
async fn requests_whose_shared_write_is_refused_are_retried_separately() {
    let world = ApiServerWorld::with_pool(1, 4);
    // An admission policy requires at least two replicas.
    world.server.intercept(|call, _| {
        let low = call.body["spec"]["replicas"].as_i64().is_some_and(|replicas| replicas < 2);
        if low { RequestFault::Refuse(403, "Forbidden") } else { RequestFault::None }
    });
    let process = world.process(1);
    let ask = async |name: &'static str| process.remove(&[name]).await.unwrap().code.as_u16();
    let mut codes: Vec<u16> = world
        .through(async {
            <[u16; 4]>::from(futures::join!(ask("web-0"), ask("web-1"), ask("web-2"), ask("web-3")))
        })
        .await
        .into();
    codes.sort_unstable();
    assert_eq!(codes, [201, 201, 403, 403]);
    world.server.clear_faults();
    world.settle().await;
    world.server.store(|store| {
        assert_eq!((store.replicas(), store.names().len()), (2, 2));
        assert!(store.victims.is_empty() && store.created.is_empty());
    });
}

#[tokio::test]
async fn a_pool_that_goes_or_is_made_anew_meanwhile_is_not_found() {
    for anew in [false, true] {
        let world = ApiServerWorld::with_pool(1, 3);
        world.server.intercept(move |call, store| {
            if is_acceptance(call) {
                store.delete_pool();
                if anew {
                    store.names().iter().for_each(|name| store.finish(name));
                    store.create_pool("web", 3);
                }
            }
            RequestFault::None
        });
        let answer = remove(&world, &["web-0"]).await;
        assert_eq!(answer.code, StatusCode::NOT_FOUND, "{}", answer.body);
        let deletes = world.server.take_log().into_iter().filter(|call| call.verb == Verb::Delete).count();
        assert_eq!(deletes, 0);
    }
}

#[tokio::test]
async fn a_pool_that_begins_to_go_meanwhile_loses_nothing_to_us() {
    let world = ApiServerWorld::with_pool(1, 3);
    world.server.intercept(move |call, store| {
        if is_acceptance(call) {
            store.edit_pool(|pool| pool["metadata"]["finalizers"] = json!(["example.com/hold"]));
            store.delete_pool();
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CONFLICT, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 3);
}

#[tokio::test]
async fn a_reservation_that_somebody_takes_away_is_made_again() {
    let world = ApiServerWorld::with_pool(1, 3);
    let mut taken = false;
    world.server.intercept(move |call, store| {
        if is_acceptance(call) && !std::mem::replace(&mut taken, true) {
            store.edit_pool(|pool| pool["metadata"]["annotations"] = json!({}));
        }
        RequestFault::None
    });
    let answer = remove(&world, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 2);
}

#[tokio::test]
async fn two_processes_count_the_same_target_once() {
    for delay in 0..16 {
        let world = ApiServerWorld::with_pool(delay, 4);
        let (one, two) = (world.process(1), world.process(2));
        let late = async {
            world.env.sleep(Duration::from_millis(delay)).await;
            two.remove(&["web-0", "web-2"]).await
        };
        let (a, b) = world.through(async { futures::join!(one.remove(&["web-0", "web-1"]), late) }).await;
        assert_eq!((a.unwrap().code.as_u16(), b.unwrap().code.as_u16()), (201, 201));
        world.settle().await;
        world.server.store(|store| {
            assert_eq!(store.names(), ["web-3"], "after {delay} ms");
            assert_eq!(store.replicas(), 1);
            assert!(store.created.is_empty() && store.victims.is_empty());
        });
    }
}

#[tokio::test]
async fn two_processes_can_remove_the_same_vanishing_target() {
    for delay in 0..16 {
        let world = ApiServerWorld::new(delay);
        world.server.store(|store| {
            store.vanishing = true;
            store.create_pool("web", 4);
        });
        let (one, two) = (world.process(1), world.process(2));
        let late = async {
            world.env.sleep(Duration::from_millis(delay)).await;
            two.remove(&["web-0", "web-2"]).await
        };
        let (a, b) = world.through(async { futures::join!(one.remove(&["web-0", "web-1"]), late) }).await;
        // The record contains the target until the controller removes the entry.
        assert_eq!((a.unwrap().code.as_u16(), b.unwrap().code.as_u16()), (201, 201), "after {delay} ms");
        world.settle().await;
        world.server.store(|store| {
            assert_eq!(store.names(), ["web-3"], "after {delay} ms");
            assert_eq!(store.replicas(), 1);
            assert!(store.created.is_empty() && store.victims.is_empty());
        });
    }
}

#[tokio::test]
async fn delete_requests_are_retried_and_their_failure_is_reported() {
    let world = ApiServerWorld::with_pool(1, 3);
    let mut failures = 5;
    world.server.intercept(move |call, _| {
        if call.verb == Verb::Delete && failures > 0 {
            failures -= 1;
            return RequestFault::Refuse(500, "InternalError");
        }
        RequestFault::None
    });
    assert_eq!(remove(&world, &["web-0"]).await.code, StatusCode::CREATED);
    world.server.intercept(|call, _| {
        if call.verb == Verb::Delete { RequestFault::Refuse(403, "Forbidden") } else { RequestFault::None }
    });
    let answer = remove(&world, &["web-1"]).await;
    assert_eq!(answer.code, StatusCode::INTERNAL_SERVER_ERROR);
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains("the controller will delete"), "{message}");
    world.server.clear_faults();
    world.settle().await;
    world.server.store(|store| assert_eq!((store.replicas(), store.names()), (1, vec!["web-2".to_owned()])));
}

#[tokio::test]
async fn a_conflict_of_a_delete_is_no_proof_that_the_machine_is_gone() {
    let world = ApiServerWorld::with_pool(1, 3);
    let mut failures = 3;
    world.server.intercept(move |call, _| {
        if call.verb == Verb::Delete && failures > 0 {
            failures -= 1;
            return RequestFault::Refuse(409, "Conflict");
        }
        RequestFault::None
    });
    assert_eq!(remove(&world, &["web-0"]).await.code, StatusCode::CREATED);
    let deletes = world.server.take_log().iter().filter(|call| call.verb == Verb::Delete).count();
    // The controller of a paused pool would not delete it.
    assert_eq!(deletes, 4);
}

#[tokio::test]
async fn a_failed_read_is_an_internal_error_and_changes_nothing() {
    for resource in ["virtualmachinepools", "virtualmachines"] {
        let world = ApiServerWorld::with_pool(1, 3);
        world.server.intercept(move |call, _| {
            if call.is(Verb::Get, resource) {
                RequestFault::Refuse(500, "InternalError")
            } else {
                RequestFault::None
            }
        });
        let answer = remove(&world, &["web-0"]).await;
        assert_eq!(answer.code, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(answer.body["message"].as_str().unwrap().starts_with("reading "), "{}", answer.body);
        assert_withdrawn(&world, 3);
        let reads = world.server.take_log().into_iter().filter(|call| call.is(Verb::Get, resource)).count();
        assert_eq!(reads, 3);
    }
}

#[tokio::test]
async fn a_server_that_never_responds_ends_in_a_timeout() {
    let world = ApiServerWorld::with_pool(1, 3);
    let start = world.env.uptime();
    world.server.intercept(|call, _| {
        // The request gets no response. Without a kill function the process is not killed.
        if is_patch(call) { RequestFault::KilledBefore } else { RequestFault::None }
    });
    let answer = remove(&world, &["web-0"]).await;
    assert!(answer.code.is_server_error(), "{}", answer.body);
    assert!(world.since(start) < Duration::from_secs(30));
}

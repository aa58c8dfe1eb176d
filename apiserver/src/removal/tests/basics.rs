//! Removals without faults.

use http::StatusCode;
use serde_json::json;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::scale_down::removal::RemovalRecord;

use crate::testing::{
    ApiServerProcess, ApiServerWorld, MERGE_PATCH, ROUND_TRIP, TestResponse, Verb, is_write, results_of,
};

async fn remove(world: &ApiServerWorld, process: &ApiServerProcess, targets: &[&str]) -> TestResponse {
    world.through(process.remove(targets)).await.unwrap()
}

fn assert_error(answer: &TestResponse, code: u16, reason: &str, text: &str) {
    assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
    assert_eq!(answer.body["reason"], reason, "{}", answer.body);
    assert_eq!(answer.body["code"], code, "{}", answer.body);
    assert_eq!(answer.body["status"], "Failure");
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains(text), "{message}");
}

fn assert_unchanged(world: &ApiServerWorld, replicas: i64) {
    world.server.store(|store| {
        assert_eq!(store.replicas(), replicas);
        assert!(store.pool()["metadata"]["annotations"][SCALE_DOWN_TARGETS].is_null(), "{}", store.pool());
        assert!(store.machines().iter().all(|machine| machine["metadata"]["deletionTimestamp"].is_null()));
    });
}

#[tokio::test]
async fn targets_are_deleted_and_replicas_is_decremented() {
    let world = ApiServerWorld::with_pool(1, 5);
    let process = world.process(1);
    let answer = remove(&world, &process, &["web-3", "web-1"]).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(answer.body["status"], "Success");
    assert_eq!(answer.body["details"]["name"], "web");
    assert_eq!(results_of(&answer), [("web-3".into(), "Removed".into()), ("web-1".into(), "Removed".into())]);
    world.server.store(|store| {
        assert_eq!(store.replicas(), 3);
        for name in ["web-1", "web-3"] {
            let machine = store.machine(name).unwrap();
            assert!(machine["metadata"]["deletionTimestamp"].is_string());
        }
    });
    world.settle().await;
    world.server.store(|store| {
        assert_eq!(store.names(), ["web-0", "web-2", "web-4"]);
        assert!(store.victims.is_empty() && store.created.is_empty());
        assert!(store.pool()["metadata"]["annotations"][SCALE_DOWN_TARGETS].is_null());
    });
    assert!(process.metrics.page().contains("vmpool_removal_targets_total 2"));
}

#[tokio::test]
async fn the_record_contains_the_caller() {
    let world = ApiServerWorld::with_pool(1, 5);
    let process = world.process(1);
    remove(&world, &process, &["web-3", "web-1"]).await;
    let entries = world.server.store(|store| {
        let text = store.pool()["metadata"]["annotations"][SCALE_DOWN_TARGETS].clone();
        RemovalRecord::parse(text.as_str().unwrap()).unwrap().entries().to_vec()
    });
    let callers: Vec<_> = entries.iter().map(|entry| (&*entry.target.name, entry.by.as_deref())).collect();
    assert_eq!(callers, [("web-3", Some("alice")), ("web-1", Some("alice"))]);
}

#[tokio::test]
async fn one_target_takes_at_most_eight_sequential_round_trips() {
    let world = ApiServerWorld::with_pool(1, 5);
    let process = world.process(1);
    let start = world.env.uptime();
    let answer = remove(&world, &process, &["web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED);
    let took = world.since(start).as_secs_f64() / ROUND_TRIP.as_secs_f64();
    let log = world.server.take_log();
    let calls: Vec<String> = log.iter().map(|call| format!("{:?} {}", call.verb, call.resource)).collect();
    assert_eq!(
        calls,
        [
            "Create subjectaccessreviews",
            "Get virtualmachinepools",
            "Get virtualmachines",
            "Patch(Merge) virtualmachinepools",
            "Get virtualmachines",
            "Patch(Merge) virtualmachinepools",
            "Delete virtualmachines",
        ]
    );
    // The first two reads are concurrent.
    assert!((6.0..=8.0).contains(&took), "{took} round trips");
}

#[tokio::test]
async fn a_repeated_name_counts_once() {
    let world = ApiServerWorld::with_pool(1, 3);
    let answer = remove(&world, &world.process(1), &["web-0", "web-0", "web-0"]).await;
    assert_eq!(answer.code, StatusCode::CREATED);
    assert_eq!(world.server.store(|store| store.replicas()), 2);
}

#[tokio::test]
async fn a_repeated_request_does_not_decrement_replicas_again() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    remove(&world, &process, &["web-0"]).await;
    let again = remove(&world, &process, &["web-0", "web-1"]).await;
    assert_eq!(
        results_of(&again),
        [("web-0".into(), "AlreadyRemoved".into()), ("web-1".into(), "Removed".into())]
    );
    let again = remove(&world, &process, &["web-0"]).await;
    assert_eq!(again.code, StatusCode::CREATED);
    assert_eq!(world.server.store(|store| store.replicas()), 1);
    assert!(process.metrics.page().contains("vmpool_removals_total{result=\"repeated\"} 1"));
}

#[tokio::test]
async fn a_deleted_target_counts_as_removed_while_the_record_contains_it() {
    let world = ApiServerWorld::new(1);
    world.server.store(|store| {
        store.vanishing = true;
        store.create_pool("web", 3);
    });
    let process = world.process(1);
    remove(&world, &process, &["web-0"]).await;
    assert!(world.server.store(|store| store.machine("web-0").is_none()));
    let again = remove(&world, &process, &["web-0"]).await;
    assert_eq!(results_of(&again), [("web-0".into(), "AlreadyRemoved".into())]);
    world.settle().await;
    let late = remove(&world, &process, &["web-0"]).await;
    assert_error(&late, 400, "BadRequest", "\"web-0\" not found in namespace \"team-a\"");
    assert_eq!(world.server.store(|store| store.replicas()), 2);
}

#[tokio::test]
async fn a_terminating_target_is_counted_once_and_not_replaced() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    world.server.store(|store| {
        store.delete_machine("web-0", None);
    });
    let answer = remove(&world, &process, &["web-0"]).await;
    assert_eq!(results_of(&answer), [("web-0".into(), "Removed".into())]);
    let deletes = world.server.take_log().into_iter().filter(|call| call.verb == Verb::Delete).count();
    assert_eq!(deletes, 0, "the target is already being deleted");
    world.settle().await;
    world.server.store(|store| {
        assert_eq!(store.replicas(), 2);
        assert_eq!(store.names(), ["web-1", "web-2"]);
    });
}

#[tokio::test]
async fn replicas_is_never_negative() {
    let world = ApiServerWorld::with_pool(1, 3);
    world.server.store(|store| {
        store.edit_pool(|pool| pool["spec"]["replicas"] = json!(1));
    });
    let answer = remove(&world, &world.process(1), &["web-0", "web-1", "web-2"]).await;
    assert_eq!(answer.code, StatusCode::CREATED);
    assert_eq!(world.server.store(|store| store.replicas()), 0);
}

#[tokio::test]
async fn one_invalid_target_fails_the_request_and_nothing_changes() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    let foreign = json!("uid-of-another-pool");
    world.server.store(|store| store.create_machine("guest", &foreign));
    world.server.store(|store| {
        store.create_machine("orphan", &foreign);
        store.edit_machine("orphan", |machine| machine["metadata"]["ownerReferences"] = json!([]));
    });
    let missing = remove(&world, &process, &["web-0", "absent"]).await;
    assert_error(&missing, 400, "BadRequest", "\"absent\" not found in namespace \"team-a\"");
    for name in ["guest", "orphan"] {
        let answer = remove(&world, &process, &["web-0", name]).await;
        assert_error(&answer, 400, "BadRequest", &format!("\"{name}\" does not belong to pool \"web\""));
    }
    assert_unchanged(&world, 3);
    assert!(world.server.take_log().iter().all(|call| !is_write(call)), "refused before the first write");
}

#[tokio::test]
async fn uids_are_preconditions_of_targets_and_pool() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    let uid = world.server.store(|store| store.machine("web-0").unwrap()["metadata"]["uid"].clone());
    let pool_uid = world.server.store(|store| store.pool()["metadata"]["uid"].clone());
    let post =
        async |body: serde_json::Value| world.through(process.post("", &body.to_string())).await.unwrap();
    let answer = post(json!({ "targets": ["web-0"], "targetUIDs": ["another"] })).await;
    assert_error(&answer, 409, "Conflict", "UID in precondition: another");
    let answer = post(json!({ "targets": ["web-0"], "preconditions": { "uid": "another" } })).await;
    assert_error(&answer, 409, "Conflict", "UID in precondition: another");
    assert_unchanged(&world, 3);
    let answer = post(json!({ "targets": ["web-0", "web-1"], "targetUIDs": [uid, ""], "preconditions": { "uid": pool_uid } })).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 1);
}

#[tokio::test]
async fn a_dry_run_checks_everything_and_changes_nothing() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    let post = async |query: &str, body: &str| world.through(process.post(query, body)).await.unwrap();
    for (query, body) in [
        ("?dryRun=All", r#"{"targets":["web-0"]}"#),
        ("", r#"{"targets":["web-0"],"dryRun":["All"]}"#),
        (
            "?dryRun=All&fieldManager=me&fieldValidation=Strict&pretty=true",
            r#"{"targets":["web-0"],"dryRun":["All"]}"#,
        ),
    ] {
        let answer = post(query, body).await;
        assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
        assert_eq!(results_of(&answer), [("web-0".into(), "WouldBeRemoved".into())]);
    }
    let answer = post("?dryRun=All", r#"{"targets":["absent"]}"#).await;
    assert_error(&answer, 400, "BadRequest", "absent");
    let answer = post("?dryRun=Some", r#"{"targets":["web-0"]}"#).await;
    assert_error(&answer, 400, "BadRequest", "the only value is \"All\"");
    assert_unchanged(&world, 3);
    assert!(world.server.take_log().iter().all(|call| !is_write(call)));
    assert!(process.metrics.page().contains("vmpool_removals_total{result=\"dry_run\"} 3"));
}

#[tokio::test]
async fn a_missing_or_terminating_pool_is_refused() {
    let world = ApiServerWorld::with_pool(1, 2);
    let process = world.process(1);
    world.server.store(|store| {
        store.edit_pool(|pool| pool["metadata"]["finalizers"] = json!(["example.com/hold"]));
        store.delete_pool();
    });
    let answer = remove(&world, &process, &["web-0"]).await;
    assert_error(&answer, 409, "Conflict", "being deleted");
    assert_unchanged(&world, 2);
    world.server.store(|store| store.edit_pool(|pool| pool["metadata"]["finalizers"] = json!([])));
    let answer = remove(&world, &process, &["web-0"]).await;
    assert_error(
        &answer,
        404,
        "NotFound",
        "virtualmachinepools.virtualization.deckhouse.io \"web\" not found",
    );
}

#[tokio::test]
async fn a_full_record_is_refused_with_a_retry_time() {
    let world = ApiServerWorld::with_pool(1, 2);
    let process = world.process(1);
    let entries: Vec<_> =
        (0..1000).map(|i| json!({ "name": format!("m{i}"), "uid": format!("u{i}") })).collect();
    world.server.store(|store| {
        store.edit_pool(|pool| {
            pool["metadata"]["annotations"] = json!({ SCALE_DOWN_TARGETS: json!(entries).to_string() });
        });
    });
    for query in ["", "?dryRun=All"] {
        let answer = world.through(process.post(query, r#"{"targets":["web-0"]}"#)).await.unwrap();
        assert_error(
            &answer,
            429,
            "TooManyRequests",
            "try again when the targets of earlier removals are deleted",
        );
        assert_eq!(answer.headers["retry-after"], "5");
        assert_eq!(answer.body["details"]["retryAfterSeconds"], 5);
    }
    assert_eq!(world.server.store(|store| store.replicas()), 2);
}

#[tokio::test]
async fn an_invalid_record_is_not_changed() {
    let world = ApiServerWorld::with_pool(1, 2);
    let process = world.process(1);
    world.server.store(|store| {
        store.edit_pool(|pool| {
            pool["metadata"]["annotations"] = json!({ SCALE_DOWN_TARGETS: "nonsense" });
        });
    });
    let answer = remove(&world, &process, &["web-0"]).await;
    assert_error(&answer, 500, "InternalError", "was changed by another client");
    assert!(world.server.take_log().iter().all(|call| !is_write(call)));
}

#[tokio::test]
async fn one_request_removes_a_thousand_machines() {
    let world = ApiServerWorld::with_pool(1, 1000);
    let process = world.process(1);
    let names: Vec<String> = (0..1000).map(|index| format!("web-{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let start = world.env.uptime();
    let answer = remove(&world, &process, &names).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(world.server.store(|store| store.replicas()), 0);
    let took = world.since(start);
    assert!(took < ROUND_TRIP * 200, "{took:?}");
    let writes = world.server.take_log().iter().filter(|call| call.verb == MERGE_PATCH).count();
    assert_eq!(writes, 2);
}

#[tokio::test]
async fn a_standby_machine_is_no_target() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    world.server.store(|store| {
        store.edit_machine("web-1", |machine| {
            machine["metadata"]["labels"]["vmpool.dev/standby"] = json!("stopped");
        });
    });
    let answer = remove(&world, &process, &["web-0", "web-1"]).await;
    assert_error(&answer, 409, "Conflict", "is a standby machine");
    let cause = &answer.body["details"]["causes"][0];
    assert_eq!((&cause["reason"], &cause["field"]), (&json!("MachineStandby"), &json!("targets[1]")));
    assert_unchanged(&world, 3);
}

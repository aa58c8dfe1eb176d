//! Claims and releases without faults.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_engine::protection::{BY, CLAIM, MAX_PROTECTION, REASON, RESTARTING, UNTIL};
use vmpool_engine::recycling::{CLAIMS, RECYCLE};

use super::{assert_refused, body, claim, claimed, machine, protect, release, running, send};
use crate::testing::{MERGE_PATCH, Verb, is_write};

#[tokio::test]
async fn a_claim_protects_the_oldest_machine_and_its_repetition_renews_it() {
    let world = running(1, 3);
    let process = world.process(1);
    let mut request = body("job-1");
    request["reason"] = json!("a build");
    let first = claim(&world, &process, request).await;
    assert_eq!(first.code.as_u16(), 201, "{}", first.body);
    assert_eq!((machine(&first), &first.body["id"]), ("web-0".to_owned(), &json!("job-1")));
    assert_eq!(first.body["machine"]["addresses"], json!(["10.0.0.0"]));
    assert_eq!(first.body["kind"], "VirtualMachinePoolClaim");
    let annotations = |world: &crate::testing::ApiServerWorld| {
        world.server.store(|store| store.machine("web-0").unwrap()["metadata"]["annotations"].clone())
    };
    let written = annotations(&world);
    assert_eq!((&written[BY], &written[REASON]), (&json!("alice"), &json!("a build")));
    assert_eq!(written[UNTIL], first.body["expiresAt"]);
    let pool_uid = world.server.store(|store| store.pool()["metadata"]["uid"].clone());
    let stored: Value = serde_json::from_str(written[CLAIM].as_str().unwrap()).unwrap();
    assert_eq!(stored, json!({ "id": "job-1", "user": "alice", "poolUID": pool_uid }));

    world.clock.advance(Duration::from_mins(1)).await;
    let second = claim(&world, &process, body("job-1")).await;
    assert_eq!((second.code.as_u16(), machine(&second)), (200, "web-0".to_owned()));
    assert!(second.body["expiresAt"].as_str() > first.body["expiresAt"].as_str());
    assert_eq!(annotations(&world)[REASON], "a build", "a renewal keeps the reason");
    assert_eq!(claimed(&world), ["web-0"]);
}

#[tokio::test]
async fn machines_that_are_in_use_are_not_claimed() {
    let world = running(1, 6);
    protect(&world, "web-0", 600);
    world.server.store(|store| {
        store.edit_machine("web-1", |machine| machine["status"]["phase"] = json!("Starting"));
        store.edit_machine("web-2", |machine| machine["metadata"]["annotations"][RESTARTING] = json!("r2"));
        store.delete_machine("web-3", None);
        store.edit_machine("web-4", |machine| machine["metadata"]["ownerReferences"] = json!([]));
    });
    let process = world.process(1);
    assert_eq!(machine(&claim(&world, &process, body("a")).await), "web-5");
    let none = claim(&world, &process, body("b")).await;
    assert_refused(&none, 409, "NoMachineAvailable");
    assert_eq!(none.body["details"]["retryAfterSeconds"], 5);
}

#[tokio::test]
async fn machines_on_the_current_revision_are_claimed_first() {
    let world = running(1, 3);
    world.server.store(|store| {
        store.edit_pool(|pool| {
            pool["status"] = json!({ "desiredTemplateHash": "new", "observedGeneration": 1 });
        });
        store.edit_machine("web-2", |machine| {
            let label = vmpool_api::labels::TEMPLATE_HASH;
            machine["metadata"]["labels"][label] = json!("new");
        });
    });
    let process = world.process(1);
    assert_eq!(machine(&claim(&world, &process, body("a")).await), "web-2");
    assert_eq!(machine(&claim(&world, &process, body("b")).await), "web-0");
}

#[tokio::test]
async fn concurrent_claims_share_one_list_and_get_different_machines() {
    let world = running(1, 50);
    let processes = [world.process(1), world.process(2)];
    let requests: Vec<Value> = (0..50).map(|number| body(&format!("job-{number}"))).collect();
    let calls = requests.iter().enumerate().map(|(number, body)| {
        let process = &processes[number % 2];
        async move {
            // A claim that found all machines of its list taken by the other process tries again.
            loop {
                let answer = send(process, "alice", "claim", body).await.unwrap();
                if answer.code.as_u16() != 409 {
                    return answer;
                }
            }
        }
    });
    let answers = world.through(join_all(calls)).await;
    let names: BTreeSet<String> = answers.iter().map(machine).collect();
    assert_eq!(names.len(), 50);
    let log = world.server.take_log();
    let lists = log.iter().filter(|call| call.verb == Verb::List).count();
    assert!(lists <= 20, "{lists} lists for 50 claims");
}

#[tokio::test]
async fn two_requests_with_one_id_get_one_machine() {
    let world = running(1, 3);
    let process = world.process(1);
    let request = body("job-1");
    let calls = (0..2).map(|_| send(&process, "alice", "claim", &request));
    let answers = world.through(join_all(calls)).await;
    let names: BTreeSet<String> = answers.iter().map(|answer| machine(answer.as_ref().unwrap())).collect();
    assert_eq!((names.len(), claimed(&world).len()), (1, 1));
}

#[tokio::test]
async fn the_id_of_another_user_is_refused_while_the_claim_holds() {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    let other = world.through(send(&process, "bob", "claim", &body("job-1"))).await.unwrap();
    assert_refused(&other, 409, "ClaimHeld");
    world.clock.advance(Duration::from_secs(631)).await;
    let other = world.through(send(&process, "bob", "claim", &body("job-1"))).await.unwrap();
    assert_eq!(machine(&other), "web-0");
}

#[tokio::test]
async fn a_renewal_never_takes_another_machine() {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    let mut renewal = body("job-1");
    renewal["renew"] = json!(true);
    assert_eq!(claim(&world, &process, renewal.clone()).await.code.as_u16(), 200);
    world.server.store(|store| store.delete_machine("web-0", None));
    assert_refused(&claim(&world, &process, renewal).await, 404, "ClaimLost");
    assert_eq!(machine(&claim(&world, &process, body("job-1")).await), "web-1");
}

/// A client can have stopped the machine since then, or have begun to use it without a claim.
#[tokio::test]
async fn an_expired_claim_of_a_machine_that_is_not_free_is_not_renewed() {
    let world = running(1, 3);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    world.clock.advance(Duration::from_secs(631)).await;
    world.server.store(|store| {
        store.edit_machine("web-0", |machine| machine["status"]["phase"] = json!("Stopped"));
    });
    let mut renewal = body("job-1");
    renewal["renew"] = json!(true);
    assert_refused(&claim(&world, &process, renewal).await, 404, "ClaimLost");
    assert_eq!(machine(&claim(&world, &process, body("job-1")).await), "web-1");
}

#[tokio::test]
async fn an_expired_claim_is_taken_by_another_caller() {
    let world = running(1, 1);
    let process = world.process(1);
    claim(&world, &process, body("job-1")).await;
    assert_refused(&claim(&world, &process, body("job-2")).await, 409, "NoMachineAvailable");
    world.clock.advance(Duration::from_secs(631)).await;
    assert_eq!(machine(&claim(&world, &process, body("job-2")).await), "web-0");
    let mut renewal = body("job-1");
    renewal["renew"] = json!(true);
    assert_refused(&claim(&world, &process, renewal).await, 404, "ClaimLost");
}

#[tokio::test]
async fn a_claim_waits_for_a_machine_that_becomes_free() {
    let world = running(1, 1);
    protect(&world, "web-0", 1);
    let process = world.process(1);
    let mut request = body("job-1");
    request["waitSeconds"] = json!(25);
    world.clock.advance(Duration::from_secs(20)).await;
    assert_eq!(machine(&claim(&world, &process, request.clone()).await), "web-0");
    request["id"] = json!("job-2");
    request["waitSeconds"] = json!(2);
    let start = world.env.uptime();
    assert_refused(&claim(&world, &process, request).await, 409, "NoMachineAvailable");
    let took = world.since(start);
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_claim_can_name_its_machine() {
    let world = running(1, 3);
    let process = world.process(1);
    let mut request = body("job-1");
    request["machine"] = json!("web-2");
    assert_eq!(machine(&claim(&world, &process, request.clone()).await), "web-2");
    request["id"] = json!("job-2");
    assert_refused(&claim(&world, &process, request).await, 409, "NoMachineAvailable");
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let world = running(1, 2);
    let process = world.process(1);
    let mut request = body("job-1");
    request["dryRun"] = json!(["All"]);
    assert_eq!(machine(&claim(&world, &process, request).await), "web-0");
    assert_eq!(world.server.take_log().iter().filter(|call| is_write(call)).count(), 0);
}

#[tokio::test]
async fn the_pool_limits_the_duration() {
    let world = running(1, 1);
    world.server.store(|store| {
        store.edit_pool(|pool| pool["metadata"]["annotations"][MAX_PROTECTION] = json!("5m"));
    });
    let answer = claim(&world, &world.process(1), body("job-1")).await;
    assert_refused(&answer, 400, "BadRequest");
    assert!(answer.body["message"].as_str().unwrap().contains("at most 300"), "{}", answer.body);
}

#[rstest]
#[case::no_id(json!({ "durationSeconds": 1 }), "id is missing")]
#[case::a_wrong_id(json!({ "id": "a b", "durationSeconds": 1 }), "1 to 128")]
#[case::no_duration(json!({ "id": "a" }), "durationSeconds is missing")]
#[case::a_long_wait(json!({ "id": "a", "durationSeconds": 1, "waitSeconds": 26 }), "0 to 25")]
#[case::a_long_reason(json!({ "id": "a", "durationSeconds": 1, "reason": "x".repeat(257) }), "more than 256")]
#[case::a_wrong_machine(json!({ "id": "a", "durationSeconds": 1, "machine": "/" }), "not a valid name")]
#[case::an_unknown_field(json!({ "id": "a", "durationSeconds": 1, "wait": 1 }), "unknown field")]
#[case::no_object(json!(["a", 1]), "not a JSON object")]
#[tokio::test]
async fn an_invalid_body_is_refused(#[case] request: Value, #[case] text: &str) {
    let world = running(1, 1);
    let answer = claim(&world, &world.process(1), request).await;
    assert_refused(&answer, 400, "BadRequest");
    assert!(answer.body["message"].as_str().unwrap().contains(text), "{}", answer.body);
}

fn then(answer: &crate::testing::TestResponse, then: &str) -> Value {
    json!({ "id": answer.body["id"], "machineUID": answer.body["machine"]["uid"], "then": then })
}

#[tokio::test]
async fn a_kept_machine_can_be_claimed_again() {
    let world = running(1, 1);
    let process = world.process(1);
    let first = claim(&world, &process, body("job-1")).await;
    let released = release(&world, &process, then(&first, "Keep")).await;
    assert_eq!(released.code.as_u16(), 200, "{}", released.body);
    assert_eq!((&released.body["replicas"], &released.body["then"]), (&json!(1), &json!("Keep")));
    world.server.store(|store| {
        let annotations = store.machine("web-0").unwrap()["metadata"]["annotations"].clone();
        for key in [UNTIL, BY, REASON, CLAIM] {
            assert!(annotations[key].is_null(), "{annotations}");
        }
    });
    assert_refused(&release(&world, &process, then(&first, "Keep")).await, 404, "ClaimNotFound");
    assert_eq!(machine(&claim(&world, &process, body("job-2")).await), "web-0");
}

#[tokio::test]
async fn a_replaced_machine_is_deleted_and_replicas_stays() {
    let world = running(1, 2);
    let process = world.process(1);
    let first = claim(&world, &process, body("job-1")).await;
    let released = release(&world, &process, then(&first, "Replace")).await;
    assert_eq!(released.body["replicas"], 2, "{}", released.body);
    let log = world.server.take_log();
    let deletes: Vec<_> = log.iter().filter(|call| call.verb == Verb::Delete).collect();
    assert_eq!(deletes.len(), 1);
    assert!(deletes[0].body["preconditions"]["resourceVersion"].is_string(), "{}", deletes[0].body);
    assert_eq!(deletes[0].body["propagationPolicy"], "Background");
    assert!(!log.iter().any(|call| call.verb == MERGE_PATCH && call.resource == "virtualmachinepools"));
    assert_refused(&release(&world, &process, then(&first, "Replace")).await, 404, "ClaimNotFound");
}

#[tokio::test]
async fn a_removed_machine_is_removed_from_the_pool() {
    let world = running(1, 2);
    let process = world.process(1);
    let first = claim(&world, &process, body("job-1")).await;
    let released = release(&world, &process, then(&first, "Remove")).await;
    assert_eq!((released.code.as_u16(), &released.body["replicas"]), (200, &json!(1)), "{}", released.body);
    world.settle().await;
    world.server.store(|store| assert_eq!((store.replicas(), store.names()), (1, vec!["web-1".to_owned()])));
}

#[tokio::test]
async fn a_claim_is_released_by_its_user_only() {
    let world = running(1, 1);
    let process = world.process(1);
    let first = claim(&world, &process, body("job-1")).await;
    let other = world.through(send(&process, "bob", "release", &then(&first, "Keep"))).await.unwrap();
    assert_refused(&other, 403, "Forbidden");
    let mut dry = then(&first, "Replace");
    dry["dryRun"] = json!(["All"]);
    assert_eq!(release(&world, &process, dry).await.code.as_u16(), 200);
    assert_eq!(claimed(&world), ["web-0"]);
}

#[tokio::test]
async fn a_standby_machine_is_not_claimed() {
    let world = running(1, 2);
    world.server.store(|store| {
        store.edit_machine("web-0", |machine| {
            machine["metadata"]["labels"] = json!({ "vmpool.dev/standby": "warming" });
        });
    });
    let process = world.process(1);
    assert_eq!(machine(&claim(&world, &process, body("a")).await), "web-1");
    assert_refused(&claim(&world, &process, body("b")).await, 409, "NoMachineAvailable");
    let mut named = body("c");
    named["machine"] = json!("web-0");
    let answer = claim(&world, &process, named).await;
    assert_refused(&answer, 409, "Conflict");
    let cause = &answer.body["details"]["causes"][0];
    assert_eq!((&cause["reason"], &cause["field"]), (&json!("MachineStandby"), &json!("machine")));
}

#[tokio::test]
async fn claims_are_counted_without_renewals_and_repetitions_and_the_last_one_is_honored() {
    let world = running(1, 2);
    world.server.store(|store| {
        store.edit_pool(|pool| {
            pool["metadata"]["annotations"][RECYCLE] = json!(r#"{"maxClaims": 2}"#);
        });
        store.edit_machine("web-1", |machine| machine["status"]["phase"] = json!("Starting"));
    });
    let process = world.process(1);
    let count = || {
        world.server.store(|store| store.machine("web-0").unwrap()["metadata"]["annotations"][CLAIMS].clone())
    };
    for (number, id) in ["a", "b"].into_iter().enumerate() {
        let first = claim(&world, &process, body(id)).await;
        assert_eq!(machine(&first), "web-0");
        assert_eq!(claim(&world, &process, body(id)).await.code.as_u16(), 200, "a repetition");
        let mut renewal = body(id);
        renewal["renew"] = json!(true);
        assert_eq!(claim(&world, &process, renewal).await.code.as_u16(), 200);
        assert_eq!(count(), json!((number + 1).to_string()));
        let kept = release(&world, &process, then(&first, "Keep")).await;
        assert_eq!(kept.code.as_u16(), 200, "{}", kept.body);
        assert_eq!(count(), json!((number + 1).to_string()), "a released claim was used");
    }
    let third = claim(&world, &process, body("c")).await;
    assert_refused(&third, 409, "NoMachineAvailable");
}

#[tokio::test]
async fn a_draining_machine_is_not_claimed() {
    let world = running(1, 2);
    let mark =
        r#"{"id":"d","reason":"Rollout","since":"2026-01-01T00:00:00Z","deadline":"2026-01-01T00:10:00Z"}"#;
    world.server.store(|store| {
        store.edit_machine("web-0", |machine| {
            machine["metadata"]["annotations"][vmpool_engine::draining::MARK] = json!(mark);
        });
    });
    let process = world.process(1);
    assert_eq!(machine(&claim(&world, &process, body("a")).await), "web-1");
    assert_refused(&claim(&world, &process, body("b")).await, 409, "NoMachineAvailable");
}

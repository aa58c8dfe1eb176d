//! Claims and protection against targeted removals.

use serde_json::json;
use vmpool_api::annotations::SCALE_DOWN_TARGETS;
use vmpool_engine::ObjectId;
use vmpool_engine::recycling::CLAIMS;
use vmpool_engine::scale_down::removal::RemovalRecord;

use super::{assert_refused, body, claim, claimed, machine, protect, running};
use crate::testing::{MERGE_PATCH, RequestFault, Verb};

#[tokio::test]
async fn a_removal_of_a_protected_machine_is_refused_completely() {
    let world = running(1, 4);
    protect(&world, "web-1", 600);
    protect(&world, "web-2", 600);
    let answer = world.through(world.process(1).remove(&["web-0", "web-2", "web-1"])).await.unwrap();
    assert_refused(&answer, 409, "Conflict");
    let causes = answer.body["details"]["causes"].as_array().unwrap().clone();
    let fields: Vec<_> =
        causes.iter().map(|cause| (cause["field"].clone(), cause["reason"].clone())).collect();
    let protected = json!("MachineProtected");
    assert_eq!(fields, [(json!("targets[1]"), protected.clone()), (json!("targets[2]"), protected)]);
    assert!(
        causes[0]["message"].as_str().unwrap().contains("web-2\" is protected until 20"),
        "{}",
        causes[0]
    );
    world.server.store(|store| {
        assert_eq!(store.replicas(), 4);
        assert!(store.pool()["metadata"]["annotations"][SCALE_DOWN_TARGETS].is_null());
    });
}

#[tokio::test]
async fn a_machine_that_is_protected_after_its_reservation_is_not_removed() {
    let world = running(1, 3);
    let until =
        vmpool_engine::protection::timestamp_text(world.env.now() + std::time::Duration::from_mins(10));
    let mut once = true;
    world.server.intercept(move |call, store| {
        // The reservation is the first write of the pool.
        if call.is(MERGE_PATCH, "virtualmachinepools") && std::mem::take(&mut once) {
            store.edit_machine("web-1", |machine| {
                machine["metadata"]["annotations"][super::UNTIL] = json!(until);
            });
        }
        RequestFault::None
    });
    let answer = world.through(world.process(1).remove(&["web-1"])).await.unwrap();
    assert_refused(&answer, 409, "Conflict");
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "MachineProtected");
    world.server.clear_faults();
    world.settle().await;
    world.server.store(|store| assert_eq!((store.replicas(), store.names().len()), (3, 3)));
}

#[tokio::test]
async fn a_forced_removal_needs_its_verb_and_leaves_an_event() {
    let world = running(1, 3);
    protect(&world, "web-1", 600);
    let process = world.process(1);
    let request = r#"{"targets":["web-1"],"force":true}"#;
    let answer = world.through(process.post("", request)).await.unwrap();
    assert_eq!(answer.code.as_u16(), 201, "{}", answer.body);
    let log = world.server.take_log();
    let verbs: Vec<_> = log
        .iter()
        .filter(|call| call.resource == "subjectaccessreviews")
        .map(|call| call.body["spec"]["resourceAttributes"]["verb"].clone())
        .collect();
    assert_eq!(verbs, [json!("create"), json!("force")]);
    let event = log.iter().find(|call| call.is(Verb::Create, "events")).expect("an event");
    assert_eq!(event.body["reason"], "ProtectionOverridden");
    assert_eq!(event.body["source"]["component"], "vmpool.dev/apiserver");
    assert_eq!(event.body["message"], "\"alice\" removed web-1 with force, regardless of protection");
    world.settle().await;
    world.server.store(|store| assert_eq!((store.replicas(), store.names().len()), (2, 2)));
}

#[tokio::test]
async fn reserved_and_accepted_targets_are_not_claimed() {
    let world = running(1, 3);
    world.server.store(|store| {
        let target = |name: &str| {
            let uid = store.machine(name).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
            ObjectId::new(name, &uid)
        };
        let mut record = RemovalRecord::default();
        record.reserve("reserved", &[target("web-0")]).unwrap();
        record.reserve("accepted", &[target("web-1")]).unwrap();
        record.accept("accepted");
        store.edit_pool(|pool| {
            pool["metadata"]["annotations"][SCALE_DOWN_TARGETS] = json!(record.to_string());
        });
    });
    assert_eq!(machine(&claim(&world, &world.process(1), body("a")).await), "web-2");
}

#[tokio::test]
async fn a_claimed_machine_that_is_found_in_the_record_is_given_back() {
    let world = running(1, 2);
    let mut once = true;
    world.server.intercept(move |call, store| {
        // Another process reserves the machine before the claim is written.
        if call.is(MERGE_PATCH, "virtualmachines") && std::mem::take(&mut once) {
            let uid = store.machine("web-0").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
            let mut record = RemovalRecord::default();
            record.reserve("other", &[ObjectId::new("web-0", &uid)]).unwrap();
            store.edit_pool(|pool| {
                pool["metadata"]["annotations"][SCALE_DOWN_TARGETS] = json!(record.to_string());
            });
        }
        RequestFault::None
    });
    assert_eq!(machine(&claim(&world, &world.process(1), body("a")).await), "web-1");
    assert_eq!(claimed(&world), ["web-1"]);
    let counts = world.server.store(|store| {
        ["web-0", "web-1"].map(|name| store.machine(name).unwrap()["metadata"]["annotations"][CLAIMS].clone())
    });
    assert_eq!(counts, [json!(null), json!("1")], "a claim that is given back does not count");
}

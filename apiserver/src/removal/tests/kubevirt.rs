//! Removals from KubeVirt pools, which have a group of their own.

use http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};
use vmpool_api::annotations;
use vmpool_api::kubevirt::annotations::{REMOVED_MACHINES, SCALE_IN_TARGETS};

use crate::testing::{
    ApiServerProcess, ApiServerWorld, NAMESPACE, TestResponse, request_as_alice, results_of,
};

const POOLS: &str = "virtualmachinepools.pool.kubevirt.io";
const MACHINES: &str = "virtualmachines.kubevirt.io";
const GROUP: &str = "kubevirt.subresources.vmpool.dev/v1alpha1";

/// A world with a DVP pool `web` of three machines, and a KubeVirt pool of the same name with machines of the
/// same names.
fn both(replicas: &Value) -> ApiServerWorld {
    let world = ApiServerWorld::with_pool(1, 3);
    world.server.store(|store| {
        let metadata = json!({ "name": "web", "namespace": NAMESPACE });
        let pool = json!({ "metadata": metadata, "spec": { "replicas": replicas } });
        let pool = store.model().create_now(POOLS, pool).unwrap();
        for index in 0..3 {
            let owner = json!({ "apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
                "name": "web", "uid": pool["metadata"]["uid"],
                "controller": true });
            let metadata = json!({ "name": format!("web-{index}"), "namespace": NAMESPACE,
                "ownerReferences": [owner], "finalizers": ["pool.kubevirt.io/finalizer"] });
            store.model().create_now(MACHINES, json!({ "metadata": metadata })).unwrap();
        }
    });
    world
}

async fn remove(world: &ApiServerWorld, process: &ApiServerProcess, body: &str) -> TestResponse {
    let path = format!("/apis/{GROUP}/namespaces/{NAMESPACE}/virtualmachinepools/web/scaledownwith");
    world.through(process.call(request_as_alice("POST", &path, body))).await.unwrap()
}

#[tokio::test]
async fn a_removal_concerns_only_the_kubevirt_pool_of_the_name() {
    let world = both(&json!(3));
    let answer = remove(&world, &world.process(1), r#"{"targets":["web-1"]}"#).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(results_of(&answer), [("web-1".into(), "Removed".into())]);
    assert_eq!(answer.body["details"]["group"], "pool.kubevirt.io");
    world.server.store(|store| {
        let pool = store.model().get(POOLS, NAMESPACE, "web").unwrap();
        assert_eq!(pool["spec"]["replicas"], 2);
        assert!(pool["metadata"]["annotations"][SCALE_IN_TARGETS].is_string(), "{pool}");
        assert!(pool["metadata"]["annotations"][annotations::SCALE_DOWN_TARGETS].is_null(), "{pool}");
        let machine = store.model().get(MACHINES, NAMESPACE, "web-1").unwrap();
        assert!(machine["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(store.replicas(), 3);
        assert!(store.pool()["metadata"]["annotations"].is_null(), "{}", store.pool());
        assert!(store.machine("web-1").unwrap()["metadata"]["deletionTimestamp"].is_null());
    });
}

/// Deletes the machine `web-1`, and creates another machine of its name. Returns the UIDs of both.
fn replace_web_1(world: &ApiServerWorld) -> [String; 2] {
    world.server.store(|store| {
        let model = store.model();
        let old = model.get(MACHINES, NAMESPACE, "web-1").unwrap();
        let release = |machine: &mut Value| machine["metadata"]["finalizers"] = json!([]);
        model.edit_now(MACHINES, NAMESPACE, "web-1", release).unwrap();
        let metadata = json!({ "name": "web-1", "namespace": NAMESPACE,
            "ownerReferences": old["metadata"]["ownerReferences"], "finalizers": ["pool.kubevirt.io/finalizer"] });
        let new = model.create_now(MACHINES, json!({ "metadata": metadata })).unwrap();
        [&*old, &new].map(|machine| machine["metadata"]["uid"].as_str().unwrap().to_owned())
    })
}

/// The controller removes the entries of the record.
fn prune_record(world: &ApiServerWorld, removed: &str) {
    world.server.store(|store| {
        let list = json!([{ "name": "web-1", "uid": removed }]).to_string();
        let change = |pool: &mut Value| {
            pool["metadata"]["annotations"] = json!({ REMOVED_MACHINES: list });
            pool["spec"]["replicas"] = json!(3);
        };
        store.model().edit_now(POOLS, NAMESPACE, "web", change).unwrap();
    });
}

/// Ordinals return. A repeated request must not remove the next machine with the name.
#[rstest]
#[case::the_record_contains_the_target(false)]
#[case::the_entry_has_left_the_record(true)]
#[tokio::test]
async fn a_repeated_request_removes_no_other_machine_whose(#[case] is_pruned: bool) {
    let world = both(&json!(3));
    let process = world.process(1);
    let by_name = r#"{"targets":["web-1"]}"#;
    assert_eq!(remove(&world, &process, by_name).await.code, StatusCode::CREATED);
    let [old, new] = replace_web_1(&world);
    if is_pruned {
        prune_record(&world, &old);
    }
    let replicas = || {
        world.server.store(|store| store.model().get(POOLS, NAMESPACE, "web").unwrap())["spec"]["replicas"]
            .clone()
    };
    let before = replicas();

    let repeated = remove(&world, &process, by_name).await;
    assert_eq!(repeated.code, StatusCode::CONFLICT, "{}", repeated.body);
    let message = repeated.body["message"].as_str().unwrap();
    assert!(message.contains(&old) && message.contains(&new), "{message}");
    let dry_run = remove(&world, &process, r#"{"targets":["web-1"],"dryRun":["All"]}"#).await;
    assert_eq!(dry_run.body["message"], repeated.body["message"]);

    let with_uid = |uid: &str| json!({ "targets": ["web-1"], "targetUIDs": [uid] }).to_string();
    let repeated = remove(&world, &process, &with_uid(&old)).await;
    assert_eq!(results_of(&repeated), [("web-1".into(), "AlreadyRemoved".into())], "{}", repeated.body);
    assert_eq!(replicas(), before);
    let machine = world.server.store(|store| store.model().get(MACHINES, NAMESPACE, "web-1").unwrap());
    assert!(machine["metadata"]["deletionTimestamp"].is_null(), "{machine}");

    let removed = remove(&world, &process, &with_uid(&new)).await;
    assert_eq!(results_of(&removed), [("web-1".into(), "Removed".into())], "{}", removed.body);
    let again = remove(&world, &process, &with_uid(&new)).await;
    assert_eq!(results_of(&again), [("web-1".into(), "AlreadyRemoved".into())], "{}", again.body);
}

#[tokio::test]
async fn a_repeated_request_finds_a_target_that_has_left_the_record() {
    let world = both(&json!(3));
    let process = world.process(1);
    remove(&world, &process, r#"{"targets":["web-1"]}"#).await;
    let uid = world.server.store(|store| {
        let machine = store.model().get(MACHINES, NAMESPACE, "web-1").unwrap();
        let release = |machine: &mut Value| machine["metadata"]["finalizers"] = json!([]);
        store.model().edit_now(MACHINES, NAMESPACE, "web-1", release).unwrap();
        machine["metadata"]["uid"].as_str().unwrap().to_owned()
    });
    prune_record(&world, &uid);
    let repeated = remove(&world, &process, r#"{"targets":["web-1"]}"#).await;
    assert_eq!(results_of(&repeated), [("web-1".into(), "AlreadyRemoved".into())], "{}", repeated.body);
}

/// Without `replicas`, a KubeVirt pool has one machine.
#[tokio::test]
async fn a_missing_count_is_one() {
    let world = both(&Value::Null);
    let answer = remove(&world, &world.process(1), r#"{"targets":["web-0"]}"#).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    let pool = world.server.store(|store| store.model().get(POOLS, NAMESPACE, "web").unwrap());
    assert_eq!(pool["spec"]["replicas"], 0);
}

#[tokio::test]
async fn a_body_of_the_other_group_is_refused() {
    let world = both(&json!(3));
    let body = r#"{"apiVersion":"subresources.vmpool.dev/v1alpha1","targets":["web-1"]}"#;
    let answer = remove(&world, &world.process(1), body).await;
    assert_eq!(answer.code, StatusCode::BAD_REQUEST, "{}", answer.body);
    assert!(answer.body["message"].as_str().unwrap().contains(GROUP), "{}", answer.body);
}

/// An installation of KubeVirt with or without the flag that switches off its pool loop.
fn installation(flags: &Value) -> Value {
    json!({ "metadata": { "name": "kubevirt", "namespace": "kubevirt" },
        "spec": { "customizeComponents": { "flags": { "controller": flags } } },
        "status": { "phase": "Deployed", "observedGeneration": 1 } })
}

#[rstest]
#[case::the_pool_loop_may_run(&json!({}), StatusCode::SERVICE_UNAVAILABLE)]
#[case::the_pool_loop_is_off(&json!({ "pool-controller-threads": "0" }), StatusCode::CREATED)]
#[tokio::test]
async fn a_machine_is_removed_and_claimed_only_if(#[case] flags: &Value, #[case] expected: StatusCode) {
    let world = both(&json!(3));
    world.server.store(|store| {
        store.model().create_now("kubevirts.kubevirt.io", installation(flags)).unwrap();
    });
    let process = world.process(1);
    let answer = remove(&world, &process, r#"{"targets":["web-1"]}"#).await;
    assert_eq!(answer.code, expected, "{}", answer.body);
    let path = format!("/apis/{GROUP}/namespaces/{NAMESPACE}/virtualmachinepools/web");
    let body = r#"{"id":"job-1","ttlSeconds":60}"#;
    let claim =
        world.through(process.call(request_as_alice("POST", &format!("{path}/claim"), body))).await.unwrap();
    if expected == StatusCode::CREATED {
        assert_ne!(claim.code, StatusCode::SERVICE_UNAVAILABLE, "{}", claim.body);
        return;
    }
    for refused in [answer, claim] {
        assert_eq!(refused.code, expected, "{}", refused.body);
        assert!(
            refused.body["message"].as_str().unwrap().contains("pool-controller-threads"),
            "{}",
            refused.body
        );
    }
    world.server.store(|store| {
        let pool = store.model().get(POOLS, NAMESPACE, "web").unwrap();
        assert_eq!(pool["spec"]["replicas"], 3);
        let machine = store.model().get(MACHINES, NAMESPACE, "web-1").unwrap();
        assert!(machine["metadata"]["deletionTimestamp"].is_null());
    });
}

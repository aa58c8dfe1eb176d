//! Malicious reviews: by a user with permission to edit pools, or by a Pod that is not the API server.

use serde_json::json;

use super::*;

/// The number of small objects in a review of 1.5 MB.
const MANY: usize = 190_000;

fn small_objects(count: usize) -> Value {
    (0..count).map(|_| json!({ "a": 0 })).collect()
}

fn tolerant(count: usize) -> Value {
    let toleration = json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule" });
    with(pool(), "/spec/virtualMachineTemplate/spec/tolerations", vec![toleration; count].into())
}

#[tokio::test]
async fn a_review_of_many_small_objects_is_refused_as_too_large() {
    let world = World::with_objects();
    let response = world.create(&json!({ "spec": small_objects(MANY) })).await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"]["code"], 413, "{response}");
    assert_eq!(response["status"]["reason"], "RequestEntityTooLarge");
    assert_eq!(world.server.requests(), [""; 0]);
}

#[tokio::test]
async fn a_pool_that_is_too_large_can_only_be_made_smaller() {
    let world = World::with_objects();
    let large = tolerant(30_000);
    let response = world.update(&large, &with(large.clone(), "/spec/replicas", json!(4))).await;
    assert_eq!(response["status"]["code"], 413, "{response}");
    assert_eq!(world.create(&large).await["status"]["code"], 413);
    assert_eq!(world.update(&large, &pool()).await["allowed"], true);
    // The other fields of the old pool are still compared.
    let explicit = |pool| with(pool, "/spec/scaleDownPolicy", json!("Explicit"));
    let fewer = with(explicit(pool()), "/spec/replicas", json!(1));
    assert_eq!(world.update(&explicit(large), &fewer).await["auditAnnotations"]["rule"], "W12");
    // Ten times the practical number is accepted.
    let response = world.create(&tolerant(200)).await;
    assert_eq!(response["allowed"], true, "{response}");
}

#[tokio::test]
async fn a_pool_that_is_nested_too_deeply_can_only_be_made_flatter() {
    let world = World::with_objects();
    let nested = (0..150).fold(json!(0), |inner, _| json!([inner]));
    let deep = with(pool(), "/spec/virtualMachineTemplate/spec/provisioning", nested);
    let response = world.create(&deep).await;
    assert_eq!(response["status"]["code"], 413, "{response}");
    assert_eq!(
        world.update(&deep, &with(deep.clone(), "/spec/replicas", json!(4))).await["status"]["code"],
        413
    );
    assert_eq!(world.update(&deep, &pool()).await["allowed"], true);
}

#[tokio::test]
async fn the_number_of_reads_for_a_review_is_limited() {
    let world = World::with_objects();
    let names: Vec<String> = (0..500).map(|index| format!("disk-{index}")).collect();
    let devices: Vec<Value> =
        names.iter().map(|name| json!({ "kind": "VirtualDisk", "name": name })).collect();
    let disk = |name: &String| {
        let source =
            json!({ "type": "ObjectRef", "objectRef": { "kind": "ClusterVirtualImage", "name": name } });
        json!({ "name": name, "spec": { "dataSource": source } })
    };
    let pool = with(pool(), "/spec/virtualMachineTemplate/spec/blockDeviceRefs", devices.into());
    let pool = with(pool, "/spec/virtualDiskTemplates", names.iter().map(disk).collect());
    world.create(&pool).await;
    let reads = world.server.requests().len();
    assert!(reads <= 50, "{reads} reads");
}

#[tokio::test]
async fn strings_of_a_request_have_a_maximum_length() {
    let long = "x".repeat(200_000);
    for field in ["uid", "namespace", "name", "operation", "subResource"] {
        let mut review = review("CREATE", "", &Value::Null, &pool());
        review["request"][field] = json!(long);
        let (status, answer) = World::new().post(POOL_PATH, review.to_string()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{field}");
        assert!(answer.len() < 200, "{field}");
    }
}

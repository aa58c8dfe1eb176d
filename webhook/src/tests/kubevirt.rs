//! Reviews of KubeVirt pools: all broken rules in one response, and no scale guard.

use rstest::rstest;
use serde_json::json;
use vmpool_platforms::kubevirt::admission;

use super::*;

const POOLS: &str = "/apis/pool.kubevirt.io/v1beta1/namespaces/team-a/virtualmachinepools";

fn kubevirt_pool() -> Value {
    let pool = include_str!("../../../controller/kubevirt/src/fixtures/pool.json");
    let mut pool: Value = serde_json::from_str(pool).unwrap();
    pool["metadata"]["namespace"] = "team-a".into();
    pool
}

async fn create(world: &World, pool: &Value) -> Value {
    world.review(admission::POOL_PATH, &review("CREATE", "", &Value::Null, pool)).await
}

#[tokio::test]
async fn all_causes_are_in_the_response() {
    let world = World::new();
    let mut pool = kubevirt_pool();
    pool["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = Value::Null;
    pool["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0]["metadata"] = json!({});
    pool["spec"]["maxUnavailable"] = json!("0%");
    let response = create(&world, &pool).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(status["details"]["group"], "pool.kubevirt.io");
    let causes = status["details"]["causes"].as_array().unwrap();
    let causes: Vec<(&str, &str)> = causes
        .iter()
        .map(|cause| (cause["reason"].as_str().unwrap(), cause["field"].as_str().unwrap()))
        .collect();
    assert_eq!(
        causes,
        [
            ("FieldValueRequired", "spec.virtualMachineTemplate.spec.dataVolumeTemplate[0]"),
            ("FieldValueInvalid", "spec.virtualMachineTemplate.spec.running"),
            ("FieldValueInvalid", "spec.maxUnavailable"),
        ]
    );
    let message = status["message"].as_str().unwrap();
    for text in ["RunStrategy must be specified", "must be between 1 and 100"] {
        assert!(message.contains(text), "{message}");
    }
    assert!(message.starts_with("a DataVolume template needs a name; "), "{message}");
    let second = status["details"]["causes"][1]["message"].as_str().unwrap();
    assert!(second.starts_with("RunStrategy must be specified; "), "{second}");
    assert_eq!(response["auditAnnotations"]["rule"], "K8,K10,K17");
    assert_eq!(world.server.requests(), [""; 0], "a rejected request needs no reads");
}

#[tokio::test]
async fn other_pools_and_a_machine_are_requested_for_the_api_server_only() {
    let mut other = kubevirt_pool();
    other["metadata"] = json!({ "name": "cutting", "uid": "v" });
    for (mut world, expected) in [(World::new(), 10), (World::accepting(Callers::Any), 0)] {
        if expected == 0 {
            world.certificate = None;
        }
        let list = json!({ "items": [other.clone()] });
        world.server.0.lock().objects.insert(POOLS.to_owned(), (StatusCode::OK, list));
        let response = create(&world, &kubevirt_pool()).await;
        assert_eq!(response["allowed"], true, "{response}");
        let warnings = response["warnings"].as_array().map_or(0, Vec::len);
        // The list, the dry run of a machine, and the DataVolumes and claims of four machines.
        let warned = if expected == 0 { 0 } else { 2 };
        assert_eq!((warnings, world.server.requests().len()), (warned, expected), "{response}");
    }
}

#[tokio::test]
async fn a_part_of_another_type_is_a_bad_request() {
    let mut pool = kubevirt_pool();
    pool["spec"]["autohealing"] = json!({ "minFailingToStartDuration": "soon" });
    let response = create(&World::new(), &pool).await;
    assert_eq!(response["status"]["code"], 400, "{response}");
    assert!(response["status"]["message"].as_str().unwrap().contains("minFailingToStartDuration"));
}

#[tokio::test]
async fn the_scale_subresource_has_no_webhook() {
    let path = format!("{}-scale", admission::POOL_PATH);
    let (status, _) = World::new().post(&path, "{}").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[rstest]
#[case::absent("CREATE", None, Some(1))]
#[case::removed("UPDATE", None, Some(1))]
#[case::present("CREATE", Some(0), Some(0))]
#[case::deleted("DELETE", None, None)]
#[tokio::test]
async fn a_pool_without_replicas_has_one_machine(
    #[case] operation: &str,
    #[case] replicas: Option<i64>,
    #[case] wanted: Option<i64>,
) {
    let mut pool = kubevirt_pool();
    pool["spec"].as_object_mut().unwrap().remove("replicas");
    if let Some(replicas) = replicas {
        pool["spec"]["replicas"] = json!(replicas);
    }
    let old = if operation == "CREATE" { Value::Null } else { pool.clone() };
    let response = World::new().review(admission::DEFAULTS_PATH, &review(operation, "", &old, &pool)).await;
    assert_eq!(response["allowed"], true, "{response}");
    if response.get("patch").is_some() {
        let patch: json_patch::Patch = serde_json::from_value(patch(&response)).unwrap();
        json_patch::patch(&mut pool, &patch).unwrap();
    }
    assert_eq!(pool["spec"]["replicas"].as_i64(), wanted);
}

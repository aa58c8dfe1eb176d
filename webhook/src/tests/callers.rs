//! The webhook reads objects for the API server only, so that other clients cannot find out whether an object
//! exists.

use rstest::rstest;
use serde_json::json;

use super::*;

/// A webhook that does not require certificates.
fn without_certificates() -> World {
    World { certificate: None, ..World::accepting(Callers::Any).add_objects() }
}

#[tokio::test]
async fn for_an_unauthenticated_client_only_classes_are_read() {
    let world = without_certificates();
    let disk = |kind: &str| {
        let source = json!({ "type": "ObjectRef", "objectRef": { "kind": kind, "name": "secret" } });
        json!([{ "name": "root", "spec": { "dataSource": source, "persistentVolumeClaim": { "size": "1Gi" } } }])
    };
    let devices =
        json!([{ "kind": "VirtualImage", "name": "live" }, { "kind": "VirtualDisk", "name": "root" }]);
    let pool = with(pool(), "/spec/virtualMachineTemplate/spec/blockDeviceRefs", devices);
    for kind in ["VirtualImage", "ClusterVirtualImage", "VirtualDiskSnapshot"] {
        let response = world.create(&with(pool.clone(), "/spec/virtualDiskTemplates", disk(kind))).await;
        assert_eq!(response["allowed"], true, "{response}");
        assert_eq!(response.get("warnings"), None);
        assert_eq!(world.server.requests(), [format!("{API}/virtualmachineclasses/small")]);
    }
}

#[tokio::test]
async fn for_the_api_server_missing_objects_are_named() {
    let with_class = with(
        pool(),
        "/spec/virtualDiskTemplates/0/spec/persistentVolumeClaim",
        json!({ "size": "20Gi", "storageClassName": "fast" }),
    );
    let world = World::with_objects();
    let response = world.create(&with_class).await;
    let warnings = response["warnings"].to_string();
    assert!(warnings.contains("there is no StorageClass") && warnings.contains("fast"), "{response}");
    assert!(world.server.requests().contains(&"/apis/storage.k8s.io/v1/storageclasses/fast".to_owned()));
    let world = without_certificates();
    let response = world.create(&with_class).await;
    assert_eq!((&response["allowed"], response.get("warnings")), (&json!(true), None), "{response}");
    assert_eq!(world.server.requests(), [format!("{API}/virtualmachineclasses/small")]);
}

#[rstest]
#[case::the_pool(json!("u"), Some(403))]
#[case::another_uid(json!("v"), None)]
#[case::no_uid(json!(null), Some(400))]
#[tokio::test]
async fn an_unauthenticated_client_must_send_the_uid_of_the_pool(
    #[case] uid: Value,
    #[case] code: Option<i64>,
) {
    let scale = |replicas: i64| json!({ "kind": "Scale", "metadata": { "uid": uid }, "spec": { "replicas": replicas } });
    let review = review("UPDATE", "scale", &scale(3), &scale(2));
    let mut answers = Vec::new();
    for explicit in [true, false] {
        let world = without_certificates();
        if explicit {
            let pool = with(pool(), "/spec/scaleDownPolicy", json!("Explicit"));
            world.server.put("/namespaces/team-a/virtualmachinepools/builders", pool);
        }
        answers.push(world.review(SCALE_PATH, &review).await);
    }
    assert_eq!(answers[0]["status"]["code"].as_i64(), code, "{}", answers[0]);
    if uid != "u" {
        assert_eq!(answers[0], answers[1], "the response does not show whether the pool exists");
    }
}

#[rstest]
#[case::no_certificate(None, StatusCode::UNAUTHORIZED)]
#[case::another_name(Some("kubelet"), StatusCode::FORBIDDEN)]
#[tokio::test]
async fn clients_without_the_required_certificate_are_refused(
    #[case] certificate: Option<&'static str>,
    #[case] expected: StatusCode,
) {
    let world = World { certificate, ..World::with_objects() };
    let (status, _) = world.post(POOL_PATH, review("CREATE", "", &Value::Null, &pool()).to_string()).await;
    assert_eq!(status, expected);
    // The body is not read.
    let endless = futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>();
    assert_eq!(world.post(SCALE_PATH, Body::from_stream(endless)).await.0, expected);
    assert_eq!(world.server.requests(), [""; 0]);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_refused() {
    let world = World::new();
    let silent = futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>();
    let (response, ()) = futures::join!(
        world.post(POOL_PATH, Body::from_stream(silent)),
        world.clock.advance(crate::body::DEADLINE)
    );
    assert_eq!(response.0, StatusCode::REQUEST_TIMEOUT);
}

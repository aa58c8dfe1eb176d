//! What a client learns: the API server everything, and any other client nothing that it may not read.

use rstest::rstest;
use serde_json::json;

use super::*;

/// A world in which no client has to prove that it is the API server.
fn open() -> World {
    World { certificate: None, ..World::answering(Callers::Anyone).furnish() }
}

#[tokio::test]
async fn for_an_unknown_client_no_object_of_a_namespace_and_no_image_is_read() {
    let world = open();
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
        assert_eq!(world.server.asked(), [format!("{API}/virtualmachineclasses/small")]);
    }
}

#[rstest]
#[case::the_pool(json!("u"), Some(403))]
#[case::another_uid(json!("v"), None)]
#[case::no_uid(json!(null), Some(400))]
#[tokio::test]
async fn an_unknown_client_learns_the_policy_of_a_pool_only_with_its_uid(
    #[case] uid: Value,
    #[case] code: Option<i64>,
) {
    let scale = |replicas: i64| json!({ "kind": "Scale", "metadata": { "uid": uid }, "spec": { "replicas": replicas } });
    let review = review("UPDATE", "scale", &scale(3), &scale(2));
    let mut answers = Vec::new();
    for explicit in [true, false] {
        let world = open();
        if explicit {
            let pool = with(pool(), "/spec/scaleDownPolicy", json!("Explicit"));
            world.server.put("/namespaces/team-a/virtualmachinepools/builders", pool);
        }
        answers.push(world.review(SCALE_PATH, &review).await);
    }
    assert_eq!(answers[0]["status"]["code"].as_i64(), code, "{}", answers[0]);
    if uid != "u" {
        assert_eq!(answers[0], answers[1], "whether the pool exists makes no difference");
    }
}

#[rstest]
#[case::no_certificate(None, StatusCode::UNAUTHORIZED)]
#[case::another_name(Some("kubelet"), StatusCode::FORBIDDEN)]
#[tokio::test]
async fn where_clients_have_to_prove_who_they_are_no_other_is_answered(
    #[case] certificate: Option<&'static str>,
    #[case] expected: StatusCode,
) {
    let world = World { certificate, ..World::furnished() };
    let (status, _) = world.post(POOL_PATH, review("CREATE", "", &Value::Null, &pool()).to_string()).await;
    assert_eq!(status, expected);
    // Not even the body is read.
    let endless = futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>();
    assert_eq!(world.post(SCALE_PATH, Body::from_stream(endless)).await.0, expected);
    assert_eq!(world.server.asked(), [""; 0]);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let world = World::new();
    let silent = futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>();
    let (answer, ()) = futures::join!(
        world.post(POOL_PATH, Body::from_stream(silent)),
        world.clock.advance(crate::arrival::DEADLINE)
    );
    assert_eq!(answer.0, StatusCode::REQUEST_TIMEOUT);
}

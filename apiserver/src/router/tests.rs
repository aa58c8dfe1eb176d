use http::header;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::body::MAX_LENGTH;
use crate::testing::{ApiServerProcess, ApiServerWorld, SETTINGS, TestResponse, request_as_alice};

const POOL: &str = "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web";
const REMOVE: &str =
    "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/scaledownwith";
const DVP: &str =
    "/apis/subresources.virtualization.deckhouse.io/v1alpha2/namespaces/team-a/virtualmachinepools/web";

async fn call(
    world: &ApiServerWorld,
    process: &ApiServerProcess,
    method: &str,
    uri: &str,
    body: &str,
) -> TestResponse {
    world.through(process.call(request_as_alice(method, uri, body))).await.unwrap()
}

fn is_status(answer: &TestResponse, code: u16, reason: &str) {
    assert_eq!(answer.code.as_u16(), code, "{}", answer.body);
    assert_eq!(answer.body["kind"], "Status");
    assert_eq!(answer.body["apiVersion"], "v1");
    assert_eq!(answer.body["code"], code);
    assert_eq!(answer.body["reason"], reason);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn a_read_returns_the_metadata_of_the_pool_only() {
    let world = ApiServerWorld::with_pool(1, 2);
    let process = world.process(1);
    for (path, api_version) in [
        (POOL, "subresources.vmpool.dev/v1alpha1"),
        (DVP, "subresources.virtualization.deckhouse.io/v1alpha2"),
    ] {
        let answer = call(&world, &process, "GET", path, "").await;
        assert_eq!(answer.code, StatusCode::OK);
        assert_eq!(answer.body["apiVersion"], api_version);
        assert_eq!(answer.body["kind"], "VirtualMachinePool");
        assert_eq!(answer.body["metadata"]["name"], "web");
        assert_eq!(answer.body["metadata"], world.server.store(|store| store.pool()["metadata"].clone()));
        assert_eq!(answer.body.as_object().unwrap().len(), 3, "neither spec nor status");
    }
}

#[tokio::test]
async fn a_missing_pool_is_reported_with_the_requested_group() {
    let world = ApiServerWorld::new(1);
    let process = world.process(1);
    let answer = call(&world, &process, "GET", DVP, "").await;
    is_status(&answer, 404, "NotFound");
    assert_eq!(
        answer.body["message"],
        "virtualmachinepools.subresources.virtualization.deckhouse.io \"web\" not found"
    );
    assert_eq!(answer.body["details"]["group"], "subresources.virtualization.deckhouse.io");
}

#[rstest]
#[case("/")]
#[case("/apis")]
#[case("/apis/")]
#[case("/apis/subresources.vmpool.dev")]
#[case("/apis/subresources.virtualization.deckhouse.io/v1alpha2")]
#[case("/openapi/v2")]
#[case("/openapi/v3")]
#[case("/openapi/v3/apis/subresources.vmpool.dev/v1alpha1?hash=1")]
#[case("/version")]
#[tokio::test]
async fn documents(#[case] path: &str) {
    let world = ApiServerWorld::new(1);
    let process = world.process(1);
    let answer = call(&world, &process, "GET", path, "").await;
    assert_eq!(answer.code, StatusCode::OK, "{}", answer.body);
    assert!(answer.body.is_object());
    let answer = call(&world, &process, "PUT", path, "").await;
    is_status(&answer, 405, "MethodNotAllowed");
}

#[rstest]
#[case("GET", REMOVE, "POST")]
#[case("PUT", REMOVE, "POST")]
#[case("PATCH", REMOVE, "POST")]
#[case("DELETE", REMOVE, "POST")]
#[case("POST", POOL, "GET, HEAD")]
#[case("PUT", POOL, "GET, HEAD")]
#[case("PATCH", POOL, "GET, HEAD")]
#[case("DELETE", POOL, "GET, HEAD")]
#[case("GET", "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools", "")]
#[case("POST", "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools", "")]
#[tokio::test]
async fn other_verbs_are_not_allowed(#[case] method: &str, #[case] path: &str, #[case] allowed: &str) {
    let world = ApiServerWorld::with_pool(1, 1);
    let answer = call(&world, &world.process(1), method, path, "{}").await;
    is_status(&answer, 405, "MethodNotAllowed");
    assert_eq!(answer.headers[header::ALLOW], allowed);
}

#[rstest]
#[case("/api")]
#[case("/metrics")]
#[case("/apis/apps")]
#[case("/apis/subresources.vmpool.dev/v1")]
#[case("/apis/subresources.vmpool.dev/v1/namespaces/team-a/virtualmachinepools/web")]
#[case("/apis/subresources.vmpool.dev/v1alpha1/virtualmachinepools")]
#[case("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachines/web")]
#[case("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/scale")]
#[case("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/web/scaledownwith/more")]
#[case("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/%ff")]
#[tokio::test]
async fn unknown_paths_are_not_found(#[case] path: &str) {
    let world = ApiServerWorld::with_pool(1, 1);
    let answer = call(&world, &world.process(1), "GET", path, "").await;
    is_status(&answer, 404, "NotFound");
}

#[tokio::test]
async fn invalid_names_are_not_sent_to_the_api_server() {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = world.process(1);
    for path in [
        "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/..%2F..%2Fsecrets",
        "/apis/subresources.vmpool.dev/v1alpha1/namespaces/a%2Fb/virtualmachinepools/web",
    ] {
        is_status(&call(&world, &process, "GET", path, "").await, 404, "NotFound");
        let path = format!("{path}/scaledownwith");
        is_status(&call(&world, &process, "POST", &path, r#"{"targets":["a"]}"#).await, 404, "NotFound");
    }
    let log = world.server.take_log();
    assert!(log.iter().all(|call| call.resource == "subjectaccessreviews"), "{log:?}");
}

#[tokio::test]
async fn with_the_gate_off_no_resource_exists() {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = ApiServerProcess::without_the_feature(&world);
    // Without the gate, the chart grants no permission to create reviews, so responses must not depend on
    // one.
    world.server.deny(Some("no right to create subjectaccessreviews"));
    for (method, path) in [("GET", POOL), ("POST", REMOVE), ("DELETE", POOL), ("GET", "/apis/other/v1/x")] {
        is_status(&call(&world, &process, method, path, r#"{"targets":["web-0"]}"#).await, 404, "NotFound");
    }
    // Discovery still works. Otherwise a remaining APIService would block the deletion of namespaces.
    let answer = call(&world, &process, "GET", "/apis/subresources.vmpool.dev/v1alpha1", "").await;
    assert_eq!((answer.code, &answer.body["resources"]), (StatusCode::OK, &json!([])));
    let stranger = world.through(process.send(request_as_alice("GET", POOL, ""))).await.unwrap();
    is_status(&stranger, 401, "Unauthorized");
    assert_eq!(world.server.store(|store| store.replicas()), 1);
    assert!(world.server.take_log().is_empty(), "no request is sent");
}

#[tokio::test]
async fn clients_other_than_the_front_proxy_are_refused() {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = world.process(1);
    for path in [POOL, REMOVE, "/apis", "/openapi/v2", "/version", "/nonsense"] {
        let request = request_as_alice("GET", path, "");
        is_status(&world.through(process.send(request)).await.unwrap(), 401, "Unauthorized");
    }
    assert!(world.server.take_log().is_empty(), "no review is created");
}

#[tokio::test]
async fn without_permission_a_caller_reads_and_changes_nothing() {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = world.process(1);
    world.server.deny(Some(""));
    for (method, path) in [("POST", REMOVE), ("GET", POOL), ("GET", "/apis"), ("GET", "/nonsense")] {
        let answer = call(&world, &process, method, path, "nonsense").await;
        is_status(&answer, 403, "Forbidden");
    }
    let log = world.server.take_log();
    assert!(log.iter().all(|call| call.resource == "subjectaccessreviews"), "{log:?}");
}

#[rstest]
#[case("/livez", 200)]
#[case("/livez/", 200)]
#[case("/readyz", 200)]
#[case("/healthz", 200)]
#[case("/healthz?verbose", 200)]
#[tokio::test]
async fn health_endpoints_need_no_authentication(#[case] path: &str, #[case] code: u16) {
    let world = ApiServerWorld::new(1);
    let process = world.process(1);
    let answer = world.through(process.send(request_as_alice("GET", path, ""))).await.unwrap();
    assert_eq!(answer.code.as_u16(), code);
    assert!(answer.body.as_str().unwrap().contains(if path.contains('?') {
        "livez check passed"
    } else {
        "ok"
    }));
    let answer = world.through(process.send(request_as_alice("POST", path, ""))).await.unwrap();
    is_status(&answer, 405, "MethodNotAllowed");
}

#[tokio::test]
async fn the_server_is_not_ready_before_it_has_read_the_front_proxy_configuration() {
    let world = ApiServerWorld::new(1);
    let health = HealthEndpoints::new();
    let state = ApiServerState::new(
        world.server.client(),
        world.env.clone(),
        SETTINGS,
        health,
        crate::metrics::ApiServerMetrics::new(|_| ()),
    );
    let response = api_router(state).oneshot(request_as_alice("GET", "/readyz", "")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn bodies_have_a_maximum_length_and_are_json() {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = world.process(1);
    let body = format!("{{\"targets\":[\"web-0\"]}}{}", " ".repeat(MAX_LENGTH));
    is_status(&call(&world, &process, "POST", REMOVE, &body).await, 413, "RequestEntityTooLarge");
    for media_type in ["application/yaml", "application/vnd.kubernetes.protobuf", "text/plain"] {
        let mut request = request_as_alice("POST", REMOVE, r#"{"targets":["web-0"]}"#);
        request.headers_mut().insert(header::CONTENT_TYPE, media_type.parse().unwrap());
        is_status(&world.through(process.call(request)).await.unwrap(), 415, "UnsupportedMediaType");
    }
    let mut request = request_as_alice("POST", REMOVE, r#"{"targets":["web-0"]}"#);
    request.headers_mut().insert(header::ACCEPT, "application/vnd.kubernetes.protobuf".parse().unwrap());
    is_status(&world.through(process.call(request)).await.unwrap(), 406, "NotAcceptable");
    is_status(&call(&world, &process, "POST", REMOVE, "{}").await, 400, "BadRequest");
    assert_eq!(world.server.store(|store| store.replicas()), 1, "the pool is unchanged");
}

#[tokio::test]
async fn both_groups_serve_removals() {
    let world = ApiServerWorld::with_pool(1, 3);
    let process = world.process(1);
    let body = r#"{"apiVersion":"subresources.virtualization.deckhouse.io/v1alpha2","kind":"VirtualMachinePoolScaleDownWith","targets":["web-0"]}"#;
    let answer = call(&world, &process, "POST", &format!("{DVP}/scaledownwith"), body).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    let answer = call(&world, &process, "POST", REMOVE, r#"{"targets":["web-1"]}"#).await;
    assert_eq!(answer.code, StatusCode::CREATED, "{}", answer.body);
    assert_eq!(answer.body["message"], "web-1 removed from pool \"web\", which now has 1 replicas");
    assert_eq!(world.server.store(|store| store.replicas()), 1);
}

#[tokio::test]
async fn the_response_contains_the_audit_id() {
    let world = ApiServerWorld::new(1);
    let process = world.process(1);
    let mut request = request_as_alice("GET", "/apis", "");
    request.headers_mut().insert(AUDIT_ID, "b6f4".parse().unwrap());
    assert_eq!(world.through(process.call(request)).await.unwrap().headers[AUDIT_ID], "b6f4");
    assert_eq!(call(&world, &process, "GET", "/apis", "").await.headers[AUDIT_ID].len(), 32);
}

#[tokio::test]
async fn requests_are_counted_by_verb_resource_and_code() {
    let world = ApiServerWorld::with_pool(1, 2);
    let process = world.process(1);
    call(&world, &process, "GET", POOL, "").await;
    call(&world, &process, "POST", REMOVE, r#"{"targets":["web-0"]}"#).await;
    call(&world, &process, "DELETE", "/apis/x/y/z", "").await;
    world.through(process.send(request_as_alice("GET", "/livez", ""))).await.unwrap();
    let page = process.metrics.page();
    for labels in [
        r#"verb="get",resource="virtualmachinepools",code="200""#,
        r#"verb="create",resource="virtualmachinepools/scaledownwith",code="201""#,
        r#"verb="other",resource="other",code="404""#,
        r#"verb="get",resource="health",code="200""#,
    ] {
        assert!(page.contains(&format!("vmpool_apiserver_requests_total{{{labels}}} 1")), "{labels}\n{page}");
    }
}

#[rstest]
#[case::of_a_pool("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/NAME")]
#[case::of_a_pool_in_a_removal(
    "/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/virtualmachinepools/NAME/scaledownwith"
)]
#[case::of_a_namespace("/apis/subresources.vmpool.dev/v1alpha1/namespaces/NAME/virtualmachinepools/web")]
#[case::of_a_resource("/apis/subresources.vmpool.dev/v1alpha1/namespaces/team-a/NAME/web")]
#[case::of_a_group("/apis/NAME/v1alpha1/namespaces/team-a/virtualmachinepools/web")]
#[case::of_a_document("/NAME")]
#[tokio::test]
async fn a_name_that_is_too_long_is_not_found_before_authorization(#[case] path: &str) {
    let world = ApiServerWorld::with_pool(1, 1);
    let process = world.process(1);
    for name in ["x".repeat(60 << 10), "x".repeat(2000)] {
        let answer = call(&world, &process, "GET", &path.replace("NAME", &name), "").await;
        is_status(&answer, 404, "NotFound");
        assert!(answer.body.to_string().len() < 1000, "the response does not contain the name");
    }
    assert!(world.server.take_log().is_empty(), "no authorization is requested");
}

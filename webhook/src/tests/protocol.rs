//! Requests that are not reviews get an HTTP error and do not reach the rules.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{MAX_LENGTH, empty_router};

#[rstest]
#[case::get(Method::GET)]
#[case::put(Method::PUT)]
#[case::delete(Method::DELETE)]
#[tokio::test]
async fn other_methods_are_not_allowed(#[case] method: Method) {
    for path in [POOL_PATH, SCALE_PATH] {
        let request = Request::builder().method(method.clone()).uri(path).body(Body::empty()).unwrap();
        assert_eq!(World::new().send(request).await.0, StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[rstest]
#[case::none(None, StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[case::yaml(Some("application/yaml"), StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[case::protobuf(Some("application/vnd.kubernetes.protobuf"), StatusCode::UNSUPPORTED_MEDIA_TYPE)]
#[case::with_a_charset(Some("application/json; charset=utf-8"), StatusCode::OK)]
#[case::in_capitals(Some("Application/JSON"), StatusCode::OK)]
#[tokio::test]
async fn reviews_must_be_json(#[case] kind: Option<&str>, #[case] expected: StatusCode) {
    let mut request = Request::post(POOL_PATH);
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    let body = review("DELETE", "", &Value::Null, &Value::Null).to_string();
    assert_eq!(World::new().send(request.body(Body::from(body)).unwrap()).await.0, expected);
}

#[rstest]
#[case::empty("", "the body is not an AdmissionReview: EOF")]
#[case::no_json("{", "the body is not an AdmissionReview: EOF")]
#[case::not_utf8("\"\u{fffd}", "the body is not an AdmissionReview: ")]
#[case::a_list("[]", "the body is ")]
#[case::another_kind(r#"{"apiVersion":"v1","kind":"Pod"}"#, "the body is a \"Pod\" of \"v1\"")]
#[case::an_old_version(
    r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
    "the body is a \"AdmissionReview\" of"
)]
#[case::no_request(
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
    "the AdmissionReview has no request with a uid"
)]
#[case::no_uid(
    r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#,
    "the AdmissionReview has no request with a uid"
)]
#[tokio::test]
async fn an_invalid_review_is_a_bad_request(#[case] body: &'static str, #[case] message: &str) {
    for path in [POOL_PATH, SCALE_PATH] {
        let world = World::new();
        let (status, answer) = world.post(path, body).await;
        let answer = String::from_utf8(answer).unwrap();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer.starts_with(message), "{answer}");
    }
}

#[tokio::test]
async fn a_long_kind_is_truncated_between_characters() {
    for begin in ["", "x"] {
        let body = json!({ "kind": format!("{begin}{}", "\u{e9}".repeat(300)) }).to_string();
        let (status, answer) = World::new().post(POOL_PATH, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.len() < 400, "{} bytes", answer.len());
    }
}

#[tokio::test]
async fn nesting_is_limited() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(World::new().post(POOL_PATH, deep).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn bodies_have_a_maximum_length() {
    let world = World::new();
    let padded = |bytes: usize| {
        let mut body = review("DELETE", "", &Value::Null, &Value::Null).to_string();
        body.push_str(&" ".repeat(bytes - body.len()));
        body
    };
    assert_eq!(world.post(POOL_PATH, padded(MAX_LENGTH)).await.0, StatusCode::OK);
    let (status, body) = world.post(POOL_PATH, padded(MAX_LENGTH + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(
        String::from_utf8(body).unwrap(),
        "the body is longer than 8388608 bytes, the maximum for a review"
    );
    // This includes a body without a declared length.
    let endless = futures::stream::repeat_with(|| Ok::<_, std::convert::Infallible>(vec![b' '; 1 << 16]));
    assert_eq!(world.post(POOL_PATH, Body::from_stream(endless)).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let broken = futures::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("reset")) });
    assert_eq!(world.post(POOL_PATH, Body::from_stream(broken)).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn with_the_gate_off_no_path_exists() {
    for path in [POOL_PATH, SCALE_PATH, "/"] {
        let body = Body::from(review("CREATE", "", &Value::Null, &pool()).to_string());
        let request = Request::post(path).header("content-type", "application/json").body(body).unwrap();
        assert_eq!(empty_router().oneshot(request).await.unwrap().status(), StatusCode::NOT_FOUND);
    }
    assert_eq!(World::new().post("/validate", "").await.0, StatusCode::NOT_FOUND);
}

#[rstest]
#[case::a_delete("DELETE", "", json!(null), json!(null))]
#[case::a_connect("CONNECT", "", json!(null), json!(null))]
#[case::a_status("UPDATE", "status", json!({}), json!({ "spec": 1 }))]
#[tokio::test]
async fn other_operations_and_subresources_are_allowed(
    #[case] operation: &str,
    #[case] subresource: &str,
    #[case] old: Value,
    #[case] new: Value,
) {
    let world = World::new();
    let response = world.review(POOL_PATH, &review(operation, subresource, &old, &new)).await;
    assert_eq!(response["allowed"], true);
    let response = world.review(SCALE_PATH, &review(operation, subresource, &old, &new)).await;
    assert_eq!(response["allowed"], true);
}

#[rstest]
#[case::no_object("CREATE", json!(null), json!(null), "object")]
#[case::a_list("CREATE", json!(null), json!([]), "object")]
#[case::no_old_object("UPDATE", json!(null), json!({}), "oldObject")]
#[tokio::test]
async fn a_review_without_its_objects_is_malformed(
    #[case] operation: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] which: &str,
) {
    let response = World::new().review(POOL_PATH, &review(operation, "", &old, &new)).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
    let message = format!("the request has no {which} that is a VirtualMachinePool");
    assert_eq!(response["status"]["message"], message);
}

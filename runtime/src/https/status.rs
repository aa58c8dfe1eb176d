//! Responses that do not come from the router, as Kubernetes `Status` objects.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;

/// A failure in the format of kube-apiserver.
pub(super) fn failure_response(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let status = Status {
        code: Some(code.as_u16().into()),
        status: Some("Failure".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..Status::default()
    };
    let body = serde_json::to_vec(&status).expect("a Status can be serialized as JSON");
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

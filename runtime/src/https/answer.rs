//! Answers that do not come from the router, as Kubernetes `Status` objects.

use axum::body::Body;
use axum::http::{Response, StatusCode, header};
use serde_json::json;

/// A failure as the API server would tell it.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

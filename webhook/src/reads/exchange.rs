//! Sends a request of the webhook, and limits its response. Users can create objects of any size that etcd
//! accepts.

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use vmpool_runtime::telemetry;

/// The maximum size of an object in bytes, as text and in memory. etcd accepts 1.5 MiB.
pub(super) const MAX_SIZE: usize = 2 << 20;

/// The response to a request.
///
/// # Errors
/// There is none.
pub(super) async fn send_request(client: &Client, request: Request<Body>) -> Result<Response<Body>, String> {
    client.send(request).await.map_err(|error| telemetry::with_causes(&error))
}

/// The body of a response.
///
/// # Errors
/// It is larger than `limit`, or incomplete.
pub(super) async fn read_response_body(
    response: Response<Body>,
    limit: usize,
) -> Result<axum::body::Bytes, String> {
    let body =
        Limited::new(response.into_body(), limit).collect().await.map_err(|error| error.to_string())?;
    Ok(body.to_bytes())
}

/// What a response with this code and status says.
pub(super) fn status_message(code: StatusCode, status: &Value) -> String {
    let message = status["message"].as_str().filter(|message| !message.is_empty());
    message.map_or_else(|| format!("the API server returned {code}"), str::to_owned)
}

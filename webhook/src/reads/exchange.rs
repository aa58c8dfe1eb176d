//! Sends a request of the webhook, and limits its response. Users can create objects of any size that etcd
//! accepts.

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use vmpool_runtime::telemetry;

use crate::bounded_json::JsonError;

/// The maximum size of an object in bytes, as text and in memory. etcd accepts 1.5 MiB.
pub(super) const MAX_SIZE: usize = 2 << 20;

/// Why a request for a review has no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The object cannot be written as JSON.
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
    /// The path is invalid.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// There is no response. Refusals and log lines contain this text alone, so it contains the causes.
    #[error("{}", telemetry::with_causes(.0))]
    Send(#[source] kube::Error),
    /// The body of the response exceeds the limit, or is incomplete.
    #[error("{0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The body of the response is no object, or needs too much memory.
    #[error("decoding the response: {0}")]
    Decode(#[from] JsonError),
    /// The API server refused the request, with this message.
    #[error("{0}")]
    Refused(String),
}

/// The response to a request.
///
/// # Errors
/// [`ExchangeError::Send`].
pub(super) async fn send_request(
    client: &Client,
    request: Request<Body>,
) -> Result<Response<Body>, ExchangeError> {
    client.send(request).await.map_err(ExchangeError::Send)
}

/// The body of a response.
///
/// # Errors
/// [`ExchangeError::Body`] if it is larger than `limit`, or incomplete.
pub(super) async fn read_response_body(
    response: Response<Body>,
    limit: usize,
) -> Result<axum::body::Bytes, ExchangeError> {
    let body = Limited::new(response.into_body(), limit).collect().await.map_err(ExchangeError::Body)?;
    Ok(body.to_bytes())
}

/// What a response with this code and status says.
pub(super) fn status_message(code: StatusCode, status: &Value) -> String {
    let message = status["message"].as_str().filter(|message| !message.is_empty());
    message.map_or_else(|| format!("the API server returned {code}"), str::to_owned)
}

//! Rejected requests: the status in the response, and the delay that the API server requests.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncReadExt, TryStreamExt};
use http::{Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::GetParams;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::de::DeserializeOwned;

use crate::decode;

/// Size up to which the body of a rejection is read, in bytes.
const LONGEST: usize = 64 * 1024;

/// The status of a rejected request. Its details contain the delay that the API server requests, because flow
/// control sends it in the header only.
pub fn rejection_status(parts: &http::response::Parts, body: &[u8]) -> Status {
    let code = parts.status.as_u16();
    let mut status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        message: String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned(),
        ..Status::default()
    });
    status.code = code;
    let header = parts.headers.get(header::RETRY_AFTER);
    if let Some(seconds) = header.and_then(|value| value.to_str().ok()?.parse().ok()) {
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        status.details.get_or_insert(details).retry_after_seconds = seconds;
    }
    status
}

/// The delay that the API server requests.
pub fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Reads an object. `None` if it does not exist, or if the cluster does not serve its kind.
///
/// # Errors
/// The request failed, or the response is no `T`.
pub async fn get_object<T: DeserializeOwned>(
    client: &Client,
    collection: String,
    name: &str,
) -> kube::Result<Option<T>> {
    let request = kube::core::Request::new(collection).get(name, &GetParams::default());
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("get");
    let mut body = match send_read(client, request).await {
        Ok(body) => std::pin::pin!(body),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    body.read_to_end(&mut text).await.map_err(kube::Error::ReadEvents)?;
    decode::decode_json(&text).map(Some).map_err(kube::Error::SerdeError)
}

/// Sends a read, and returns the body of the response. In contrast to the method of the client, an error
/// contains the delay that the API server requests.
///
/// # Errors
/// The request failed, or the API server rejected it.
pub async fn send_read(
    client: &Client,
    request: Request<Vec<u8>>,
) -> kube::Result<impl AsyncBufRead + use<>> {
    let response = client.send(request.map(Into::into)).await?;
    let (parts, body) = response.into_parts();
    if parts.status.is_success() {
        return Ok(body.into_data_stream().map_err(std::io::Error::other).into_async_read());
    }
    let (mut body, mut text) = (std::pin::pin!(body), Vec::new());
    while let Some(Ok(frame)) = body.frame().await {
        text.extend(frame.data_ref().into_iter().flatten().take(LONGEST.saturating_sub(text.len())));
    }
    Err(kube::Error::Api(rejection_status(&parts, &text).boxed()))
}

//! The arrival of a review: its body within limits of length, time and memory.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use vmpool_runtime::https::Peer;

use crate::memory::Taken;
use crate::review::{self, Request};
use crate::{LARGEST_BODY, State};

/// For the body of a review. The API server has it ready when it calls.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// What is said instead of an answer.
pub(crate) type Refusal = (StatusCode, String);

/// A review that can be judged.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) request: Request,
    /// The memory of its objects.
    pub(crate) taken: Taken,
}

/// Reads a review.
///
/// # Errors
/// The status and the text of an HTTP error: the body is no review, too long or too slow.
pub(crate) async fn read(
    state: &State,
    peer: Option<&Peer>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Arrived, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "reviews are application/json".to_owned()));
    }
    let client = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address.ip());
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    // A body that does not say its length may be the longest.
    let length = length.unwrap_or(LARGEST_BODY).min(LARGEST_BODY);
    let _held = state.bodies.take(client, length).await;
    let body = match state.env.timeout(DEADLINE, collect(body, length)).await {
        Ok(body) => body?,
        Err(elapsed) => {
            return Err((StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive: {elapsed}")));
        }
    };
    let mut taken = state.values.take(client, review::most_memory(body.len())).await;
    let request = review::decode(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    taken.shrink(request.weight);
    Ok(Arrived { request, taken })
}

async fn collect(body: Body, length: usize) -> Result<Vec<u8>, Refusal> {
    let mut body = Limited::new(body, LARGEST_BODY);
    let mut bytes = Vec::with_capacity(length);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("reviews have at most {LARGEST_BODY} bytes");
                (StatusCode::PAYLOAD_TOO_LARGE, message)
            } else {
                (StatusCode::BAD_REQUEST, "the body did not arrive".to_owned())
            }
        })?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

//! Reads the body of a review, within limits of length, time and memory.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use futures::future::{Either, select};
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use vmpool_engine::admission::PoolKind;
use vmpool_runtime::https::Peer;

use crate::memory::MemoryPermit;
use crate::review::{self, MAX_LENGTH, ReviewRequest};
use crate::state::ReviewState;

/// The deadline for a body. kube-apiserver sends it without a delay.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);

/// The memory that is allocated for a body before it arrives, in bytes.
const FIRST_ALLOCATION: usize = 64 << 10;

/// The status and text of an HTTP error.
pub(crate) type HttpError = (StatusCode, String);

/// A decoded review.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) request: ReviewRequest,
    /// The permit for the memory of the objects in the request.
    pub(crate) memory: MemoryPermit,
}

/// Reads and decodes the body of a review of pools of this kind.
///
/// # Errors
/// [`HttpError`] if the body is not a review, is too long, or does not arrive before [`DEADLINE`]. If memory
/// is short, it must arrive at once.
pub(crate) async fn read_review_body(
    state: &ReviewState,
    kind: &PoolKind,
    peer: Option<&Peer>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Received, HttpError> {
    let media_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let message = format!("the content type is {media_type:?}; send reviews as application/json");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let client = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.address.ip());
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    // A body without a declared length may have the maximum length.
    let length = length.unwrap_or(MAX_LENGTH).min(MAX_LENGTH);
    let permit = state.bodies.acquire_for_body(client, length).await;
    let collected = pin!(state.env.timeout(DEADLINE, collect_body(body, length)));
    let body = match select(collected, pin!(permit.evicted.cancelled())).await {
        Either::Left((Ok(body), _)) => body?,
        Either::Left((Err(elapsed), _)) => {
            return Err((StatusCode::REQUEST_TIMEOUT, format!("reading the body: {elapsed}")));
        }
        Either::Right(((), _)) => {
            let message = "reading the body: it did not arrive at once, and other reviews need its memory";
            return Err((StatusCode::REQUEST_TIMEOUT, message.to_owned()));
        }
    };
    permit.arrive();
    let mut memory = state.objects.acquire(client, review::max_memory(body.len())).await;
    let request =
        review::decode_review(&body, kind).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    memory.shrink(request.memory);
    Ok(Received { request, memory })
}

async fn collect_body(body: Body, length: usize) -> Result<Vec<u8>, HttpError> {
    let mut body = Limited::new(body, MAX_LENGTH);
    // Not the announced length: a body that never comes uses no memory.
    let mut bytes = Vec::with_capacity(length.min(FIRST_ALLOCATION));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let message = format!("the body is longer than {MAX_LENGTH} bytes, the maximum for a review");
                (StatusCode::PAYLOAD_TOO_LARGE, message)
            } else {
                (StatusCode::BAD_REQUEST, "reading the body: the connection ended early".to_owned())
            }
        })?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

//! One request: its limits, and the response if its handler fails.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, Version, header};
use futures::future::{Either, FutureExt as _, select};
use http_body_util::Limited;
use hyper::body::{Body as _, Incoming};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::config::Limits;
use super::metrics::{Refusal, TrafficMetrics};
use super::origin::ConnectionClient;
use super::paced_body::{Arrival, RateLimitedBody};
use super::status::failure_response;
use crate::capacity::{ActiveRequest, ConnectionActivity, RequestSlots};
use crate::env::{Env, TimeoutElapsed};

/// The header value of a response that closes its connection.
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Handles the requests of one connection.
#[derive(Clone)]
pub(super) struct RequestHandler {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) metrics: TrafficMetrics,
    pub(super) env: Env,
    pub(super) origin: Arc<ConnectionClient>,
    pub(super) activity: Arc<ConnectionActivity>,
    pub(super) requests: Arc<RequestSlots>,
    /// If cancelled, each HTTP/1.1 response closes its connection.
    pub(super) lingering: CancellationToken,
}

impl RequestHandler {
    pub(super) async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        let (lingering, version) = (self.lingering.clone(), request.version());
        let mut response = self.respond(request).await;
        if lingering.is_cancelled() && version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        response
    }

    async fn respond(self, request: Request<Incoming>) -> Response<Body> {
        let active = Arc::new(ActiveRequest::new(&self.activity, &self.env));
        let Some(slot) = self.requests.acquire(self.origin.address().ip(), &self.env) else {
            self.metrics.refused(Refusal::TooManyRequests);
            let message = "too many requests are in flight; try again later";
            let mut response = failure_response(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        };
        let limit = self.limits.body_bytes;
        if is_body_too_large(&request, limit) {
            self.metrics.refused(Refusal::BodyTooLarge);
            let mut response = failure_response(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                &format!("the body is longer than {limit} bytes, the maximum"),
            );
            // With HTTP/1.1, the server would have to read the body before the next request.
            if request.version() < Version::HTTP_2 {
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
            return response;
        }
        let (slot, slow) = (Arc::new(slot), Arc::new(AtomicBool::new(false)));
        let arrival =
            Arrival { active: Arc::clone(&active), slot: Arc::clone(&slot), slow: Arc::clone(&slow) };
        let pace = self.limits.body_rate_limit.clone();
        let mut request = request.map(|body| {
            let body = RateLimitedBody::new(body, pace, self.env.clone(), arrival);
            Body::new(Limited::new(body, limit))
        });
        request.extensions_mut().insert(self.origin.peer(&self.env));
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let version = request.version();
        let handling = AssertUnwindSafe(self.router.oneshot(request)).catch_unwind();
        let handling = self.env.timeout(self.limits.request_deadline, handling);
        let result = match select(pin!(handling), pin!(slot.evicted.cancelled())).await {
            Either::Left((result, _)) => result,
            Either::Right(((), _)) => {
                self.metrics.refused(Refusal::Evicted);
                return slow_body(version);
            }
        };
        match result {
            Ok(Ok(Ok(_))) if slow.load(Ordering::SeqCst) => {
                self.metrics.refused(Refusal::SlowBody);
                slow_body(version)
            }
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                self.metrics.refused(Refusal::Panic);
                // The panic hook prints the message. It may contain information that clients must not see.
                tracing::error!(%method, path, "a handler panicked");
                let message = "the request handler failed unexpectedly; see the log of the server";
                failure_response(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            }
            Err(TimeoutElapsed(limit)) => {
                self.metrics.refused(Refusal::Deadline);
                tracing::warn!(%method, path, ?limit, "a request timed out");
                let message = format!("the request was not handled within {limit:?}; try again");
                failure_response(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)
            }
        }
    }
}

/// The response to a request whose body has not arrived in time.
fn slow_body(version: Version) -> Response<Body> {
    let message = "the body of the request did not arrive in time; try again";
    let mut response = failure_response(StatusCode::REQUEST_TIMEOUT, "Timeout", message);
    // With HTTP/1.1, the server would have to read the body before the next request.
    if version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, CLOSE);
    }
    response
}

/// Whether the declared length of the body exceeds the limit.
fn is_body_too_large(request: &Request<Incoming>, limit: usize) -> bool {
    request.body().size_hint().lower() > limit as u64
}

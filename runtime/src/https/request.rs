//! One request: what it may take, and what becomes of a handler that fails.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, Version, header};
use futures::future::FutureExt as _;
use http_body_util::Limited;
use hyper::body::{Body as _, Incoming};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::answer::status;
use super::connection::Origin;
use super::metrics::Refusal;
use super::{Limits, TrafficMetrics};
use crate::env::{Elapsed, Env};
use crate::room::{Activity, Busy, Turns};

/// Says that a connection ends with this answer.
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Answers the requests of one connection.
#[derive(Clone)]
pub(super) struct Answering {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) metrics: TrafficMetrics,
    pub(super) env: Env,
    pub(super) origin: Arc<Origin>,
    pub(super) activity: Arc<Activity>,
    pub(super) turns: Arc<Turns>,
    /// The answer is the last one of an HTTP/1.1 connection.
    pub(super) leaving: CancellationToken,
}

impl Answering {
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let (leaving, version) = (self.leaving.clone(), request.version());
        let mut response = self.respond(request).await;
        if leaving.is_cancelled() && version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        response
    }

    async fn respond(self, request: Request<Incoming>) -> Response<Body> {
        let _busy = Busy::new(&self.activity, &self.env);
        let Some(_turn) = self.turns.take(self.origin.address().ip()) else {
            self.metrics.refused(Refusal::TooManyRequests);
            let message = "too many requests are under way, try again later";
            let mut response = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        };
        let limit = self.limits.body_bytes;
        if exceeds(&request, limit) {
            self.metrics.refused(Refusal::BodyTooLarge);
            let mut response = status(
                StatusCode::PAYLOAD_TOO_LARGE,
                "RequestEntityTooLarge",
                &format!("the body may have {limit} bytes at most"),
            );
            // HTTP/1.1 would have to read the body to get at the next request.
            if request.version() < Version::HTTP_2 {
                response.headers_mut().insert(header::CONNECTION, CLOSE);
            }
            return response;
        }
        let mut request = request.map(|body| Body::new(Limited::new(body, limit)));
        request.extensions_mut().insert(self.origin.peer(&self.env));
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let handling = AssertUnwindSafe(self.router.oneshot(request)).catch_unwind();
        match self.env.timeout(self.limits.request_deadline, handling).await {
            Ok(Ok(Ok(response))) => response,
            Ok(Ok(Err(never))) => match never {},
            Ok(Err(_panic)) => {
                self.metrics.refused(Refusal::Panic);
                // What the panic said was printed by the hook; it may hold what clients should not see.
                tracing::error!(%method, path, "a handler has panicked");
                status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the handler failed unexpectedly")
            }
            Err(Elapsed(limit)) => {
                self.metrics.refused(Refusal::Deadline);
                tracing::warn!(%method, path, ?limit, "a request was given up");
                let message = format!("there was no answer within {limit:?}");
                status(StatusCode::GATEWAY_TIMEOUT, "Timeout", &message)
            }
        }
    }
}

/// Whether the request itself says that its body is too long.
fn exceeds(request: &Request<Incoming>, limit: usize) -> bool {
    request.body().size_hint().lower() > limit as u64
}

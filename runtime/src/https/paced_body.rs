//! The body of a request, which must arrive at a minimum rate.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use futures::future::BoxFuture;
use hyper::body::{Body, Frame, SizeHint};

use super::config::BodyRateLimit;
use crate::capacity::{ActiveRequest, RequestSlot};
use crate::env::Env;

/// What learns that a body has arrived, or that it is too slow.
pub(super) struct Arrival {
    pub(super) active: Arc<ActiveRequest>,
    pub(super) slot: Arc<RequestSlot>,
    pub(super) slow: Arc<AtomicBool>,
}

/// A body with a minimum rate. The time counts from the first attempt to read the body.
pub(super) struct RateLimitedBody<B> {
    body: B,
    rate_limit: BodyRateLimit,
    env: Env,
    arrival: Arrival,
    /// The uptime of the first attempt to read.
    started: Option<Duration>,
    received: u64,
    /// Completes when the body is too slow. It exists while the body is awaited.
    limit: Option<BoxFuture<'static, ()>>,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError<E> {
    /// The connection failed.
    #[error(transparent)]
    Connection(E),
    /// The body arrives too slowly.
    #[error("the body arrives too slowly")]
    Slow,
}

impl<B: Body<Data = Bytes>> RateLimitedBody<B> {
    pub(super) fn new(body: B, pace: BodyRateLimit, env: Env, arrival: Arrival) -> Self {
        if body.is_end_stream() {
            arrival.arrive();
        }
        Self { body, rate_limit: pace, env, arrival, started: None, received: 0, limit: None }
    }
}

impl Arrival {
    fn arrive(&self) {
        self.active.arrive();
        self.slot.arrive();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RateLimitedBody<B> {
    type Data = Bytes;
    type Error = BodyError<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let now = this.env.uptime();
        let started = *this.started.get_or_insert(now);
        let elapsed = now.saturating_sub(started);
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.limit = None;
            if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
                this.received += data.len() as u64;
            }
            if frame.is_none() || this.body.is_end_stream() {
                this.arrival.arrive();
            } else if elapsed >= this.rate_limit.limit(this.received) {
                // A body that always has some bytes is never awaited.
                this.arrival.slow.store(true, Ordering::SeqCst);
                return Poll::Ready(Some(Err(BodyError::Slow)));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Connection)));
        }
        let left = this.rate_limit.limit(this.received).saturating_sub(elapsed);
        let limit = this.limit.get_or_insert_with(|| this.env.sleep(left));
        ready!(limit.as_mut().poll(cx));
        this.arrival.slow.store(true, Ordering::SeqCst);
        Poll::Ready(Some(Err(BodyError::Slow)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The clock of the API server, as the responses to this process show it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use tower::{Layer, Service};
use vmpool_engine::server_clock::ServerClock;
use vmpool_runtime::Env;

/// A response that took longer does not replace an earlier one: the API server may have sent it at any moment
/// of this time.
const PRECISE: Duration = Duration::from_secs(1);

/// The clock of the API server, as the responses to this process show it. Clones share it.
///
/// It belongs to the process and not to a leadership: a leader whose wall clock jumps ahead loses its lease,
/// and can become the leader again. The requests for the lease show it before a process leads for the first
/// time.
#[derive(Clone, Debug, Default)]
pub struct SharedServerClock(Arc<Mutex<Option<ServerClock>>>);

impl SharedServerClock {
    /// The layer that observes the responses to a client. `env` is the environment of the process.
    pub fn layer(&self, env: &Env) -> ServerClockLayer {
        ServerClockLayer { clock: self.clone(), env: env.clone() }
    }

    /// The clock; `None` if no response has shown it.
    pub(crate) fn get(&self) -> Option<ServerClock> {
        *self.0.lock()
    }

    /// Records what a response shows, whose request was sent at the uptime `sent`.
    fn observe(&self, date: Timestamp, sent: Duration, received: Duration) {
        let known = &mut *self.0.lock();
        if known.is_none() || received.saturating_sub(sent) <= PRECISE {
            *known = Some(ServerClock::of_response(date, sent));
        }
    }
}

/// Observes the clock of the API server in the `Date` of its responses.
#[derive(Clone, Debug)]
pub struct ServerClockLayer {
    clock: SharedServerClock,
    env: Env,
}

impl<S> Layer<S> for ServerClockLayer {
    type Service = ServerClockService<S>;

    fn layer(&self, inner: S) -> ServerClockService<S> {
        ServerClockService { inner, layer: self.clone() }
    }
}

/// A service whose responses are observed.
#[derive(Clone, Debug)]
pub struct ServerClockService<S> {
    inner: S,
    layer: ServerClockLayer,
}

impl<S, A, B> Service<Request<A>> for ServerClockService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let ServerClockLayer { clock, env } = self.layer.clone();
        // An aggregated API, with a clock of its own, answers some creates.
        let is_create = request.method() == Method::POST;
        let sent = env.uptime();
        let response = self.inner.call(request);
        async move {
            let response = response.await;
            // A load balancer, with a clock of its own, sends some failures.
            let is_of_server = |response: &&Response<B>| !is_create && response.status().is_success();
            let answered = response.as_ref().ok().filter(is_of_server);
            if let Some(date) = answered.and_then(|response| date_of(response.headers())) {
                clock.observe(date, sent, env.uptime());
            }
            response
        }
        .boxed()
    }
}

/// The time at which a response was sent; `None` without a readable `Date`.
fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(headers.get(header::DATE)?.as_bytes()).ok()
}

#[cfg(test)]
mod tests;

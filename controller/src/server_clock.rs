//! The clock of the API server, as the responses to this process show it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Uri, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use parking_lot::Mutex;
use vmpool_engine::server_clock::ServerClock;
use vmpool_runtime::Env;

use crate::observed_requests::{ObservedExchange, RequestObserver, RequestObserverLayer};

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
    pub fn layer(&self, env: &Env) -> RequestObserverLayer<ServerClockObserver> {
        RequestObserverLayer(ServerClockObserver { clock: self.clone(), env: env.clone() })
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
pub struct ServerClockObserver {
    clock: SharedServerClock,
    env: Env,
}

impl RequestObserver for ServerClockObserver {
    type Exchange = TimedExchange;

    fn begin(&self, method: &Method, _: &Uri) -> TimedExchange {
        TimedExchange { observer: self.clone(), is_create: method == Method::POST, sent: self.env.uptime() }
    }
}

/// A request in flight, with the time at which it was sent.
pub struct TimedExchange {
    observer: ServerClockObserver,
    is_create: bool,
    /// Uptime.
    sent: Duration,
}

impl ObservedExchange for TimedExchange {
    fn answered(self, status: StatusCode, headers: &HeaderMap) {
        // An aggregated API answers some creates, and a load balancer sends some failures. Both have a clock
        // of their own.
        if self.is_create || !status.is_success() {
            return;
        }
        if let Some(date) = date_of(headers) {
            let ServerClockObserver { clock, env } = &self.observer;
            clock.observe(date, self.sent, env.uptime());
        }
    }
}

/// The time at which a response was sent; `None` without a readable `Date`.
fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(headers.get(header::DATE)?.as_bytes()).ok()
}

#[cfg(test)]
mod tests;

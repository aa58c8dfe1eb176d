//! What a connection is doing, and what its client owes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::env::Env;

/// The time after which a client that owes bytes is slow. kube-apiserver sends a request without a delay.
pub(crate) const SLOW: Duration = Duration::from_secs(1);

/// The requests of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionActivity(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Whether the client has presented a verified certificate.
    verified: bool,
    /// Whether a request has arrived in full and has ended.
    completed: bool,
    next: u64,
    /// The uptimes at which requests started whose body has not arrived in full.
    arriving: BTreeMap<u64, Duration>,
    /// The number of requests in flight that have arrived in full.
    handled: usize,
    /// The uptime at which the connection was opened, or the last request ended.
    last: Duration,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionProgress {
    /// A request has arrived in full and has no response yet.
    Busy,
    /// The client owes bytes since this uptime: of the handshake, of its first request, or of a body.
    Unfinished(Duration),
    /// All requests have ended, since this uptime.
    Idle(Duration),
}

/// How much a client has shown that it is not a slow one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientTrust {
    /// It has completed no request, or owes bytes for a long time.
    None,
    /// It has completed a request.
    Proven,
    /// It has presented a verified certificate.
    Verified,
}

impl ConnectionActivity {
    pub(crate) fn new(env: &Env) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            verified: false,
            completed: false,
            next: 0,
            arriving: BTreeMap::new(),
            handled: 0,
            last: env.uptime(),
        })))
    }

    /// Records that the client has presented a verified certificate.
    pub(crate) fn verify(&self) {
        self.0.lock().verified = true;
    }

    /// The time without a request. Zero while a request is in flight.
    pub(crate) fn idle(&self, env: &Env) -> Duration {
        let state = self.0.lock();
        if state.handled > 0 || !state.arriving.is_empty() {
            return Duration::ZERO;
        }
        env.uptime().saturating_sub(state.last)
    }

    pub(super) fn progress(&self) -> ConnectionProgress {
        let state = self.0.lock();
        match state.arriving.values().min() {
            _ if state.handled > 0 => ConnectionProgress::Busy,
            Some(&since) => ConnectionProgress::Unfinished(since),
            None if state.completed => ConnectionProgress::Idle(state.last),
            None => ConnectionProgress::Unfinished(state.last),
        }
    }

    pub(super) fn trust(&self, now: Duration) -> ClientTrust {
        let state = self.0.lock();
        let is_slow = state.arriving.values().any(|&since| now.saturating_sub(since) >= SLOW);
        match (state.verified, state.completed && !is_slow) {
            (true, _) => ClientTrust::Verified,
            (false, true) => ClientTrust::Proven,
            (false, false) => ClientTrust::None,
        }
    }
}

/// A request in flight. It counts as unfinished until it has arrived.
pub(crate) struct ActiveRequest {
    number: u64,
    activity: Arc<ConnectionActivity>,
    env: Env,
}

impl ActiveRequest {
    pub(crate) fn new(activity: &Arc<ConnectionActivity>, env: &Env) -> Self {
        let mut state = activity.0.lock();
        let number = state.next;
        state.next += 1;
        state.arriving.insert(number, env.uptime());
        drop(state);
        Self { number, activity: Arc::clone(activity), env: env.clone() }
    }

    /// Records that the request has arrived in full.
    pub(crate) fn arrive(&self) {
        let mut state = self.activity.0.lock();
        if state.arriving.remove(&self.number).is_some() {
            state.handled += 1;
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut state = self.activity.0.lock();
        state.last = self.env.uptime();
        if state.arriving.remove(&self.number).is_none() {
            state.handled = state.handled.saturating_sub(1);
            state.completed = true;
        }
    }
}

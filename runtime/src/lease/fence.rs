//! The permission to write, and its end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::env::Env;

/// The interval at which [`Fence::wait_until_ended`] reads the clocks, because sleeping does not detect
/// suspension or a jump of the wall clock.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The fraction of the lease duration by which a fence ends early, because clocks of different machines
/// drift: 1/100 is twenty times the drift of a quartz clock without synchronization.
const DRIFT_MARGIN: u32 = 100;

/// Permission to write while this process certainly holds the lease. Clones share it.
///
/// Call [`Fence::admits`] with the deadline of each write before the write, and cancel the write at its
/// deadline. The last write of a leader then arrives before the first write of its successor, apart from the
/// time within the API server.
#[derive(Clone)]
pub struct Fence(Arc<State>);

struct State {
    env: Env,
    validity: Duration,
    term: Mutex<Term>,
    ended: CancellationToken,
}

struct Term {
    since: Instant,
    ended: bool,
}

/// A point in time on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant {
    uptime: Duration,
    wall: Timestamp,
}

impl Instant {
    pub(crate) fn now(env: &Env) -> Self {
        Self { uptime: env.uptime(), wall: env.now() }
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.wall
    }

    /// The elapsed time, on the clock that shows more.
    pub(super) fn elapsed(&self, env: &Env) -> Duration {
        let boot = env.uptime().saturating_sub(self.uptime);
        let wall = Duration::try_from(env.now().duration_since(self.wall)).unwrap_or_default();
        boot.max(wall)
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fence").field("remaining", &self.remaining()).finish()
    }
}

impl Fence {
    /// The fence of a lease with this duration whose last successful request was sent at `sent`.
    pub(super) fn new(env: Env, duration: Duration, sent: Instant) -> Self {
        Self::with_validity(env, duration.saturating_sub(duration / DRIFT_MARGIN), sent)
    }

    /// A permission that has ended: it admits no write. For programs that use the code of a leader only to
    /// read.
    pub fn ended(env: Env) -> Self {
        let sent = Instant::now(&env);
        Self::with_validity(env, Duration::ZERO, sent)
    }

    pub(crate) fn with_validity(env: Env, validity: Duration, sent: Instant) -> Self {
        Self(Arc::new(State {
            env,
            validity,
            term: Mutex::new(Term { since: sent, ended: false }),
            ended: CancellationToken::new(),
        }))
    }

    /// How long the permission lasts if no renewal succeeds. Zero after it has ended.
    ///
    /// The first call that returns zero ends the permission permanently.
    pub fn remaining(&self) -> Duration {
        let remaining = self.0.remaining(&mut self.0.term.lock());
        if remaining.is_zero() {
            self.0.ended.cancel();
        }
        remaining
    }

    /// Whether a write with this deadline may start now.
    pub fn admits(&self, deadline: Duration) -> bool {
        self.remaining() > deadline
    }

    /// Waits until the permission has ended.
    pub fn wait_until_ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let fence = self.clone();
        async move {
            loop {
                let remaining = fence.remaining();
                if remaining.is_zero() {
                    return;
                }
                let pause = fence.0.env.sleep(remaining.min(CHECK_INTERVAL));
                let ended = std::pin::pin!(fence.0.ended.cancelled());
                if let Either::Left(_) = select(ended, pause).await {
                    return;
                }
            }
        }
    }

    /// Ends the permission.
    pub(crate) fn end(&self) {
        self.0.term.lock().ended = true;
        self.0.ended.cancel();
    }

    /// Counts the validity from `sent`. Returns whether the permission lasts. A late response does not
    /// restore a permission that has ended, because its users may already have seen the end.
    pub(super) fn extend(&self, sent: Instant) -> bool {
        let mut term = self.0.term.lock();
        if self.0.remaining(&mut term).is_zero() {
            drop(term);
            self.0.ended.cancel();
            return false;
        }
        term.since = sent;
        true
    }
}

impl State {
    fn remaining(&self, term: &mut Term) -> Duration {
        if term.ended {
            return Duration::ZERO;
        }
        let remaining = self.validity.saturating_sub(term.since.elapsed(&self.env));
        term.ended = remaining.is_zero();
        remaining
    }
}

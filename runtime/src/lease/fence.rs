//! The permission to write, and when it ends.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::env::Env;

/// How often [`Fence::lost`] looks at the clocks: sleepers do not notice suspension or a wall clock that jumps.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The share of the lease's duration by which a fence ends early, because two machines' clocks do not run equally fast:
/// 1/100 is twenty times what an undisciplined quartz is off.
const DRIFT_MARGIN: u32 = 100;

/// Permission to write for as long as the lease is surely ours. Clones are the same permission.
///
/// Before every write ask [`Fence::admits`] with the deadline of that write, and give up the write when the deadline has
/// passed: then even the last write of a leader arrives before its successor's first, the time inside the server apart.
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

/// A moment on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant {
    uptime: Duration,
    wall: Timestamp,
}

impl Instant {
    pub(super) fn now(env: &Env) -> Self {
        Self { uptime: env.uptime(), wall: env.now() }
    }

    pub(super) fn wall(&self) -> Timestamp {
        self.wall
    }

    /// What has passed since, on the clock that says more.
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
    /// A fence of a lease of `duration` whose last successful request was sent at `sent`.
    pub(super) fn new(env: Env, duration: Duration, sent: Instant) -> Self {
        Self::with_validity(env, duration.saturating_sub(duration / DRIFT_MARGIN), sent)
    }

    pub(super) fn with_validity(env: Env, validity: Duration, sent: Instant) -> Self {
        Self(Arc::new(State {
            env,
            validity,
            term: Mutex::new(Term { since: sent, ended: false }),
            ended: CancellationToken::new(),
        }))
    }

    /// How long the permission still lasts if no renewal succeeds; zero once it has ended.
    ///
    /// The first call that says zero ends it for good.
    pub fn remaining(&self) -> Duration {
        let remaining = self.0.remaining(&mut self.0.term.lock());
        if remaining.is_zero() {
            self.0.ended.cancel();
        }
        remaining
    }

    /// Whether a write that is given up after `deadline` may start now.
    pub fn admits(&self, deadline: Duration) -> bool {
        self.remaining() > deadline
    }

    /// Waits until the permission has ended.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let fence = self.clone();
        async move {
            loop {
                let remaining = fence.remaining();
                if remaining.is_zero() {
                    return;
                }
                let pause = fence.0.env.sleep(remaining.min(LOOK_INTERVAL));
                let ended = std::pin::pin!(fence.0.ended.cancelled());
                if let Either::Left(_) = select(ended, pause).await {
                    return;
                }
            }
        }
    }

    /// Ends the permission now.
    pub(super) fn end(&self) {
        self.0.term.lock().ended = true;
        self.0.ended.cancel();
    }

    /// Counts validity from `sent` from now on. Returns whether the permission lasts: one that has ended is not revived
    /// by a late answer, because its user may have seen the end already.
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

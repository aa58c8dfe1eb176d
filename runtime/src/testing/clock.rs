//! A clock that only a test advances.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::idle::Idle;
use crate::env::Clock;

/// How often [`ManualClock::settle`] yields to other tasks of a runtime without [`NoTarget`]. A request
/// through a client takes about ten yields, so a task that needs more than this is in a loop.
const YIELDS: usize = 100;

/// A clock that only a test advances. Clones share the time. A clone by
/// [`ManualClock::with_separate_wall_clock`] has a separate wall clock.
///
/// It simulates the three clocks of a machine: sleepers wait while the machine runs, the uptime includes
/// suspension, and the wall clock can be set.
#[derive(Debug, Clone)]
pub struct ManualClock {
    shared: Arc<Mutex<Shared>>,
    wall_offset: Arc<Mutex<SignedDuration>>,
    idle: Option<Idle>,
}

#[derive(Debug, Default)]
struct Shared {
    uptime: Duration,
    /// The uptime without suspension. Sleepers wait for this time.
    running: Duration,
    /// Sleepers by the running time at which they wake, and then by the order in which they started.
    sleepers: BTreeMap<(Duration, u64), Option<Waker>>,
    next_sleeper: u64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// The initial wall-clock time: 2030-01-01T00:00:00Z.
    pub const START: Timestamp = Timestamp::constant(1_893_456_000, 0);

    /// The initial uptime.
    const INITIAL_UPTIME: Duration = Duration::from_hours(1);

    /// A clock at [`ManualClock::START`] with an uptime of one hour.
    pub fn new() -> Self {
        let shared =
            Shared { uptime: Self::INITIAL_UPTIME, running: Self::INITIAL_UPTIME, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), wall_offset: Arc::default(), idle: None }
    }

    /// A clock for the runtime of `idle`. It advances only when all tasks of the runtime wait.
    pub fn of(idle: Idle) -> Self {
        Self { idle: Some(idle), ..Self::new() }
    }

    /// A clock with the same time and a separate wall clock, for another machine.
    #[must_use]
    pub fn with_separate_wall_clock(&self) -> Self {
        let offset = *self.wall_offset.lock();
        Self {
            shared: Arc::clone(&self.shared),
            wall_offset: Arc::new(Mutex::new(offset)),
            idle: self.idle.clone(),
        }
    }

    /// Advances the clock by `duration`. Each sleeper wakes at its time, in order, and its reactions complete
    /// before the clock advances further.
    pub async fn advance(&self, duration: Duration) {
        let end = self.shared.lock().running + duration;
        loop {
            self.settle().await;
            if !self.wake_next(end) {
                break;
            }
        }
        self.settle().await;
    }

    /// Runs the tasks of the current runtime until all of them wait.
    pub async fn settle(&self) {
        if let Some(idle) = &self.idle {
            return idle.wait().await;
        }
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    }

    /// Suspends the machine for `duration`: uptime and wall clock advance, and sleepers continue to wait.
    pub fn suspend(&self, duration: Duration) {
        self.shared.lock().uptime += duration;
    }

    /// Sets the wall clock forward, or back if `by` is negative.
    pub fn step_wall(&self, by: SignedDuration) {
        *self.wall_offset.lock() += by;
    }

    /// The time until the next sleeper wakes; `None` without sleepers.
    pub fn until_next(&self) -> Option<Duration> {
        let shared = self.shared.lock();
        shared.sleepers.keys().next().map(|(due, _)| due.saturating_sub(shared.running))
    }

    /// The number of sleepers.
    pub fn sleepers(&self) -> usize {
        self.shared.lock().sleepers.len()
    }

    /// Advances to the next sleeper until `end` and wakes it, or advances to `end`. Returns whether a sleeper
    /// was woken.
    fn wake_next(&self, end: Duration) -> bool {
        let mut shared = self.shared.lock();
        let next = shared.sleepers.keys().next().copied().filter(|(due, _)| *due <= end);
        let target = next.map_or(end, |(due, _)| due.max(shared.running));
        let passed = target.saturating_sub(shared.running);
        shared.uptime += passed;
        shared.running = target;
        let Some(key) = next else { return false };
        let waker = shared.sleepers.remove(&key).flatten();
        drop(shared);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let uptime = self.shared.lock().uptime;
        Self::START + uptime - Self::INITIAL_UPTIME + *self.wall_offset.lock()
    }

    fn uptime(&self) -> Duration {
        self.shared.lock().uptime
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration.is_zero() {
            return futures::future::ready(()).boxed();
        }
        let mut shared = self.shared.lock();
        let key = (shared.running.saturating_add(duration), shared.next_sleeper);
        shared.next_sleeper += 1;
        shared.sleepers.insert(key, None);
        let sleeper = Sleeper { shared: Arc::clone(&self.shared), key };
        drop(shared);
        futures::future::poll_fn(move |cx| sleeper.poll(cx.waker())).boxed()
    }
}

struct Sleeper {
    shared: Arc<Mutex<Shared>>,
    key: (Duration, u64),
}

impl Sleeper {
    fn poll(&self, waker: &Waker) -> Poll<()> {
        match self.shared.lock().sleepers.get_mut(&self.key) {
            Some(slot) => {
                *slot = Some(waker.clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.shared.lock().sleepers.remove(&self.key);
    }
}

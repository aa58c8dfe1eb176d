//! A clock that stands still until a test moves it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::Idle;
use crate::env::Clock;

/// How often [`ManualClock::settle`] lets the other tasks of the runtime run, if nobody tells when they are done. A request
/// through a client takes about ten turns; what needs more than this is not a reaction but a loop.
const TURNS: usize = 100;

/// A clock that moves only when told to. Clones share the time, but not what [`ManualClock::step_wall`] did to a
/// [`ManualClock::with_own_wall`].
///
/// It keeps the three clocks of a machine apart: sleepers wait for time during which the machine runs, uptime also
/// counts suspension, and the wall clock can be set.
#[derive(Debug, Clone)]
pub struct ManualClock {
    shared: Arc<Mutex<Shared>>,
    wall_offset: Arc<Mutex<SignedDuration>>,
    idle: Option<Idle>,
}

#[derive(Debug, Default)]
struct Shared {
    uptime: Duration,
    /// The part of the uptime during which the machine was not suspended: what sleepers wait for.
    running: Duration,
    /// By the running time at which they wake, then in the order in which they fell asleep.
    sleepers: BTreeMap<(Duration, u64), Option<Waker>>,
    fallen_asleep: u64,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// The wall-clock time at which every manual clock begins: 2030-01-01T00:00:00Z.
    pub const START: Timestamp = Timestamp::constant(1_893_456_000, 0);

    /// The uptime at [`ManualClock::START`].
    const BEGUN: Duration = Duration::from_hours(1);

    /// A clock at [`ManualClock::START`] with an uptime of an hour.
    pub fn new() -> Self {
        let shared = Shared { uptime: Self::BEGUN, running: Self::BEGUN, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), wall_offset: Arc::default(), idle: None }
    }

    /// The same for the tasks of the runtime that `idle` belongs to: it moves on as soon as they have nothing to do, and
    /// not before.
    pub fn of(idle: Idle) -> Self {
        Self { idle: Some(idle), ..Self::new() }
    }

    /// The same time, but with a wall clock that is set apart from the others: another machine in the same world.
    #[must_use]
    pub fn with_own_wall(&self) -> Self {
        let offset = *self.wall_offset.lock();
        Self {
            shared: Arc::clone(&self.shared),
            wall_offset: Arc::new(Mutex::new(offset)),
            idle: self.idle.clone(),
        }
    }

    /// Lets `duration` pass, and the tasks of the current runtime with it: every sleeper wakes at its own time, in
    /// order, and what it causes happens before the clock moves on.
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

    /// Lets the tasks of the current runtime do all that they can do without time passing.
    pub async fn settle(&self) {
        if let Some(idle) = &self.idle {
            return idle.wait().await;
        }
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
    }

    /// Suspends the machine for `duration`: uptime and wall clock go on, sleepers do not notice.
    pub fn suspend(&self, duration: Duration) {
        self.shared.lock().uptime += duration;
    }

    /// Sets the wall clock forward, or back if `by` is negative.
    pub fn step_wall(&self, by: SignedDuration) {
        *self.wall_offset.lock() += by;
    }

    /// How long nothing would happen if time passed: until the next sleeper wakes. `None` if nobody sleeps.
    pub fn until_next(&self) -> Option<Duration> {
        let shared = self.shared.lock();
        shared.sleepers.keys().next().map(|(due, _)| due.saturating_sub(shared.running))
    }

    /// How many sleepers wait.
    pub fn sleepers(&self) -> usize {
        self.shared.lock().sleepers.len()
    }

    /// Moves to the next sleeper up to `end` and wakes it, or to `end` if there is none. Returns whether one was woken.
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
        Self::START + uptime - Self::BEGUN + *self.wall_offset.lock()
    }

    fn uptime(&self) -> Duration {
        self.shared.lock().uptime
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration.is_zero() {
            return futures::future::ready(()).boxed();
        }
        let mut shared = self.shared.lock();
        let key = (shared.running.saturating_add(duration), shared.fallen_asleep);
        shared.fallen_asleep += 1;
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

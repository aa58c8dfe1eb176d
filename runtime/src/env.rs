//! The injected environment: time, randomness and tasks.
//!
//! Code that takes an [`Env`] and a client can be replayed step by step, because a test decides what time it is, which
//! random numbers come and when a task runs. See [`crate::testing`] for the environment of tests.

mod system;
mod task;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt as _, select};
use jiff::Timestamp;
use tracing::Instrument as _;

pub use system::{SystemClock, SystemEntropy, TokioSpawner};
pub use task::{Task, TaskError};

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time. It may jump in both directions; use it for what is written into objects.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point, such as the start of the machine. It never goes back, and it goes on while the
    /// machine is suspended.
    fn uptime(&self) -> Duration;

    /// Waits for `duration`. Time spent suspended need not count.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Gives random numbers.
pub trait Entropy: Send + Sync + 'static {
    /// The next number, uniform over all of `u64`.
    fn next(&self) -> u64;
}

/// Runs futures to their end.
pub trait Spawner: Send + Sync + 'static {
    /// Begins to run `future`. It stops by itself when the [`Task`] that stands for it is dropped, so an implementation
    /// only has to poll it.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>);
}

/// The time ran out before the future of [`Env::timeout`] was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct Elapsed(pub Duration);

/// Time, randomness and tasks of one process or, in a test, of one instance of it. Clones share them.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    spawner: Arc<dyn Spawner>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Env {
    /// The real environment: the system's clocks and random numbers, and the current tokio runtime.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemEntropy), Arc::new(TokioSpawner))
    }

    /// An environment of the given parts.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, spawner: Arc<dyn Spawner>) -> Self {
        Self { clock, entropy, spawner }
    }

    /// Wall-clock time, for what is written into objects. It may jump in both directions.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time since a fixed point that counts suspension and never goes back; differences of it measure what has passed.
    pub fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }

    /// A random number, uniform over all of `u64`.
    pub fn random(&self) -> u64 {
        self.entropy.next()
    }

    /// A random duration between zero and `limit`, both included; it spreads out what would otherwise happen at once.
    pub fn jitter(&self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        match nanos.checked_add(1) {
            Some(choices) => Duration::from_nanos(self.random() % choices),
            None => Duration::from_nanos(self.random()),
        }
    }

    /// Runs `future` beside the caller, within the caller's tracing span. Dropping the [`Task`] ends it.
    ///
    /// A panic ends the task alone: it is logged, and [`Task::join`] returns it.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let (task, future) = task::supervise(name, future.in_current_span());
        self.spawner.spawn(name, future.boxed());
        task
    }

    /// Runs `future` for at most `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] if it was not done by then; the future is dropped. A result that is there when the time runs out wins.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let future = std::pin::pin!(future);
        match select(future, self.sleep(limit)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(Elapsed(limit)),
        }
    }
}

#[cfg(test)]
mod tests;

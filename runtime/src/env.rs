//! The injected environment: time, randomness and tasks.
//!
//! A test that injects an [`Env`] and a client controls the time, the random numbers and the order of tasks.
//! The module `testing` contains the environment for tests.

mod sources;
mod system;
mod task;

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt as _, select};
use jiff::Timestamp;
use tracing::Instrument as _;

pub use sources::{Clock, Entropy, Spawner};
pub use system::{SystemClock, SystemEntropy, TokioSpawner};
pub use task::{Task, TaskError};

/// The future of [`Env::timeout`] did not complete in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no response within {0:?}")]
pub struct TimeoutElapsed(pub Duration);

/// The time, randomness and tasks of one process or, in a test, of one simulated process. Clones share them.
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
    /// The environment of the operating system: its clocks and random numbers, and the current tokio runtime.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemEntropy), Arc::new(TokioSpawner))
    }

    /// An environment with these sources.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>, spawner: Arc<dyn Spawner>) -> Self {
        Self { clock, entropy, spawner }
    }

    /// The wall-clock time, for times that are stored in objects. It may jump forward and back.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time since a fixed point. It includes suspension and never decreases. Use it to measure durations.
    pub fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }

    /// A random number, uniformly distributed over `u64`.
    pub fn random(&self) -> u64 {
        self.entropy.next()
    }

    /// A random duration from zero to `limit`, inclusive. It spreads operations that would otherwise
    /// coincide.
    pub fn jitter(&self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        match nanos.checked_add(1) {
            Some(choices) => Duration::from_nanos(self.random() % choices),
            None => Duration::from_nanos(self.random()),
        }
    }

    /// Runs `future` as a task within the tracing span of the caller. Dropping the [`Task`] ends it.
    ///
    /// A panic ends only the task. It is logged, and [`Task::join`] returns it.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let (task, future) = task::supervise_task(name, future.in_current_span());
        self.spawner.spawn(name, future.boxed());
        task
    }

    /// Runs `future` for at most `limit`.
    ///
    /// # Errors
    /// [`TimeoutElapsed`] if the future does not complete in time. The future is then dropped. If the result
    /// is available when the time ends, it is returned.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, TimeoutElapsed> {
        let future = std::pin::pin!(future);
        match select(future, self.sleep(limit)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(TimeoutElapsed(limit)),
        }
    }
}

#[cfg(test)]
mod tests;

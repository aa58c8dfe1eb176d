//! The interfaces for time, randomness and tasks.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time. It may jump forward and back. Use it for times that are stored in objects.
    fn now(&self) -> Timestamp;

    /// The time since a fixed point, such as the boot of the machine. It never decreases, and it includes the
    /// time in which the machine is suspended.
    fn uptime(&self) -> Duration;

    /// Waits for `duration`. The time in which the machine is suspended may not count.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// A source of random numbers.
pub trait Entropy: Send + Sync + 'static {
    /// The next number, uniformly distributed over `u64`.
    fn next(&self) -> u64;
}

/// Runs futures as tasks.
pub trait Spawner: Send + Sync + 'static {
    /// Starts to poll `future`. The future ends by itself when its [`Task`](super::Task) is dropped, so an
    /// implementation only has to poll it.
    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>);
}

//! The real environment. The only place that reads ambient clocks and randomness.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;

use super::{Clock, Entropy, Spawner};

/// The system's clocks: real time, boot time for [`Clock::uptime`], tokio's timers for [`Clock::sleep`].
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is what stands behind Env::now")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is what stands behind Env::uptime")]
    fn uptime(&self) -> Duration {
        let time = rustix::time::clock_gettime(ClockId::Boottime);
        Duration::try_from(time).expect("the boot-time clock begins at zero")
    }

    #[expect(clippy::disallowed_methods, reason = "this is what stands behind Env::sleep")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }
}

/// The kernel's random numbers.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is what stands behind Env::random")]
    fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        // Up to 256 bytes come in one piece and uninterrupted once the kernel's generator has started.
        let filled = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
            .expect("the kernel has random numbers");
        assert_eq!(filled, bytes.len(), "the kernel gives eight random bytes in one piece");
        u64::from_ne_bytes(bytes)
    }
}

/// Spawns on the tokio runtime of the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct TokioSpawner;

impl Spawner for TokioSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is what stands behind Env::spawn")]
    fn spawn(&self, _name: &'static str, future: BoxFuture<'static, ()>) {
        drop(tokio::spawn(future));
    }
}

//! The environment of the operating system. No other module uses ambient clocks and randomness.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;

use super::sources::{Clock, Entropy, Spawner};

/// The clocks of the system: real time for [`Clock::now`], boot time for [`Clock::uptime`] and the timers of
/// tokio for [`Clock::sleep`].
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the implementation of Env::now")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    #[expect(clippy::disallowed_methods, reason = "the implementation of Env::uptime")]
    fn uptime(&self) -> Duration {
        let time = rustix::time::clock_gettime(ClockId::Boottime);
        Duration::try_from(time).expect("the boot time is not negative")
    }

    #[expect(clippy::disallowed_methods, reason = "the implementation of Env::sleep")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }
}

/// The random numbers of the kernel.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the implementation of Env::random")]
    fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        // After the generator of the kernel is initialized, a request for up to 256 bytes is complete and
        // uninterrupted.
        let filled = rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())
            .expect("the kernel provides random numbers");
        assert_eq!(filled, bytes.len(), "the kernel returns all eight bytes");
        u64::from_ne_bytes(bytes)
    }
}

/// Spawns on the tokio runtime of the calling thread.
#[derive(Debug, Clone, Copy)]
pub struct TokioSpawner;

impl Spawner for TokioSpawner {
    #[expect(clippy::disallowed_methods, reason = "the implementation of Env::spawn")]
    fn spawn(&self, _name: &'static str, future: BoxFuture<'static, ()>) {
        drop(tokio::spawn(future));
    }
}

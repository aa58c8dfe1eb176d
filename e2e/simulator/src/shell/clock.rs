//! The clock of the model.

use jiff::Timestamp;
use tokio::time::Instant;

/// Wall-clock time that does not jump: it is read once and continued with the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatorClock {
    wall: Timestamp,
    monotonic: Instant,
}

impl SimulatorClock {
    pub(super) fn start() -> Self {
        Self { wall: Timestamp::now(), monotonic: Instant::now() }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.wall + self.monotonic.elapsed()
    }

    /// The instant of a time. Times before the start are mapped to the start.
    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        let since_start = at.duration_since(self.wall);
        self.monotonic + std::time::Duration::try_from(since_start).unwrap_or_default()
    }
}

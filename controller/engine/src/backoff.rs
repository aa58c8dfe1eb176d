//! Backoff of one kind of write: after a failure, a delay that doubles up to one minute, and batches of 1, 2,
//! 4, ... writes.

use std::time::Duration;

use crate::failure::PoolFailure;

/// Maximum number of writes of one kind in one pass. It keeps passes short, so that each pass plans with
/// recent state.
pub const MAX_BATCH: usize = 500;

/// The delay after the first failure. It doubles with every further failure.
const INITIAL_DELAY: Duration = Duration::from_millis(250);

/// The maximum delay.
pub const MAX_DELAY: Duration = Duration::from_mins(1);

/// The backoff of one kind of write in one pool.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    /// Number of consecutive failures.
    failures: u32,
    /// Size of the next batch; `None` means [`MAX_BATCH`].
    batch_size: Option<usize>,
    /// Uptime until which no write starts.
    until: Duration,
    /// Why the last attempt failed.
    cause: Option<PoolFailure>,
}

impl Backoff {
    /// The number of writes that may start now.
    ///
    /// # Errors
    /// The remaining delay, if no write may start yet.
    pub fn batch_size(&self, uptime: Duration) -> Result<usize, Duration> {
        match self.until.checked_sub(uptime) {
            Some(rest) if !rest.is_zero() => Err(rest),
            _ => Ok(self.batch_size.unwrap_or(MAX_BATCH)),
        }
    }

    /// Records a batch without failures.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.cause = None;
        self.until = Duration::ZERO;
        self.batch_size =
            self.batch_size.map(|batch_size| batch_size * 2).filter(|batch_size| *batch_size < MAX_BATCH);
    }

    /// Records a failure in a batch. `jitter` is between 0 and 1 and shortens the delay by up to a tenth, so
    /// that pools do not retry at the same time. `retry_after` is the delay that the API server requested.
    pub fn failed(
        &mut self,
        cause: PoolFailure,
        uptime: Duration,
        retry_after: Option<Duration>,
        jitter: f64,
    ) {
        let delay = INITIAL_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_DELAY);
        let delay = delay.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 10.0).max(retry_after.unwrap_or_default());
        self.failures = self.failures.saturating_add(1);
        self.batch_size = Some(1);
        self.until = uptime.saturating_add(delay.min(MAX_DELAY));
        self.cause = Some(cause);
    }

    /// Clears all failures: the plan no longer contains this kind of write, or a user changed the pool.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Why the last attempt failed; `None` after a success.
    pub fn cause(&self) -> Option<&PoolFailure> {
        self.cause.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureReason;

    fn failure() -> PoolFailure {
        PoolFailure { reason: FailureReason::FailedCreate, message: "no".into() }
    }

    #[test]
    fn a_full_quota_costs_one_request_per_try_and_the_pauses_are_bounded() {
        let (mut backoff, mut now) = (Backoff::default(), Duration::ZERO);
        assert_eq!(backoff.batch_size(now), Ok(MAX_BATCH));
        let mut delays = Vec::new();
        for _ in 0..12 {
            backoff.failed(failure(), now, None, 0.0);
            let delay = backoff.batch_size(now).unwrap_err();
            delays.push(delay.as_millis());
            now += delay;
            assert_eq!(backoff.batch_size(now), Ok(1));
        }
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000, 60000]);
    }

    #[test]
    fn after_a_failure_the_batches_grow_until_they_are_full_again() {
        let mut backoff = Backoff::default();
        backoff.failed(failure(), Duration::ZERO, None, 0.5);
        assert_eq!(backoff.cause(), Some(&failure()));
        let now = Duration::from_secs(1);
        let mut batch_sizes = Vec::new();
        for _ in 0..10 {
            batch_sizes.push(backoff.batch_size(now).unwrap());
            backoff.succeeded();
        }
        assert_eq!(batch_sizes, [1, 2, 4, 8, 16, 32, 64, 128, 256, MAX_BATCH]);
        assert_eq!(backoff.cause(), None);
    }

    #[test]
    fn the_server_may_ask_for_a_longer_pause_but_not_beyond_the_bound() {
        let mut backoff = Backoff::default();
        backoff.failed(failure(), Duration::ZERO, Some(Duration::from_secs(7)), 0.0);
        assert_eq!(backoff.batch_size(Duration::ZERO), Err(Duration::from_secs(7)));
        backoff.failed(failure(), Duration::ZERO, Some(Duration::from_secs(7000)), 0.0);
        assert_eq!(backoff.batch_size(Duration::ZERO), Err(MAX_DELAY));
    }
}

//! How much may be tried now: full width until something fails, then 1, 2, 4, ... with growing pauses.

use std::time::Duration;

/// Most writes of one kind that one pass plans, so that a pass stays short and sees the world again.
pub const MAX_BATCH: usize = 500;

/// The pause after the first failure; it doubles with every further one.
const INITIAL_DELAY: Duration = Duration::from_millis(250);

/// The longest pause.
pub const MAX_DELAY: Duration = Duration::from_mins(1);

/// The pace of one kind of write in one pool.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    /// Failures in a row.
    failures: u32,
    /// Writes that the next batch may have; `None` is [`MAX_BATCH`].
    batch_size: Option<usize>,
    /// Uptime before which nothing is tried.
    until: Duration,
    /// Why the last attempt failed.
    cause: Option<Failure>,
}

/// Why something that the plan wanted did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The word in the condition, the event and the metric.
    pub reason: FailureReason,
    /// A sentence with the cause, as the API server gave it.
    pub message: String,
}

/// What could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Creating a machine.
    FailedCreate,
    /// Deleting a machine.
    FailedDelete,
    /// Creating a disk, or pointing a machine to it.
    DiskFailure,
    /// Writing back our markers.
    FailedRepair,
    /// Writing a template to a machine.
    FailedTemplateUpdate,
    /// Nothing: somebody else keeps writing the pool's status, so that nothing is tried.
    StatusDisputed,
}

impl FailureReason {
    /// The reason as it stands in the `ReplicaFailure` condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FailedCreate => "FailedCreate",
            Self::FailedDelete => "FailedDelete",
            Self::DiskFailure => "DiskFailure",
            Self::FailedRepair => "FailedRepair",
            Self::FailedTemplateUpdate => "FailedTemplateUpdate",
            Self::StatusDisputed => "StatusDisputed",
        }
    }
}

impl Backoff {
    /// How many writes may start now, or how long nothing may.
    ///
    /// # Errors
    /// The remaining pause.
    pub fn batch_size(&self, uptime: Duration) -> Result<usize, Duration> {
        match self.until.checked_sub(uptime) {
            Some(rest) if !rest.is_zero() => Err(rest),
            _ => Ok(self.batch_size.unwrap_or(MAX_BATCH)),
        }
    }

    /// A batch went through.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.cause = None;
        self.until = Duration::ZERO;
        self.batch_size =
            self.batch_size.map(|batch_size| batch_size * 2).filter(|batch_size| *batch_size < MAX_BATCH);
    }

    /// Something in a batch failed. `jitter` is between 0 and 1 and spreads the pauses of many pools by a tenth;
    /// `retry_after` is what the server asked for.
    pub fn failed(&mut self, cause: Failure, uptime: Duration, retry_after: Option<Duration>, jitter: f64) {
        let delay = INITIAL_DELAY.saturating_mul(1 << self.failures.min(16)).min(MAX_DELAY);
        let delay = delay.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 10.0).max(retry_after.unwrap_or_default());
        self.failures = self.failures.saturating_add(1);
        self.batch_size = Some(1);
        self.until = uptime.saturating_add(delay.min(MAX_DELAY));
        self.cause = Some(cause);
    }

    /// Nothing of this kind is wanted any more, or the owner changed the pool: start afresh.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Why the last attempt failed; `None` after a success.
    pub fn cause(&self) -> Option<&Failure> {
        self.cause.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure { reason: FailureReason::FailedCreate, message: "no".into() }
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

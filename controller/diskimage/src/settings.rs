//! Limits of imports, which an administrator sets.

use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// How many images may be imported at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportConcurrency {
    /// In the whole cluster.
    pub all: usize,
    /// Of one namespace.
    pub per_namespace: usize,
}

/// Limits of imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportLimits {
    /// Number of images that are imported at the same time, in the whole cluster.
    pub max_concurrent_syncs: usize,
    /// Number of images of one namespace that are imported at the same time.
    pub max_concurrent_syncs_per_namespace: usize,
    /// The longest duration of one attempt.
    pub max_attempt_duration: Duration,
    /// The attempt fails when its transfer was restarted this often.
    pub max_attempt_restarts: u32,
    /// The first wait after a failure is three of these, and each further one three times as long.
    pub backoff_unit: Duration,
    /// The longest wait after a failure.
    pub max_backoff: Duration,
    /// The longest duration of all attempts together. After it, the controller does not try again.
    pub max_sync_duration: Duration,
    /// How long a new snapshot may take to become ready.
    pub snapshot_timeout: Duration,
    /// How long a snapshot that was ready may be not ready, before the controller takes a new one.
    pub snapshot_unready_grace: Duration,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            max_concurrent_syncs: 10,
            max_concurrent_syncs_per_namespace: 5,
            max_attempt_duration: HOUR,
            max_attempt_restarts: 3,
            backoff_unit: MINUTE,
            max_backoff: HOUR,
            max_sync_duration: 12 * HOUR,
            snapshot_timeout: 30 * MINUTE,
            snapshot_unready_grace: 5 * MINUTE,
        }
    }
}

impl ImportLimits {
    /// The places in the queue of imports.
    pub fn import_concurrency(&self) -> ImportConcurrency {
        ImportConcurrency {
            all: self.max_concurrent_syncs,
            per_namespace: self.max_concurrent_syncs_per_namespace,
        }
    }

    /// The wait after this number of failed attempts.
    pub fn backoff(&self, failures: u32) -> Duration {
        let units = 3_u32.checked_pow(failures).unwrap_or(u32::MAX);
        self.backoff_unit.checked_mul(units).map_or(self.max_backoff, |wait| wait.min(self.max_backoff))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::after_the_first_failure(1, 3 * MINUTE)]
    #[case::after_the_second(2, 9 * MINUTE)]
    #[case::after_the_third(3, 27 * MINUTE)]
    #[case::at_most_an_hour(4, HOUR)]
    #[case::without_overflow(u32::MAX, HOUR)]
    fn the_wait_grows_to_its_limit(#[case] failures: u32, #[case] wait: Duration) {
        assert_eq!(ImportLimits::default().backoff(failures), wait);
    }
}

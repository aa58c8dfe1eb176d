//! The configuration of a lease.

use std::time::Duration;

/// The Lease, the identity and the intervals of a candidate. [`crate::args::LeaseArgs`] creates it from
/// flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The identity of this process. No other process may use the same identity.
    pub identity: String,
    /// How long a leader leads without a successful renewal, and how long standbys wait before they replace
    /// an unresponsive leader. The Lease stores it in whole seconds, rounded up.
    pub duration: Duration,
    /// The interval at which the leader renews the Lease. Standbys read it at the same interval, and at least
    /// twice a second.
    pub renew_interval: Duration,
    /// The deadline of each request for the Lease.
    pub request_deadline: Duration,
}

impl LeaseConfig {
    /// The default of [`LeaseConfig::duration`].
    pub const DURATION: Duration = Duration::from_secs(15);
    /// The default of [`LeaseConfig::renew_interval`].
    pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
    /// The default of [`LeaseConfig::request_deadline`].
    pub const REQUEST_DEADLINE: Duration = Duration::from_secs(3);

    /// A configuration with the default durations.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Self::DURATION,
            renew_interval: Self::RENEW_INTERVAL,
            request_deadline: Self::REQUEST_DEADLINE,
        }
    }

    /// The pause before a failed request is retried.
    pub(super) fn retry_interval(&self) -> Duration {
        self.renew_interval.min(Duration::from_secs(1))
    }

    /// The maximum interval between reads of a candidate. It bounds how late the candidate detects a release
    /// or a renewal.
    pub(super) fn poll_interval(&self) -> Duration {
        self.renew_interval.min(Duration::from_millis(500))
    }
}

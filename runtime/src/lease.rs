//! The fenced lease: at most one process at a time may believe that it leads.
//!
//! ```text
//!            acquire                    renew, each time from before the request
//! Candidate ─────────> Leadership ──┐ <──────────────────────────────────────────┐
//!     ^                   │ fence   └────────────────────────────────────────────┘
//!     │   lost: validity ran out, or the Lease names somebody else
//!     └───────────────────┴──────> released: the next candidate need not wait
//! ```
//!
//! **What keeps two leaders apart.** A holder counts its validity from before it sent the request that the server
//! accepted; everybody else counts the same time from after they saw the result of that request. The second ends later,
//! whatever the clocks of the machines say: no remote time is ever compared with a local clock. Every write carries the
//! uid and the resourceVersion that was read, so a late request of anybody fails instead of overwriting.
//!
//! **Two clocks.** [`Fence::remaining`] takes the larger of what boot time and wall clock say has passed. Boot time
//! counts suspension of this machine; the wall clock also jumps when a whole virtual machine was paused. A wall clock
//! that goes back gives nothing: boot time then counts. A fence that has ended stays ended.
//!
//! **Assumptions.** Nobody else writes the Lease. If somebody does, safety is kept where it can be: a Lease that was
//! deleted or cleared by hand is waited out by every candidate that ever saw it held, and taken back by its leader; a
//! foreign holder ends the leadership at the next renewal. Only a process that *starts* between a deletion and the next
//! look of leader or standby (three seconds) cannot know of the leader, and may overlap with it for one renewal.

mod candidate;
mod error;
mod fence;
mod health;
mod leadership;
mod observation;
mod record;
mod store;
pub(crate) mod testing;

use std::time::Duration;

pub use candidate::Candidate;
pub use error::LeaseError;
pub use fence::Fence;
pub use health::LeaseHealth;
pub use leadership::Leadership;

/// Which Lease to compete for, as whom, and how fast. [`crate::args::LeaseArgs`] makes a checked one out of flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; no other process may use the same.
    pub identity: String,
    /// How long a leader may lead without a successful renewal, and so how long others wait for one that is gone. The
    /// Lease stores it in whole seconds, rounded up.
    pub duration: Duration,
    /// How often a leader renews. The others look as often, and at least twice a second.
    pub renew_interval: Duration,
    /// How long one request for the Lease may take.
    pub request_deadline: Duration,
}

impl LeaseConfig {
    /// Default of [`LeaseConfig::duration`].
    pub const DURATION: Duration = Duration::from_secs(15);
    /// Default of [`LeaseConfig::renew_interval`].
    pub const RENEW_INTERVAL: Duration = Duration::from_secs(3);
    /// Default of [`LeaseConfig::request_deadline`].
    pub const REQUEST_DEADLINE: Duration = Duration::from_secs(3);

    /// A configuration with the default times.
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

    /// How long to wait before a failed request is repeated.
    fn retry_interval(&self) -> Duration {
        self.renew_interval.min(Duration::from_secs(1))
    }

    /// How long a candidate waits at most before it looks again: a release is noticed after that time at most, and a
    /// renewal, from which its own wait counts, too.
    fn poll_interval(&self) -> Duration {
        self.renew_interval.min(Duration::from_millis(500))
    }
}

#[cfg(test)]
mod tests;

//! When a lease that somebody else held may be taken: judged by changes seen here, on this machine's clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::record::{self, Version};

/// What one candidate has seen of the Lease.
#[derive(Debug)]
pub(super) struct Observation {
    /// What was seen last; `None` before the first look.
    version: Option<Version>,
    /// The uptime before which some holder may still be valid.
    free_at: Duration,
    /// The longest validity that any holder so far may have had; `None` if no holder was ever heard of.
    longest: Option<Duration>,
    /// The validity to assume of a holder that does not state one.
    unstated: Duration,
}

impl Observation {
    pub(super) fn new(unstated: Duration) -> Self {
        Self { version: None, free_at: Duration::ZERO, longest: None, unstated }
    }

    /// Takes in that `lease` was read and that the answer was here at the uptime `now`. Returns whether it is another
    /// than before.
    ///
    /// Every change starts the wait again, whoever made it: it may stand for a renewal that came just before it. Only a
    /// proper release ends it: neither a deleted Lease nor a holder cleared by hand proves that
    /// the holder has noticed.
    pub(super) fn see(&mut self, lease: Option<&Lease>, now: Duration) -> bool {
        let version = Some(Version::of(lease));
        if self.version == version {
            return false;
        }
        self.version = version;
        if lease.is_some_and(record::is_released) {
            self.free_at = now;
            return true;
        }
        self.longest = self.longest.max(lease.and_then(|lease| self.validity(lease)));
        if let Some(longest) = self.longest {
            self.free_at = self.free_at.max(now + longest);
        }
        true
    }

    /// Takes in that somebody was faster: there was a holder, even if the next read finds nothing.
    pub(super) fn overtaken(&mut self) {
        self.version = None;
        self.longest = self.longest.max(Some(self.unstated));
    }

    /// The longest validity that any holder so far may have had; `None` if no holder was ever heard of.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// How long to wait at the uptime `now` until no earlier holder can be valid.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        self.free_at.saturating_sub(now)
    }

    fn validity(&self, lease: &Lease) -> Option<Duration> {
        let held = record::holder(lease).map(|_| self.unstated);
        record::duration(lease).or(held)
    }
}

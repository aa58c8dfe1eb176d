//! When a candidate may acquire a Lease that another process held, based on observed changes and the local
//! clock.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;

use super::record::{self, Version};

/// The observations of the Lease by one candidate.
#[derive(Debug)]
pub(super) struct LeaseObservation {
    /// The version in the last read; `None` before the first read.
    version: Option<Version>,
    /// The uptime until which a holder may still lead.
    free_at: Duration,
    /// The longest validity of any holder so far; `None` if there was no holder.
    longest: Option<Duration>,
    /// The validity of a holder whose Lease contains no duration.
    default: Duration,
}

impl LeaseObservation {
    pub(super) fn new(default: Duration) -> Self {
        Self { version: None, free_at: Duration::ZERO, longest: None, default }
    }

    /// Records a read of the Lease whose response arrived at the uptime `now`. Returns whether the Lease has
    /// changed.
    ///
    /// Every change by any client restarts the wait, because a renewal may have happened just before the
    /// change. Only a release ends the wait. If another client deletes the Lease or clears the holder, the
    /// holder may not know it yet.
    pub(super) fn record(&mut self, lease: Option<&Lease>, now: Duration) -> bool {
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

    /// Records that another candidate acquired the Lease first. There was a holder, even if the next read
    /// finds none.
    pub(super) fn record_conflict(&mut self) {
        self.version = None;
        self.longest = self.longest.max(Some(self.default));
    }

    /// The longest validity of any holder so far; `None` if there was no holder.
    pub(super) fn longest(&self) -> Option<Duration> {
        self.longest
    }

    /// The time from the uptime `now` until no earlier holder can lead.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        self.free_at.saturating_sub(now)
    }

    fn validity(&self, lease: &Lease) -> Option<Duration> {
        let held = record::lease_holder(lease).map(|_| self.default);
        record::lease_duration(lease).or(held)
    }
}

//! The limits of writes.

use std::time::Duration;

/// The limits of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// Maximum number of writes in flight. As many slow writes can be in flight in addition.
    pub in_flight: usize,
    /// The ordinary deadline. A write starts only if the lease lasts this long.
    pub deadline: Duration,
    /// The deadline of writes to a collection whose writes were slow. It is at least the time that a request
    /// can take in the API server.
    pub slow_deadline: Duration,
}

impl WriteLimits {
    /// The time after which a write is slow.
    pub(super) fn slow_after(self) -> Duration {
        self.deadline / 2
    }
}

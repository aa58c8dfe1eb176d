//! The clock of the API server, as the last answered create shows it.
//!
//! The API server writes the creation time of an object by its own clock. If the clock of the controller is
//! ahead, a new machine seems to be old. Each answered create says how late the clock of the API server can
//! be, and from then on the monotonic clock of the leader goes on with that time. A jump of the wall clock
//! therefore changes nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Creation times have whole seconds: the clock of the API server was ahead of them by less than this.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// The last answered create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// The creation time in the response.
    created: Timestamp,
    /// The uptime before the request was sent.
    sent: Duration,
}

impl ServerClock {
    /// The clock that the response to a create shows, whose request was sent at this uptime.
    pub const fn of_create(created: Timestamp, sent: Duration) -> Self {
        Self { created, sent }
    }

    /// The longest time that can have passed since the API server wrote this timestamp; zero if it is in the
    /// future. It includes the time that the last create took.
    pub(crate) fn longest_since(&self, written: Timestamp, uptime: Duration) -> Duration {
        let since_sent = SignedDuration::try_from(uptime.saturating_sub(self.sent));
        let elapsed = since_sent.unwrap_or(SignedDuration::MAX).saturating_add(ROUNDING);
        let longest = self.created.duration_since(written).saturating_add(elapsed);
        Duration::try_from(longest).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

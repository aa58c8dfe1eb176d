//! The clock of the API server, as its responses show it.
//!
//! The API server writes the creation time of an object by its own clock. If the clock of the controller is
//! ahead, a new machine seems to be old. Each response has the time at which the API server sent it, so it
//! says how late the clock of the API server can be, and from then on the monotonic clock of the leader goes
//! on with that time. A jump of the wall clock therefore changes nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The times in responses have whole seconds: the clock of the API server was ahead of them by less than
/// this.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// A response, and what it says about later times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerClock {
    /// The time in the response.
    date: Timestamp,
    /// The uptime before the request was sent.
    sent: Duration,
}

impl ServerClock {
    /// The clock that a response with this time shows, whose request was sent at this uptime.
    pub const fn of_response(date: Timestamp, sent: Duration) -> Self {
        Self { date, sent }
    }

    /// The longest time that can have passed since the API server wrote this timestamp; zero if it is in the
    /// future. It includes the time that the response took.
    pub(crate) fn longest_since(&self, written: Timestamp, uptime: Duration) -> Duration {
        let since_sent = SignedDuration::try_from(uptime.saturating_sub(self.sent));
        let elapsed = since_sent.unwrap_or(SignedDuration::MAX).saturating_add(ROUNDING);
        let longest = self.date.duration_since(written).saturating_add(elapsed);
        Duration::try_from(longest).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;

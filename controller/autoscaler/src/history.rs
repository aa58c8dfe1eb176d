//! What the demand needed in the last minutes, so that a short pause of the demand removes no machine.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

/// How far wall clock and uptime may differ between two passes. More means that the wall clock jumped.
pub const CLOCK_JUMP: Duration = Duration::from_secs(30);

/// A time on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock, by which schedules start and protection ends.
    pub now: Timestamp,
    /// The time since this process started.
    pub uptime: Duration,
}

impl Moment {
    /// Whether the wall clock jumped between this moment and a later one.
    fn has_jumped_until(self, later: Self) -> bool {
        let wall = later.now.as_nanosecond() - self.now.as_nanosecond();
        let elapsed = later.uptime.saturating_sub(self.uptime).as_nanos();
        let elapsed = i128::try_from(elapsed).unwrap_or(i128::MAX);
        (wall - elapsed).unsigned_abs() > CLOCK_JUMP.as_nanos()
    }
}

/// The desired numbers of machines since a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredHistory {
    began: Duration,
    last: Moment,
    /// The uptime from which a number was desired, and that number, which is smaller than all before it.
    steps: VecDeque<(Duration, u32)>,
}

impl DesiredHistory {
    /// A history that begins now.
    pub fn begin(moment: Moment) -> Self {
        Self { began: moment.uptime, last: moment, steps: VecDeque::new() }
    }

    /// Adds the number that is desired now. If the wall clock jumped, the history begins again.
    pub fn record(&mut self, moment: Moment, desired: u32) {
        if self.last.has_jumped_until(moment) {
            *self = Self::begin(moment);
        }
        self.last = moment;
        // A number that is not larger than a later one never decides again. The time from which it was
        // desired stays, because the number before it ended then.
        let mut since = moment.uptime;
        while let Some((at, _)) = self.steps.pop_back_if(|(_, number)| *number <= desired) {
            since = at;
        }
        self.steps.push_back((since, desired));
    }

    /// The highest number of the last `delay`; `None` if the history is shorter.
    pub fn highest(&mut self, delay: Duration) -> Option<u32> {
        let now = self.last.uptime;
        let begins = now.checked_sub(delay).filter(|begins| *begins >= self.began)?;
        // A number was desired until the next one.
        while self.steps.get(1).is_some_and(|(next, _)| *next <= begins) {
            self.steps.pop_front();
        }
        self.steps.front().map(|(_, number)| *number)
    }

    /// The time until the highest number of the last `delay` can become smaller.
    pub fn next_change(&self, delay: Duration) -> Option<Duration> {
        let due = if self.began + delay > self.last.uptime {
            self.began + delay
        } else {
            self.steps.get(1)?.0 + delay
        };
        Some(due.saturating_sub(self.last.uptime))
    }
}

#[cfg(test)]
mod tests;

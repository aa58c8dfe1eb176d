//! The clock of a pool: when it last made progress.

use std::time::Duration;

/// How far a pool is from its spec. Each number is zero if nothing is left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolDistance {
    /// Desired machines that do not exist.
    pub missing: usize,
    /// Machines above the desired number that the pool does not keep.
    pub surplus: usize,
    /// Desired machines that are not ready, or do not exist.
    pub unready: usize,
    /// Machines in which the current revision is not in effect.
    pub outdated: usize,
    /// One while the controller repeats a failed read or write.
    pub failing: usize,
}

impl PoolDistance {
    /// Whether a part of it is smaller than in `nearest`.
    fn is_nearer(self, nearest: Self) -> bool {
        self.missing < nearest.missing
            || self.surplus < nearest.surplus
            || self.unready < nearest.unready
            || self.outdated < nearest.outdated
            || self.failing < nearest.failing
    }

    /// The smaller of each part.
    fn nearest(self, other: Self) -> Self {
        Self {
            missing: self.missing.min(other.missing),
            surplus: self.surplus.min(other.surplus),
            unready: self.unready.min(other.unready),
            outdated: self.outdated.min(other.outdated),
            failing: self.failing.min(other.failing),
        }
    }
}

/// Since when a pool has made no progress. The default is a clock that does not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressClock {
    running: Option<RunningClock>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunningClock {
    /// Uptime of the last progress.
    since: Duration,
    /// The smallest distance since the clock began.
    nearest: PoolDistance,
}

impl ProgressClock {
    /// Stops the clock. When it runs again, it begins with the full deadline.
    pub(crate) fn reset(&mut self) {
        self.running = None;
    }

    /// Records the distance of the pool; `None` if only a wait or nothing is left, which stops the clock.
    pub(crate) fn observe(&mut self, distance: Option<PoolDistance>, uptime: Duration) {
        self.running = distance.map(|distance| match self.running {
            Some(RunningClock { since, nearest }) => RunningClock {
                since: if distance.is_nearer(nearest) { uptime } else { since },
                nearest: distance.nearest(nearest),
            },
            None => RunningClock { since: uptime, nearest: distance },
        });
    }

    /// Whether the pool has made no progress for `deadline`.
    pub fn is_overdue(&self, deadline: Duration, uptime: Duration) -> bool {
        self.running.is_some_and(|clock| uptime.saturating_sub(clock.since) >= deadline)
    }

    /// The time until [`is_overdue`](Self::is_overdue) holds; `None` if it holds, or if the clock does not
    /// run.
    pub fn time_left(&self, deadline: Duration, uptime: Duration) -> Option<Duration> {
        let age = uptime.saturating_sub(self.running?.since);
        deadline.checked_sub(age).filter(|left| !left.is_zero())
    }
}

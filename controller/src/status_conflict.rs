//! Whether somebody else keeps writing the status of a pool: two controllers that serve one pool would undo each
//! other's work, so ours stops acting on it.

use std::collections::VecDeque;
use std::time::Duration;

use vmpool_engine::backoff::{Failure, FailureReason};
use vmpool_engine::condition::OWN;
use vmpool_engine::model::Published;

/// How many times within [`WINDOW`] are more than an accident.
const TIMES: usize = 3;
/// How long one time counts.
const WINDOW: Duration = Duration::from_mins(5);
/// How long it must be quiet before ours acts again.
const QUIET: Duration = Duration::from_mins(3);
/// Shortest time between two writes of a disputed status: often enough to be read.
pub(crate) const INTERVAL: Duration = Duration::from_mins(1);

/// What is remembered of the fate of the status of one pool.
#[derive(Debug, Default)]
pub(crate) struct StatusConflict {
    /// What the server made of our last write, and the version of the pool since then.
    written: Option<(Published, u64)>,
    /// When others have overwritten ours; uptimes.
    overwritten: VecDeque<Duration>,
    active: bool,
}

impl StatusConflict {
    /// Takes note of our own write.
    pub(crate) fn wrote(&mut self, became: &Published, version: u64) {
        self.written = Some((became.clone(), version));
    }

    /// Takes note of the pool as it is: whether somebody has overwritten our last status since.
    pub(crate) fn observe(&mut self, published: &Published, version: u64, uptime: Duration) {
        while self.overwritten.front().is_some_and(|then| uptime.saturating_sub(*then) >= WINDOW) {
            self.overwritten.pop_front();
        }
        if self.written.take_if(|(became, since)| version > *since && !is_same(became, published)).is_some() {
            self.overwritten.push_back(uptime);
        }
        let is_quiet = self.remaining(uptime).is_none();
        self.active = !is_quiet && (self.active || self.overwritten.len() >= TIMES);
    }

    /// Whether nothing must be done.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// How much longer it has to be quiet; `None` if nobody has interfered for long enough.
    pub(crate) fn remaining(&self, uptime: Duration) -> Option<Duration> {
        let last = self.overwritten.back()?;
        QUIET.checked_sub(uptime.saturating_sub(*last)).filter(|left| !left.is_zero())
    }

    /// What the owner of the pool is told.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.active.then(|| Failure {
            reason: FailureReason::StatusDisputed,
            message: format!(
                "somebody else keeps writing this pool's status, so nothing is created, changed or removed until it \
                 has been quiet for {} minutes: let one controller serve the pool",
                QUIET.as_secs() / 60
            ),
        })
    }
}

/// Whether what is ours in two statuses is the same.
fn is_same(one: &Published, other: &Published) -> bool {
    let own = |published: &Published| {
        let mut own: Vec<_> =
            published.conditions.iter().filter(|known| OWN.contains(&known.kind.as_str())).cloned().collect();
        own.sort_by(|a, b| a.kind.cmp(&b.kind));
        own
    };
    one.summary == other.summary && own(one) == own(other)
}

#[cfg(test)]
mod tests;

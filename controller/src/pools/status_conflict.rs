//! Detects another client that keeps overwriting the status of a pool. Two controllers of one pool would undo
//! each other's writes, so vmpool stops writing to such a pool.

use std::collections::VecDeque;
use std::time::Duration;

use vmpool_engine::condition::StatusCondition;
use vmpool_engine::failure::{FailureReason, PoolFailure};
use vmpool_engine::ledger::REQUEST_TIMEOUT;
use vmpool_engine::model::PublishedStatus;

/// Number of overwrites within [`WINDOW`] that count as a conflict.
const TIMES: usize = 3;
/// How long an overwrite counts.
const WINDOW: Duration = Duration::from_mins(5);
/// Time without an overwrite after which the conflict ends.
const QUIET: Duration = Duration::from_mins(3);
/// How long a status write of this program may take effect after its response was lost: the limit of a
/// request at the API server.
const LATE: Duration = REQUEST_TIMEOUT;
/// Minimum time between two writes of the status during a conflict.
pub(crate) const INTERVAL: Duration = Duration::from_mins(1);

/// The recent overwrites of the status of one pool.
#[derive(Debug, Default)]
pub(crate) struct StatusConflict {
    /// The last written status as the API server stored it, and the version of the pool after the write.
    written: Option<(PublishedStatus, u64)>,
    /// Uptimes of the overwrites.
    overwritten: VecDeque<Duration>,
    /// Uptimes of the writes of this program that may still take effect: each explains one overwrite. `None`
    /// before the first pass of a leadership.
    unconfirmed: Option<VecDeque<Duration>>,
    active: bool,
}

impl StatusConflict {
    /// Records a write of the controller.
    pub(crate) fn wrote(&mut self, became: &PublishedStatus, version: u64) {
        self.written = Some((became.clone(), version));
    }

    /// Records a write whose response was lost: it may have taken effect, or may do so later.
    pub(crate) fn lost_response(&mut self, uptime: Duration) {
        self.unconfirmed.get_or_insert_default().push_back(uptime);
    }

    /// Checks whether another client has overwritten the last written status.
    ///
    /// A write of this program is no other client's: neither one whose response was lost, nor one that the
    /// earlier leader sent before it lost the lease.
    pub(crate) fn observe(&mut self, published: &PublishedStatus, version: u64, uptime: Duration) {
        while self.overwritten.front().is_some_and(|then| uptime.saturating_sub(*then) >= WINDOW) {
            self.overwritten.pop_front();
        }
        let unconfirmed = self.unconfirmed.get_or_insert_with(|| VecDeque::from([uptime]));
        while unconfirmed.front().is_some_and(|sent| uptime.saturating_sub(*sent) >= LATE) {
            unconfirmed.pop_front();
        }
        let is_overwritten =
            self.written.take_if(|(became, since)| version > *since && !is_same(became, published)).is_some();
        if is_overwritten && unconfirmed.pop_front().is_none() {
            self.overwritten.push_back(uptime);
        }
        let is_quiet = self.remaining(uptime).is_none();
        self.active = !is_quiet && (self.active || self.overwritten.len() >= TIMES);
    }

    /// Whether there is a conflict, so that the controller must not write to the pool.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Remaining time until the conflict ends; `None` if there was no recent overwrite.
    pub(crate) fn remaining(&self, uptime: Duration) -> Option<Duration> {
        let last = self.overwritten.back()?;
        QUIET.checked_sub(uptime.saturating_sub(*last)).filter(|left| !left.is_zero())
    }

    /// The failure to report during a conflict.
    pub(crate) fn failure(&self) -> Option<PoolFailure> {
        self.active.then(|| PoolFailure {
            reason: FailureReason::StatusDisputed,
            message: format!(
                "another client keeps overwriting the status of this pool, so the controller creates, changes and \
                 removes nothing until there was no overwrite for {} minutes: let only one controller reconcile \
                 the pool",
                QUIET.as_secs() / 60
            ),
        })
    }
}

/// Whether two statuses are equal in the parts that vmpool publishes.
fn is_same(one: &PublishedStatus, other: &PublishedStatus) -> bool {
    let own = |published: &PublishedStatus| {
        let conditions = published.conditions.iter();
        let mut own: Vec<StatusCondition> =
            conditions.filter(|known| known.is_of_engine()).cloned().collect();
        own.sort_by(|a, b| a.kind.cmp(&b.kind));
        own
    };
    one.summary == other.summary && own(one) == own(other)
}

#[cfg(test)]
mod tests;

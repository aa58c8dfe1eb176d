//! What came of the attempts to bring revisions to machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::REQUEST_TIMEOUT;
use crate::model::{Machine, Uid};
use crate::revision::RevisionId;

/// How long the platform may take to look at a change before the pool says that it does not.
pub const EVALUATION_AGE: Duration = Duration::from_mins(10);

/// What became of an attempt to write a revision to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The machine has it.
    Accepted,
    /// The API server refused it.
    Refused,
    /// It was not sent: more than labels and annotations would change, and it was not to.
    Differs,
    /// No answer: it may have been written, or may still be.
    Unconfirmed,
}

/// What came of the attempts to bring revisions to the machines of a pool. All of it may be lost at any moment.
#[derive(Clone, Debug, Default)]
pub struct RolloutAttempts {
    /// Members that refused a revision; which, and when they did so last.
    refused: BTreeMap<Uid, (RevisionId, Duration)>,
    /// Members that differ from a revision in more than labels and annotations; from which, and when that was seen.
    differing: BTreeMap<Uid, (RevisionId, Duration)>,
    /// Members whose last write got no answer, and when it was given up: it may make them unavailable.
    unconfirmed: BTreeMap<Uid, Duration>,
    /// Members that changed and that the platform has not looked at since, as long as that is known.
    unevaluated: BTreeMap<Uid, Duration>,
}

impl RolloutAttempts {
    /// Records what became of writing `revision` to `member`.
    pub fn record(&mut self, member: &Uid, revision: &RevisionId, outcome: UpdateOutcome, uptime: Duration) {
        match outcome {
            UpdateOutcome::Accepted => {
                self.refused.remove(member);
                // Every write demands the version that was read: an earlier one can no longer be carried out.
                self.unconfirmed.remove(member);
            }
            UpdateOutcome::Refused => {
                self.refused.insert(member.clone(), (revision.clone(), uptime));
            }
            UpdateOutcome::Differs => {
                self.differing.insert(member.clone(), (revision.clone(), uptime));
            }
            UpdateOutcome::Unconfirmed => {
                self.unconfirmed.insert(member.clone(), uptime);
            }
        }
    }

    /// Takes note of the members as they are now: since when the platform has not looked at one, and which are gone.
    pub fn observe<'a>(&mut self, members: impl Iterator<Item = &'a Arc<Machine>> + Clone, uptime: Duration) {
        let mut unevaluated = BTreeMap::new();
        for member in members.clone().filter(|member| !member.evaluated && !member.terminating) {
            let since = self.unevaluated.get(&member.id.uid).copied().unwrap_or(uptime);
            unevaluated.insert(member.id.uid.clone(), since);
        }
        self.unevaluated = unevaluated;
        self.unconfirmed.retain(|_, since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT);
        forget(&mut self.refused, members.clone());
        forget(&mut self.differing, members);
    }

    /// Whether more than labels and annotations would change if the member got `revision`, as far as somebody has looked.
    pub(super) fn differs(&self, member: &Uid, revision: &RevisionId) -> bool {
        self.differing.get(member).is_some_and(|(seen, _)| seen == revision)
    }

    /// Whether the last attempt to write `revision` to the member was refused.
    pub(crate) fn refuses(&self, member: &Uid, revision: &RevisionId) -> bool {
        self.refused_at(member, revision).is_some()
    }

    /// When the member refused `revision` last.
    pub(super) fn refused_at(&self, member: &Uid, revision: &RevisionId) -> Option<Duration> {
        self.refused.get(member).filter(|(refused, _)| refused == revision).map(|(_, at)| *at)
    }

    /// Whether a write to the member got no answer and may still be carried out.
    pub(crate) fn is_unconfirmed(&self, member: &Uid, uptime: Duration) -> bool {
        self.unconfirmed.get(member).is_some_and(|since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT)
    }

    /// How long until the first write without an answer can no longer be carried out.
    pub(in crate::plan) fn next_confirmed(&self, uptime: Duration) -> Option<Duration> {
        self.unconfirmed.values().filter_map(|since| (*since + REQUEST_TIMEOUT).checked_sub(uptime)).min()
    }

    /// How many changed members the platform has not looked at for [`EVALUATION_AGE`], and one of them.
    pub(crate) fn overdue(&self, uptime: Duration) -> (usize, Option<&Uid>) {
        let mut overdue = self
            .unevaluated
            .iter()
            .filter(|(_, since)| uptime.saturating_sub(**since) >= EVALUATION_AGE)
            .map(|(member, _)| member);
        let first = overdue.next();
        (usize::from(first.is_some()) + overdue.count(), first)
    }

    /// How long until one more member is overdue.
    pub(super) fn next_overdue(&self, uptime: Duration) -> Option<Duration> {
        let left = |since: &Duration| (*since + EVALUATION_AGE).checked_sub(uptime);
        self.unevaluated.values().filter_map(left).filter(|left| !left.is_zero()).min()
    }
}

/// Keeps what is known of members that are there and have not got the revision since.
fn forget<'a>(
    known: &mut BTreeMap<Uid, (RevisionId, Duration)>,
    members: impl Iterator<Item = &'a Arc<Machine>>,
) {
    if known.is_empty() {
        return;
    }
    let mut left = BTreeMap::new();
    for member in members {
        let entry = known.remove_entry(&member.id.uid);
        left.extend(entry.filter(|(_, (revision, _))| member.written.as_ref() != Some(revision)));
    }
    *known = left;
}

#[cfg(test)]
mod tests;

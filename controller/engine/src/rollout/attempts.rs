//! Results of the attempts to update machines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Uid;
use crate::ledger::REQUEST_TIMEOUT;
use crate::model::Machine;
use crate::revisions::RevisionId;

/// How long the platform may take to evaluate a change before the pool reports it.
pub const EVALUATION_AGE: Duration = Duration::from_mins(10);

/// The outcome of an attempt to write a revision to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The API server accepted it.
    Accepted,
    /// The API server rejected it.
    Refused,
    /// It was not sent, because the spec would change and the plan allowed only labels and annotations to
    /// change.
    Differs,
    /// It is unconfirmed: the API server may have carried it out, or may still do so.
    Unconfirmed,
}

/// Results of the attempts to update the machines of a pool. The controller remains correct if they are lost
/// at any time.
#[derive(Clone, Debug, Default)]
pub struct RolloutAttempts {
    /// Machines whose update was rejected, with the revision and the uptime of the last rejection.
    refused: BTreeMap<Uid, (RevisionId, Duration)>,
    /// Machines whose spec differs from a revision, with the revision and the uptime when this was found.
    differing: BTreeMap<Uid, (RevisionId, Duration)>,
    /// Machines with an unconfirmed update, and its uptime. The update may make them unavailable.
    unconfirmed: BTreeMap<Uid, Duration>,
    /// Machines with a change that the platform has not evaluated, and since when.
    unevaluated: BTreeMap<Uid, Duration>,
}

impl RolloutAttempts {
    /// Records the outcome of writing `revision` to `machine`.
    pub fn record(&mut self, machine: &Uid, revision: &RevisionId, outcome: UpdateOutcome, uptime: Duration) {
        match outcome {
            UpdateOutcome::Accepted => {
                self.refused.remove(machine);
                // Every update requires the version that was read, so the API server can no longer carry out
                // an earlier one.
                self.unconfirmed.remove(machine);
            }
            UpdateOutcome::Refused => {
                self.refused.insert(machine.clone(), (revision.clone(), uptime));
            }
            UpdateOutcome::Differs => {
                self.differing.insert(machine.clone(), (revision.clone(), uptime));
            }
            UpdateOutcome::Unconfirmed => {
                self.unconfirmed.insert(machine.clone(), uptime);
            }
        }
    }

    /// Updates the results with the current machines: since when a change is not evaluated, and which
    /// machines are gone.
    pub fn observe<'a>(
        &mut self,
        machines: impl Iterator<Item = &'a Arc<Machine>> + Clone,
        uptime: Duration,
    ) {
        let mut unevaluated = BTreeMap::new();
        for machine in machines.clone().filter(|machine| !machine.evaluated && !machine.terminating) {
            let since = self.unevaluated.get(&machine.id.uid).copied().unwrap_or(uptime);
            unevaluated.insert(machine.id.uid.clone(), since);
        }
        self.unevaluated = unevaluated;
        self.unconfirmed.retain(|_, since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT);
        drop_obsolete_attempts(&mut self.refused, machines.clone());
        drop_obsolete_attempts(&mut self.differing, machines);
    }

    /// Whether an earlier attempt found that the spec of the machine differs from `revision`.
    pub(crate) fn differs(&self, machine: &Uid, revision: &RevisionId) -> bool {
        self.differing.get(machine).is_some_and(|(seen, _)| seen == revision)
    }

    /// Whether the last attempt to write `revision` to the machine was rejected.
    pub(crate) fn refuses(&self, machine: &Uid, revision: &RevisionId) -> bool {
        self.refused_at(machine, revision).is_some()
    }

    /// Uptime of the last rejection of `revision` by this machine.
    pub(super) fn refused_at(&self, machine: &Uid, revision: &RevisionId) -> Option<Duration> {
        self.refused.get(machine).filter(|(refused, _)| refused == revision).map(|(_, at)| *at)
    }

    /// Whether an update of the machine is unconfirmed and the API server may still carry it out.
    pub(crate) fn is_unconfirmed(&self, machine: &Uid, uptime: Duration) -> bool {
        self.unconfirmed.get(machine).is_some_and(|since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT)
    }

    /// Time until the API server can no longer carry out the first unconfirmed update.
    pub(crate) fn next_confirmed(&self, uptime: Duration) -> Option<Duration> {
        self.unconfirmed.values().filter_map(|since| (*since + REQUEST_TIMEOUT).checked_sub(uptime)).min()
    }

    /// The number of machines with a change that the platform has not evaluated for [`EVALUATION_AGE`], and
    /// one of them.
    pub(crate) fn overdue(&self, uptime: Duration) -> (usize, Option<&Uid>) {
        let mut overdue = self
            .unevaluated
            .iter()
            .filter(|(_, since)| uptime.saturating_sub(**since) >= EVALUATION_AGE)
            .map(|(machine, _)| machine);
        let first = overdue.next();
        (usize::from(first.is_some()) + overdue.count(), first)
    }

    /// Time until one more machine is overdue.
    pub(super) fn next_overdue(&self, uptime: Duration) -> Option<Duration> {
        let left = |since: &Duration| (*since + EVALUATION_AGE).checked_sub(uptime);
        self.unevaluated.values().filter_map(left).filter(|left| !left.is_zero()).min()
    }
}

/// Removes entries of machines that are gone or that have the revision by now.
fn drop_obsolete_attempts<'a>(
    known: &mut BTreeMap<Uid, (RevisionId, Duration)>,
    machines: impl Iterator<Item = &'a Arc<Machine>>,
) {
    if known.is_empty() {
        return;
    }
    let mut left = BTreeMap::new();
    for machine in machines {
        let entry = known.remove_entry(&machine.id.uid);
        left.extend(entry.filter(|(_, (revision, _))| machine.written.as_ref() != Some(revision)));
    }
    *known = left;
}

#[cfg(test)]
mod tests;

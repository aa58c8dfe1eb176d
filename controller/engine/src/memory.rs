//! What the controller remembers of one pool from one pass to the next. All of it may be lost at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::{Ledger, REQUEST_TIMEOUT};
use crate::model::{Disk, Pool, Replica, Uid};
use crate::pacing::{Failure, Pacing};
use crate::plan::Wants;
use crate::status::Status;

/// The memory of one pool, kept by its UID: a pool of the same name that comes later starts with an empty one.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Writes on machines that the cache does not show yet.
    pub machines: Ledger<Replica>,
    /// Writes on disks that the cache does not show yet.
    pub disks: Ledger<Disk>,
    /// The next machine number to use; never falls.
    pub next_number: u64,
    /// The pace of creating machines.
    pub creating: Pacing,
    /// The pace of deleting machines.
    pub removing: Pacing,
    /// The pace of repairs: disks, pointers to them, labels.
    pub repairing: Pacing,
    /// The pace of writing the record of named machines.
    pub recording: Pacing,
    /// The generation that the paces belong to.
    pub generation: i64,
    /// Machines whose deletion got no answer, and when: it may still be carried out.
    unsure: BTreeMap<Uid, Duration>,
    /// Requests that have reservations, and when they were first seen: the only clock that they are judged by.
    reservations: BTreeMap<Arc<str>, Duration>,
    /// Names of objects whose last write was refused: they let others go first.
    refused: BTreeSet<Arc<str>>,
    /// The last status that was written, and what the server made of it.
    pub last_status: Option<(Status, crate::model::Published)>,
}

impl Memory {
    /// Takes note of the pool as it is now: numbers below the open block are used up, reservations are as old as they
    /// are known, and an edit of the spec is a reason to try again at once.
    pub fn meet(&mut self, pool: &Pool, uptime: Duration) {
        self.next_number = self.next_number.max(pool.block.map_or(0, |block| block.first));
        if !(self.reservations.is_empty() && pool.record.is_empty()) {
            let requests = pool.record.requests();
            self.reservations.retain(|request, _| requests.contains(request));
            for request in requests {
                self.reservations.entry(request.clone()).or_insert(uptime);
            }
        }
        if self.generation != pool.generation {
            self.generation = pool.generation;
            self.creating.reset();
            self.removing.reset();
            self.repairing.reset();
            self.recording.reset();
            self.refused.clear();
        }
    }

    /// Records a deletion that got no answer. As long as it may be carried out, this machine and no other is the
    /// one that leaves: the same deletion is asked for again, which can do no harm.
    pub fn unsure_of(&mut self, machine: &Uid, uptime: Duration) {
        self.unsure.retain(|_, since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT);
        self.unsure.insert(machine.clone(), uptime);
    }

    /// Whether a deletion of this machine got no answer and may still be carried out.
    pub fn is_unsure_of(&self, machine: &Uid, uptime: Duration) -> bool {
        self.unsure.get(machine).is_some_and(|since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT)
    }

    /// How long the reservations of a request are known.
    pub fn reservation_age(&self, request: &str, uptime: Duration) -> Duration {
        self.reservations.get(request).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since))
    }

    /// Records whether the last write on the object of this name was refused.
    pub fn note(&mut self, name: &Arc<str>, refused: bool) {
        if refused {
            self.refused.insert(name.clone());
        } else {
            self.refused.remove(name);
        }
    }

    /// Whether the last write on the object of this name was refused. Such a one is tried after all others, so that it
    /// holds nobody up.
    pub fn was_refused(&self, name: &str) -> bool {
        self.refused.contains(name)
    }

    /// Forgets failures of what is not wanted any more.
    pub fn keep_wanted(&mut self, wants: Wants) {
        for (pacing, wanted) in [
            (&mut self.creating, wants.create),
            (&mut self.removing, wants.remove),
            (&mut self.repairing, wants.repair),
            (&mut self.recording, wants.record),
        ] {
            if !wanted && pacing.cause().is_some() {
                pacing.reset();
            }
        }
    }

    /// The failure to show, the gravest first.
    pub fn failure(&self) -> Option<&Failure> {
        [&self.creating, &self.repairing, &self.removing, &self.recording].into_iter().find_map(Pacing::cause)
    }
}

#[cfg(test)]
mod tests;

//! What the controller remembers of one pool from one pass to the next. All of it may be lost at any moment.

use crate::ledger::Ledger;
use crate::model::{Disk, Pool, Replica};
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
    /// The generation that the paces belong to.
    pub generation: i64,
    /// The last status that was written, and what the server made of it.
    pub last_status: Option<(Status, crate::model::Published)>,
}

impl Memory {
    /// Takes note of the pool as it is now: numbers below the open block are used up, and an edit of the spec is a
    /// reason to try again at once.
    pub fn meet(&mut self, pool: &Pool) {
        self.next_number = self.next_number.max(pool.block.map_or(0, |block| block.first));
        if self.generation != pool.generation {
            self.generation = pool.generation;
            self.creating.reset();
            self.removing.reset();
            self.repairing.reset();
        }
    }

    /// Forgets failures of what is not wanted any more.
    pub fn keep_wanted(&mut self, wants: Wants) {
        for (pacing, wanted) in [
            (&mut self.creating, wants.create),
            (&mut self.removing, wants.remove),
            (&mut self.repairing, wants.repair),
        ] {
            if !wanted && pacing.cause().is_some() {
                pacing.reset();
            }
        }
    }

    /// The failure to show, the gravest first.
    pub fn failure(&self) -> Option<&Failure> {
        [&self.creating, &self.repairing, &self.removing].into_iter().find_map(Pacing::cause)
    }
}

#[cfg(test)]
mod tests;

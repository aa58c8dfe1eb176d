//! What the controller remembers of one pool from one pass to the next. All of it may be lost at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::{Backoff, Failure};
use crate::ledger::{Ledger, REQUEST_TIMEOUT};
use crate::model::{Disk, Machine, Pool, Uid};
use crate::plan::{RolloutAttempts, Stage, Wants};
use crate::removal::RESERVATION_AGE;
use crate::revision::RevisionId;

/// How many times in a row a machine must be refused with a disk before the controller tries another disk, if the platform
/// says that a disk is the reason and does not name it.
pub const SUSPICIONS: u32 = 3;

/// How long a disk that a machine was refused for is not handed out again.
pub const REFUSAL_AGE: Duration = Duration::from_mins(10);

/// The memory of one pool, kept by its UID: a pool of the same name that comes later starts with an empty one.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Writes on machines that the cache does not show yet.
    pub machines: Ledger<Machine>,
    /// Writes on disks that the cache does not show yet.
    pub disks: Ledger<Disk>,
    /// The next machine number to use; never falls.
    pub next_number: u64,
    /// The pace of creating machines.
    pub creating: Backoff,
    /// The pace of deleting machines.
    pub removing: Backoff,
    /// The pace of repairs: disks, pointers to them, labels.
    pub repairing: Backoff,
    /// The pace of writing the record of named machines, and of pruning the history.
    pub cleaning_up: Backoff,
    /// The pace of writing templates to machines.
    pub updating: Backoff,
    /// The pace of saying on machines which template is in effect.
    pub recording_revisions: Backoff,
    /// The pace of writing on disks between machines.
    pub collecting_disks: Backoff,
    /// The pace of making disks larger.
    pub expanding_disks: Backoff,
    /// What came of bringing revisions to machines.
    pub rollout_attempts: RolloutAttempts,
    /// The generation that the paces belong to.
    pub generation: i64,
    /// The revision that the pace of bringing it to machines belongs to.
    revision: Option<RevisionId>,
    /// Machines whose deletion got no answer, and when: it may still be carried out.
    unconfirmed_deletes: BTreeMap<Uid, Duration>,
    /// Age at which reservations are dropped, if it is another one than [`RESERVATION_AGE`].
    pub reservation_timeout: Option<Duration>,
    /// Requests that have reservations, and when they were first seen: the only clock that they are judged by.
    reservations: BTreeMap<Arc<str>, Duration>,
    /// Names of objects whose last write was refused: they let others go first.
    refused: BTreeSet<Arc<str>>,
    /// Disks that are neither free nor in use yet, and since when they are waited for.
    awaited: BTreeMap<Arc<str>, Duration>,
    /// Disks that a machine was refused for, and when.
    refused_disks: BTreeMap<Arc<str>, Duration>,
    /// How many times in a row a machine was refused with a disk that the platform did not name.
    suspected_disks: BTreeMap<Arc<str>, u32>,
}

impl Memory {
    /// Takes note of the pool as it is now: numbers below the open block are used up, reservations are as old as they
    /// are known, and an edit of the spec is a reason to try again at once.
    pub fn meet(&mut self, pool: &Pool, uptime: Duration) {
        self.next_number = self.next_number.max(pool.name_block.map_or(0, |block| block.first));
        if !(self.reservations.is_empty() && pool.record.is_empty()) {
            let requests = pool.record.requests();
            self.reservations.retain(|request, _| requests.contains(request));
            for request in requests {
                self.reservations.entry(request.clone()).or_insert(uptime);
            }
        }
        if self.revision.as_ref() != Some(&pool.revision) {
            self.revision = Some(pool.revision.clone());
            self.updating.reset();
        }
        if self.generation != pool.generation {
            self.generation = pool.generation;
            self.creating.reset();
            self.removing.reset();
            self.repairing.reset();
            self.cleaning_up.reset();
            self.updating.reset();
            self.recording_revisions.reset();
            self.collecting_disks.reset();
            self.expanding_disks.reset();
            self.refused.clear();
        }
    }

    /// Records a deletion that got no answer. As long as it may be carried out, this machine and no other is the
    /// one that leaves: the same deletion is asked for again, which can do no harm.
    pub fn delete_unconfirmed(&mut self, machine: &Uid, uptime: Duration) {
        self.unconfirmed_deletes.retain(|_, since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT);
        self.unconfirmed_deletes.insert(machine.clone(), uptime);
    }

    /// Whether a deletion of this machine got no answer and may still be carried out.
    pub fn is_delete_unconfirmed(&self, machine: &Uid, uptime: Duration) -> bool {
        self.unconfirmed_deletes
            .get(machine)
            .is_some_and(|since| uptime.saturating_sub(*since) < REQUEST_TIMEOUT)
    }

    /// How long the reservations of a request still stand; nothing if they are to be dropped.
    pub fn reservation_left(&self, request: &str, uptime: Duration) -> Option<Duration> {
        let timeout = self.reservation_timeout.unwrap_or(RESERVATION_AGE);
        let age =
            self.reservations.get(request).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since));
        timeout.checked_sub(age).filter(|left| !left.is_zero())
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
            (&mut self.cleaning_up, wants.clean_up),
            (&mut self.updating, wants.update),
            (&mut self.recording_revisions, wants.record_revision),
            (&mut self.collecting_disks, wants.collect_disks),
            (&mut self.expanding_disks, wants.expand_disks),
        ] {
            if !wanted && pacing.cause().is_some() {
                pacing.reset();
            }
        }
    }

    /// The pace of the writes of a stage.
    pub fn pace(&mut self, stage: Stage) -> &mut Backoff {
        match stage {
            Stage::Repair => &mut self.repairing,
            Stage::Remove => &mut self.removing,
            Stage::Prepare | Stage::Create => &mut self.creating,
            Stage::Update => &mut self.updating,
            Stage::RecordRevision => &mut self.recording_revisions,
            Stage::CollectDisks => &mut self.collecting_disks,
            Stage::ExpandDisks => &mut self.expanding_disks,
            Stage::CleanUp => &mut self.cleaning_up,
        }
    }

    /// The failure to show, the gravest first.
    pub fn failure(&self) -> Option<&Failure> {
        self.paces().into_iter().find_map(Backoff::cause)
    }

    /// How long until the first of the pauses after a failure is over; `None` if nothing is paused.
    pub fn pause(&self, uptime: Duration) -> Option<Duration> {
        self.paces().into_iter().filter_map(|pacing| pacing.batch_size(uptime).err()).min()
    }

    /// All paces, the gravest first.
    fn paces(&self) -> [&Backoff; 8] {
        [
            &self.creating,
            &self.repairing,
            &self.removing,
            &self.updating,
            &self.recording_revisions,
            &self.collecting_disks,
            &self.expanding_disks,
            &self.cleaning_up,
        ]
    }

    /// Takes note of the disks that a plan waits for; the others are waited for no longer.
    pub fn await_disks(&mut self, awaited: &[Arc<str>], uptime: Duration) {
        self.awaited.retain(|disk, _| awaited.contains(disk));
        for disk in awaited {
            self.awaited.entry(disk.clone()).or_insert(uptime);
        }
    }

    /// How long a disk is waited for.
    pub fn awaited(&self, disk: &str, uptime: Duration) -> Duration {
        self.awaited.get(disk).map_or(Duration::ZERO, |since| uptime.saturating_sub(*since))
    }

    /// Records that a machine was refused because of a disk: it is not handed out for a while.
    pub fn refuse_disk(&mut self, disk: &Arc<str>, uptime: Duration) {
        self.refused_disks.retain(|_, since| uptime.saturating_sub(*since) < REFUSAL_AGE);
        self.refused_disks.insert(disk.clone(), uptime);
    }

    /// Records that a machine was refused because of one of these disks, and that the platform did not name it. After a few
    /// times in a row they are not handed out for a while. Returns those that now are not.
    pub fn suspect_disks<'d>(
        &mut self,
        disks: impl IntoIterator<Item = &'d Arc<str>>,
        uptime: Duration,
    ) -> Vec<Arc<str>> {
        let mut refused = Vec::new();
        for disk in disks {
            let times = self.suspected_disks.entry(disk.clone()).or_default();
            *times += 1;
            if *times >= SUSPICIONS {
                self.suspected_disks.remove(disk);
                self.refuse_disk(disk, uptime);
                refused.push(disk.clone());
            }
        }
        refused
    }

    /// Records that a machine was accepted with these disks.
    pub fn accept_disks<'d>(&mut self, disks: impl IntoIterator<Item = &'d Arc<str>>) {
        if self.suspected_disks.is_empty() {
            return;
        }
        for disk in disks {
            self.suspected_disks.remove(disk);
        }
    }

    /// How long this disk is still not handed out because a machine was refused for it; `None` if it may be.
    pub fn disk_refusal(&self, disk: &str, uptime: Duration) -> Option<Duration> {
        let age = uptime.saturating_sub(*self.refused_disks.get(disk)?);
        REFUSAL_AGE.checked_sub(age).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests;

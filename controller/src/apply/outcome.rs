//! The outcomes of actions.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmpool_engine::failure::FailureReason;
use vmpool_engine::ledger::Seen;
use vmpool_engine::model::{DiskDraft, Draft};
use vmpool_engine::plan::DeleteReason;
use vmpool_engine::removal::Entry;
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Machine, ObjectId, Uid};

use crate::events::PoolEvent;
use crate::revisions::known::Change;
use crate::write::WriteError;

/// The outcome of one action.
pub(super) enum Outcome {
    /// It was not started, because another action of the stage failed or the pool changed.
    Skipped,
    /// A machine and its disks.
    Unit(Unit),
    /// A machine was not created, because storage of another machine has the name of its storage.
    StorageConflict(Arc<str>, String),
    /// A machine was changed.
    Machine(Seen<Machine>, Vec<PoolEvent>),
    /// A machine was not written to, because its spec differs from the revision.
    Differs(Seen<Machine>, RevisionId),
    /// An update of a machine with other disks was rejected.
    DisksRefused(Vec<DiskDraft>, PoolEvent, WriteError),
    /// A disk was created, or found to exist.
    Disk(Seen<Disk>, Option<PoolEvent>),
    /// A disk differs from the one that the plan used.
    DiskChanged(Seen<Disk>),
    /// A disk is being deleted, or is gone.
    DiskDeleted(Arc<Disk>, Option<PoolEvent>),
    /// Disks were written first; the inner outcome is that of the rest.
    After(Vec<Seen<Disk>>, Box<Outcome>),
    /// A machine is being deleted.
    Deleted(ObjectId, DeleteReason),
    /// A machine to delete was already gone.
    Gone(ObjectId),
    /// A machine differs from the one that the plan used.
    Changed(Seen<Machine>),
    /// A restart was requested.
    Restarted { machine: ObjectId, instance: Uid },
    /// A machine was marked before its restart; the inner outcome is that of the rest.
    Marked(Seen<Machine>, Box<Outcome>),
    /// A restart of this instance is in progress.
    RestartInProgress(Uid),
    /// The request of a restart of this instance is unconfirmed.
    MaybeRestarted(Uid, PoolEvent, WriteError),
    /// A deletion is unconfirmed.
    MaybeDeleted(ObjectId, WriteError),
    /// An attempt to write a revision to a machine.
    Updated(Update),
    /// A stored revision was changed or found. `done` is whether it has the expected content.
    Revision { change: Change, done: bool },
    /// It succeeded, and the memory does not record its result.
    Done,
    /// The removal record was pruned.
    PrunedRecord(PrunedRecord),
    /// The object changed since the plan.
    Outdated,
    /// It failed.
    Failed(PoolEvent, WriteError),
}

/// The effect of one outcome.
#[derive(Default)]
pub(super) struct Step {
    pub(super) events: Vec<PoolEvent>,
    /// It succeeded.
    pub(super) done: bool,
    /// Plan again at once.
    pub(super) outdated: bool,
    pub(super) error: Option<WriteError>,
    /// The reason of the failure, if it is not the one of the action.
    pub(super) reason: Option<FailureReason>,
    /// The change of a stored revision.
    pub(super) revision: Option<Change>,
}

impl Step {
    pub(super) fn done(event: Option<PoolEvent>) -> Self {
        Self { events: event.into_iter().collect(), done: true, ..Self::default() }
    }
    pub(super) fn outdated() -> Self {
        Self { outdated: true, ..Self::default() }
    }
    pub(super) fn failed(event: PoolEvent, error: WriteError) -> Self {
        let mut step = Self::default();
        step.fail(event, error);
        step
    }
    /// A write that was not sent because the lease ends causes no event.
    pub(super) fn fail(&mut self, event: PoolEvent, error: WriteError) {
        if !matches!(error, WriteError::Fenced) {
            self.events.push(event);
        }
        self.done = false;
        self.error = Some(error);
    }
}

impl Outcome {
    /// The outcome, after these disks were written.
    pub(super) fn after(self, disks: Vec<Seen<Disk>>) -> Self {
        if disks.is_empty() { self } else { Self::After(disks, Box::new(self)) }
    }
}

/// The result of creating a machine with its disks.
pub(super) struct Unit {
    pub(super) draft: Draft,
    pub(super) machine: CreateResult,
    /// The results of its new disks.
    pub(super) disks: Vec<MadeDisk>,
}

/// The result of creating a machine.
pub(super) enum CreateResult {
    /// It exists and the pool owns it.
    Exists(Seen<Machine>),
    /// An object that the pool does not own has the name.
    NameTaken(Seen<Machine>),
    /// Another object had the name and was just deleted.
    NameFreed,
    /// It may exist.
    Unknown(WriteError),
    /// It does not exist.
    Refused(WriteError),
}

/// A new disk of a created machine.
pub(super) struct MadeDisk {
    pub(super) draft: DiskDraft,
    /// UID of the expected owner.
    pub(super) owner: Uid,
    pub(super) result: Result<Seen<Disk>, WriteError>,
}

/// The result of writing a revision to a machine.
pub(super) struct Update {
    pub(super) machine: ObjectId,
    pub(super) to: RevisionId,
    /// The disks of the machine; after a failure only those that the machine did not have before.
    pub(super) disks: Vec<DiskDraft>,
    pub(super) result: Result<(Seen<Machine>, Vec<PoolEvent>), WriteError>,
}

/// The result of pruning the removal record.
pub(super) struct PrunedRecord {
    /// Targets that a live read found and the snapshot did not show.
    pub(super) here: Vec<Seen<Machine>>,
    /// The accepted entries that were removed.
    pub(super) removed: Vec<Entry>,
    /// Targets that exist and that the pool no longer owns. They were released and not deleted.
    pub(super) released: BTreeSet<Uid>,
    /// Requests whose reservations were dropped, each with its targets.
    pub(super) expired: Vec<(Arc<str>, Vec<ObjectId>)>,
    /// Whether the pool was written.
    pub(super) written: bool,
}

//! The outcomes of actions.

use std::sync::Arc;

use vmpool_engine::failure::FailureReason;
use vmpool_engine::ledger::VersionedFacts;
use vmpool_engine::model::DiskDraft;
use vmpool_engine::plan::{FieldPaths, UpdateOutcome};
use vmpool_engine::revisions::RevisionId;
use vmpool_engine::{Disk, Machine, ObjectId, Uid};
use vmpool_kit::write::WriteError;

use crate::pools::events::PoolEvent;
use crate::pools::revisions::pool_revisions::RevisionChange;

/// The outcome of one action: what the memory records, the events, and whether the action is complete.
#[derive(Default)]
pub(super) struct ActionOutcome {
    /// What the memory records, in this order.
    pub(super) effects: Vec<Effect>,
    /// The events to report.
    pub(super) events: Vec<PoolEvent>,
    /// Whether the action is complete.
    pub(super) done: bool,
    /// Whether the plan could still be carried out.
    pub(super) validity: PlanValidity,
    /// The error of the write that failed.
    pub(super) error: Option<WriteError>,
    /// The reason of the failure, if it is not the one of the action.
    pub(super) reason: Option<FailureReason>,
}

/// Whether a plan can still be carried out. Of two values, the greater one decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlanValidity {
    /// Further actions can begin.
    #[default]
    Valid,
    /// Writes took so long that the plan is too old to begin an action: plan again.
    Aged,
    /// The state differs from the one that the plan used: plan again at once.
    Outdated,
}

/// What the memory records about an action.
pub(super) enum Effect {
    /// A machine was written, or read live.
    Machine(VersionedFacts<Machine>),
    /// The create request of a machine with the number was not rejected, so that the number is used up.
    NumberUsed(u64),
    /// A machine was created, and belongs to the pool.
    MachineCreated(ObjectId),
    /// A machine was created, and does not belong to the pool.
    MachineLost(String),
    /// The dry run of a create shows a machine that would not belong to the pool.
    RehearsalLost(String),
    /// A disk was created, and has its owner.
    DiskCreated(ObjectId),
    /// A disk was created, and has another owner.
    DiskLost(String),
    /// The create of a standby machine with the name and the number is unconfirmed.
    StandbyUnconfirmed(Arc<str>, u64),
    /// The activation of a standby machine is unconfirmed.
    ActivationUnconfirmed(ObjectId),
    /// The start of an activated machine was requested.
    StartRequested(Uid),
    /// The create of a machine with the name and the number is unconfirmed.
    CreateUnconfirmed(Arc<str>, u64),
    /// Another object has the name of a machine whose create was unconfirmed.
    NameTaken(ObjectId),
    /// Storage of another machine has the name of the storage of this machine. The text is the reason.
    StorageConflict(Arc<str>, String),
    /// A machine is being deleted, or is gone.
    MachineDeleted(ObjectId),
    /// The deletion of a machine is unconfirmed.
    DeleteUnconfirmed(Uid),
    /// A machine is replaced, because it does not start.
    Healed(ObjectId),
    /// A machine is replaced, because it was not ready for too long.
    UnreadyReplaced(ObjectId),
    /// A revision was sent to a machine.
    Update(Uid, RevisionId, UpdateOutcome),
    /// In a machine, these fields have other values than were sent.
    Overridden(Uid, FieldPaths),
    /// A restart of an instance was requested.
    Restart(Uid),
    /// A restart of an instance may have been requested.
    UnconfirmedRestart(Uid),
    /// A disk was written, or read live.
    Disk(VersionedFacts<Disk>),
    /// The create of a disk is unconfirmed.
    DiskUnconfirmed(Arc<str>),
    /// A disk is being deleted, or is gone.
    DiskDeleted(Arc<Disk>),
    /// These disks are no reason for a rejection.
    DisksAccepted(Vec<DiskDraft>),
    /// A write of a machine with these disks failed.
    DisksFailed(Vec<DiskDraft>),
    /// The API server rejects a machine with these disks, and accepts it with others.
    DisksRejected(Vec<DiskDraft>),
    /// The stored revisions changed.
    Revision(RevisionChange),
}

impl ActionOutcome {
    /// A completed action.
    pub(super) fn done() -> Self {
        Self { done: true, ..Self::default() }
    }

    /// An action that was not carried out, because the state differs from the one that the plan used.
    pub(super) fn outdated() -> Self {
        Self { validity: PlanValidity::Outdated, ..Self::default() }
    }

    /// An action that was not carried out, because earlier writes of the plan took too long.
    pub(super) fn aged() -> Self {
        Self { validity: PlanValidity::Aged, ..Self::default() }
    }

    /// A failed write. A write that was not sent because the lease ends causes no event.
    pub(super) fn failed(event: PoolEvent, error: WriteError) -> Self {
        let mut outcome = Self::default();
        outcome.fail(event, error);
        outcome
    }

    /// A live read found another machine than the one that the plan used.
    pub(super) fn changed(machine: VersionedFacts<Machine>) -> Self {
        Self::outdated().with(Effect::Machine(machine))
    }

    /// A machine that is gone, so that the write is not necessary.
    pub(super) fn gone(machine: &ObjectId) -> Self {
        Self::done().with(Effect::MachineDeleted(machine.clone()))
    }

    /// Records an effect.
    pub(super) fn with(mut self, effect: Effect) -> Self {
        self.effects.push(effect);
        self
    }

    /// Reports events.
    pub(super) fn reporting(mut self, events: impl IntoIterator<Item = PoolEvent>) -> Self {
        self.events.extend(events);
        self
    }

    /// The outcome, after these disks were written.
    pub(super) fn after(mut self, disks: Vec<VersionedFacts<Disk>>) -> Self {
        self.effects.splice(0..0, disks.into_iter().map(Effect::Disk));
        self
    }

    /// Makes the action a failed one.
    pub(super) fn fail(&mut self, event: PoolEvent, error: WriteError) {
        if !matches!(error, WriteError::Fenced) {
            self.events.push(event);
        }
        self.done = false;
        self.error = Some(error);
    }
}

/// A completed write of a machine, or the outcome that prevented it.
pub(super) type MachineWriteResult = Result<VersionedFacts<Machine>, ActionOutcome>;

/// The outcome of a write of a machine.
pub(super) fn machine_write_outcome(written: MachineWriteResult) -> ActionOutcome {
    match written {
        Ok(machine) => ActionOutcome::done().with(Effect::Machine(machine)),
        Err(outcome) => outcome,
    }
}

/// The outcome of a write of a machine, with the events about a completed write.
pub(super) fn machine_write_outcome_with(
    written: MachineWriteResult,
    events: impl FnOnce() -> Vec<PoolEvent>,
) -> ActionOutcome {
    let is_written = written.is_ok();
    let outcome = machine_write_outcome(written);
    if is_written { outcome.reporting(events()) } else { outcome }
}

//! What came of an action, and what follows from it.

use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::backoff::FailureReason;
use vmpool_engine::ledger::Seen;
use vmpool_engine::model::DiskDraft;
use vmpool_engine::plan::{DeleteReason, UpdateOutcome};
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Machine, Memory, ObjectId};

use super::{create, delete, disk, pool, update};
use crate::context::{Context, PoolEntry};
use crate::events::{Happening, Reason};
use crate::platform::Platform;
use crate::revisions::Change;
use crate::write::WriteError;

/// What came of one action, for the memory.
pub(super) enum Outcome {
    /// It was not begun: a neighbour failed, or the pool changed.
    Skipped,
    /// A machine and its disks.
    Unit(create::Unit),
    /// A machine was changed.
    Machine(Seen<Machine>, Vec<Happening>),
    /// A machine was not written to, because it differs from the revision in more than it was to get.
    Differs(Seen<Machine>, RevisionId),
    /// A machine was refused other disks.
    DisksRefused(Vec<DiskDraft>, Happening, WriteError),
    /// A disk was created, or found to exist.
    Disk(Seen<Disk>, Option<Happening>),
    /// A disk is not what was planned for.
    DiskChanged(Seen<Disk>),
    /// A disk is being deleted, or is gone.
    DiskDeleted(Arc<Disk>, Option<Happening>),
    /// Disks were written first, for what came of the rest.
    After(Vec<Seen<Disk>>, Box<Outcome>),
    /// A machine is being deleted.
    Deleted(ObjectId, DeleteReason),
    /// A machine that should leave was gone already.
    Gone(ObjectId),
    /// A machine that should leave is not what was planned for.
    Changed(Seen<Machine>),
    /// It is unknown whether the machine is being deleted.
    MaybeDeleted(ObjectId, WriteError),
    /// A revision was written to a machine, or was to be.
    Updated(update::Update),
    /// Something was done to a stored revision, which may be other than it should be.
    Revision { change: Change, done: bool },
    /// A block is open.
    Opened,
    /// Entries left the record of named machines.
    PrunedRecord(pool::PrunedRecord),
    /// What it was about changed meanwhile.
    Outdated,
    /// It failed.
    Failed(Happening, WriteError),
}

/// What one outcome means.
#[derive(Default)]
pub(super) struct Step {
    pub(super) happenings: Vec<Happening>,
    /// It went through.
    pub(super) done: bool,
    /// Plan again at once.
    pub(super) outdated: bool,
    pub(super) error: Option<WriteError>,
    /// What failed, if it is not what the action is named after.
    pub(super) reason: Option<FailureReason>,
    /// What was done to a stored revision.
    pub(super) revision: Option<Change>,
}

impl Step {
    pub(super) fn done(happening: Option<Happening>) -> Self {
        Self { happenings: happening.into_iter().collect(), done: true, ..Self::default() }
    }
    pub(super) fn outdated() -> Self {
        Self { outdated: true, ..Self::default() }
    }
    pub(super) fn failed(happening: Happening, error: WriteError) -> Self {
        let mut step = Self::default();
        step.fail(happening, error);
        step
    }
    /// A write that was never sent because the lease ends is nothing to tell the owner of the pool.
    pub(super) fn fail(&mut self, happening: Happening, error: WriteError) {
        if !matches!(error, WriteError::Fenced) {
            self.happenings.push(happening);
        }
        self.done = false;
        self.error = Some(error);
    }
}

impl Outcome {
    /// What came of it after these disks were written.
    pub(super) fn after(self, disks: Vec<Seen<Disk>>) -> Self {
        if disks.is_empty() { self } else { Self::After(disks, Box::new(self)) }
    }

    /// Tells the memory.
    pub(super) fn learn<P: Platform>(
        self,
        context: &Context<P>,
        pool: &PoolEntry<P>,
        memory: &mut Memory,
    ) -> Step {
        let uptime = context.env.uptime();
        match self {
            Self::Skipped | Self::Outdated => Step::outdated(),
            Self::Opened => Step::done(None),
            Self::Machine(seen, happenings) => {
                memory.machines.written(seen, uptime);
                Step { happenings, ..Step::done(None) }
            }
            Self::DisksRefused(disks, happening, error) => {
                disk::note_refusal(memory, &disks, &error, uptime);
                Step::failed(happening, error)
            }
            Self::Differs(seen, revision) => {
                memory.rollout_attempts.record(&seen.facts.id.uid, &revision, UpdateOutcome::Differs, uptime);
                memory.machines.written(seen, uptime);
                Step::outdated()
            }
            Self::Changed(seen) => {
                memory.machines.written(seen, uptime);
                Step::outdated()
            }
            Self::Disk(seen, happening) => {
                memory.disks.written(seen, uptime);
                Step::done(happening)
            }
            Self::DiskChanged(seen) => {
                memory.disks.written(seen, uptime);
                Step::outdated()
            }
            Self::DiskDeleted(disk, happening) => {
                memory.disks.deleted(&disk, uptime);
                Step::done(happening)
            }
            Self::After(disks, rest) => {
                for disk in disks {
                    memory.disks.written(disk, uptime);
                }
                rest.learn(context, pool, memory)
            }
            Self::Deleted(id, reason) => {
                forget_live(context, pool, memory, &id, uptime);
                tracing::info!(
                    machine = &*id.name,
                    machine_uid = id.uid.as_str(),
                    ?reason,
                    "deleted a machine"
                );
                context.metrics.removals.deleted(reason);
                // That of a named one is told when its entry leaves the record: mostly others delete it.
                let told = (reason == DeleteReason::Surplus).then(|| Happening {
                    reason: Reason::SuccessfulDelete,
                    name: id.name.to_string(),
                    note: format!("deleted machine {id}"),
                });
                Step::done(told)
            }
            Self::Gone(id) => {
                forget_live(context, pool, memory, &id, uptime);
                Step::done(None)
            }
            // Until that is certain the plan lets nobody else leave instead.
            Self::MaybeDeleted(id, error) => {
                memory.delete_unconfirmed(&id.uid, uptime);
                Step::failed(delete::failure(&id, &error), error)
            }
            Self::Unit(unit) => unit.learn(&context.metrics, memory, uptime),
            Self::Updated(update) => update.learn(memory, uptime),
            Self::Revision { change, done } => {
                Step { revision: Some(change), done, outdated: !done, ..Step::default() }
            }
            Self::PrunedRecord(pruned) => pruned.learn(&context.metrics, memory, uptime),
            Self::Failed(happening, error) => Step::failed(happening, error),
        }
    }
}

fn forget_live<P: Platform>(
    context: &Context<P>,
    pool: &PoolEntry<P>,
    memory: &mut Memory,
    id: &ObjectId,
    uptime: Duration,
) {
    if let Some(known) = context.known_machine(&pool.facts, memory, id) {
        memory.machines.deleted(&known, uptime);
    }
}

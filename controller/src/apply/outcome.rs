//! The outcome of an action, and its effect on the memory.

use std::sync::Arc;
use std::time::Duration;

use vmpool_engine::failure::FailureReason;
use vmpool_engine::ledger::Seen;
use vmpool_engine::model::DiskDraft;
use vmpool_engine::plan::{DeleteReason, UpdateOutcome};
use vmpool_engine::revision::RevisionId;
use vmpool_engine::{Disk, Machine, Memory, ObjectId};

use super::{create, delete, disk, pool, update};
use crate::context::{Context, PoolEntry};
use crate::events::{PoolEvent, Reason};
use crate::platform::Platform;
use crate::revisions::Change;
use crate::write::WriteError;

/// The outcome of one action.
pub(super) enum Outcome {
    /// It was not started, because another action of the stage failed or the pool changed.
    Skipped,
    /// A machine and its disks.
    Unit(create::Unit),
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
    /// A deletion is unconfirmed.
    MaybeDeleted(ObjectId, WriteError),
    /// An attempt to write a revision to a machine.
    Updated(update::Update),
    /// A stored revision was changed or found. `done` is whether it has the expected content.
    Revision { change: Change, done: bool },
    /// A name block was recorded.
    Opened,
    /// The removal record was pruned.
    PrunedRecord(pool::PrunedRecord),
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

    /// Records the outcome in the memory.
    pub(super) fn record<P: Platform>(
        self,
        context: &Context<P>,
        pool: &PoolEntry<P>,
        memory: &mut Memory,
    ) -> Step {
        let uptime = context.env.uptime();
        match self {
            Self::Skipped | Self::Outdated => Step::outdated(),
            Self::Opened => Step::done(None),
            Self::Machine(seen, events) => {
                memory.machines.written(seen, uptime);
                Step { events, ..Step::done(None) }
            }
            Self::DisksRefused(disks, event, error) => {
                disk::record_rejected_disks(memory, &disks, &error, uptime);
                Step::failed(event, error)
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
            Self::Disk(seen, event) => {
                memory.disks.written(seen, uptime);
                Step::done(event)
            }
            Self::DiskChanged(seen) => {
                memory.disks.written(seen, uptime);
                Step::outdated()
            }
            Self::DiskDeleted(disk, event) => {
                memory.disks.deleted(&disk, uptime);
                Step::done(event)
            }
            Self::After(disks, rest) => {
                for disk in disks {
                    memory.disks.written(disk, uptime);
                }
                rest.record(context, pool, memory)
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
                // The event about a target is sent when its entry is removed from the record, because other programs
                // delete most targets.
                let told = (reason == DeleteReason::Surplus).then(|| PoolEvent {
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
            // While the deletion is unconfirmed, the plan deletes no other machine in its place.
            Self::MaybeDeleted(id, error) => {
                memory.delete_unconfirmed(&id.uid, uptime);
                Step::failed(delete::failure(&id, &error), error)
            }
            Self::Unit(unit) => unit.record(&context.metrics, memory, uptime),
            Self::Updated(update) => update.record(memory, uptime),
            Self::Revision { change, done } => {
                Step { revision: Some(change), done, outdated: !done, ..Step::default() }
            }
            Self::PrunedRecord(pruned) => pruned.record(&context.metrics, memory, uptime),
            Self::Failed(event, error) => Step::failed(event, error),
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

//! The result of planning: actions, blockers, and the time of the next pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::action::{ApplyStage, DeleteReason, PoolAction, WantedWrites};
use super::blocker::Blocker;
use super::observed::ObservedPool;
use crate::draining::DrainReason;
use crate::failure::{FailureReason, PoolFailure};
use crate::ids::Uid;

/// What to write now, when to plan again, and which steps are blocked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, by stage.
    pub actions: Vec<PoolAction>,
    /// When to plan again, even without an event.
    pub requeue_after: Option<Duration>,
    /// The blocked steps, each with its reason.
    pub blockers: Vec<Blocker>,
    /// The kinds of writes that the plan wants.
    pub wants: WantedWrites,
    /// The first failure that only a user can correct.
    pub failure: Option<PoolFailure>,
    /// Disks that are neither free nor in use yet, for example a disk that a deleted machine still mounts.
    /// [`PassMemory::await_disks`](crate::PassMemory::await_disks) records since when.
    pub awaited: Vec<Arc<str>>,
    /// The drained machines whose steps the plan contains.
    pub finished_drains: Vec<FinishedDrain>,
}

/// The drain of a machine whose step follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedDrain {
    /// The machine.
    pub machine: Arc<str>,
    /// The hooks that are not released, because the deadline has passed. Otherwise empty.
    pub hooks: Vec<Arc<str>>,
    /// How long the machine drained.
    pub lasted: Duration,
}

/// Which part of the necessary repairs a plan contains.
#[derive(Clone, Copy)]
pub(crate) enum Repairs {
    /// All of them.
    Complete,
    /// The next pass plans the rest.
    Truncated,
    /// None: repairs are in backoff for this time.
    Paused(Duration),
}

impl Plan {
    /// Whether the controller must read the pool live and plan again before it writes, because the snapshot
    /// of the machines can be newer than the cached pool.
    pub fn needs_live_pool(&self) -> bool {
        self.actions.iter().any(|action| match action {
            PoolAction::Create { .. }
            | PoolAction::Activate { .. }
            // A guest that stops does not come back by itself.
            | PoolAction::StopStandby { .. }
            | PoolAction::Delete { .. }
            // The templates determine which disks may be deleted.
            | PoolAction::DeleteDisk { .. }
            | PoolAction::OpenNameBlock { .. }
            // Storage that is not preserved is lost, and the user may have required it before the deletion of
            // the machine.
            | PoolAction::RemoveFinalizer { preserve_storage: false, .. }
            // A guest that ended does not come back, so a pause must hold even if the cache does not show it
            // yet.
            | PoolAction::Restart { .. }
            // The guest stops to accept work.
            | PoolAction::BeginDrain { .. }
            | PoolAction::PruneRecord { .. } => true,
            PoolAction::Relabel { .. }
            | PoolAction::Release { .. }
            | PoolAction::CreateDisk { .. }
            | PoolAction::Repoint { .. }
            | PoolAction::Detach { .. }
            | PoolAction::AdoptDisk { .. }
            | PoolAction::StartActivated { .. }
            | PoolAction::Update { .. }
            | PoolAction::RecordRevision { .. }
            | PoolAction::AddPoolFinalizer
            | PoolAction::RemovePoolFinalizer
            | PoolAction::AddFinalizer { .. }
            | PoolAction::RemoveFinalizer { preserve_storage: true, .. }
            | PoolAction::EndDeletion { .. }
            | PoolAction::EndRestart { .. }
            | PoolAction::EndDrain { .. }
            | PoolAction::ShortenProtection { .. }
            | PoolAction::AnnotateDisk { .. }
            | PoolAction::ExpandDisk { .. }
            | PoolAction::StoreRevision { .. }
            | PoolAction::RestoreCopies { .. }
            | PoolAction::PruneRevision { .. }
            | PoolAction::DeleteCopy { .. } => false,
        })
    }

    /// Whether the plan deletes surplus machines, or begins to drain them. If so, the controller must first
    /// list the machines live, call [`PoolSnapshot::count_live`](super::PoolSnapshot::count_live) and plan
    /// again. Otherwise a machine that another client has just deleted, and that the snapshot still shows,
    /// would count as one that stays.
    pub fn deletes_surplus(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| {
            matches!(
                action,
                PoolAction::Delete {
                    reason: DeleteReason::Surplus { .. } | DeleteReason::StandbySurplus,
                    ..
                }
            ) || action.begins_drain_for(DrainReason::ScaleDown)
        })
    }

    /// Whether the plan deletes active machines of a surplus.
    pub(crate) fn deletes_active_surplus(&self) -> bool {
        let is_surplus = |action: &PoolAction| {
            matches!(action, PoolAction::Delete { reason: DeleteReason::Surplus { .. }, .. })
        };
        self.actions.iter().any(is_surplus)
    }

    /// Whether the plan stores the current revision, which fixes what its template refers to.
    pub fn stores_revision(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, PoolAction::StoreRevision { .. }))
    }

    /// Removes all writes that need the current template, because it cannot be used now. Machines that could
    /// not be created again are not deleted, unless fewer are desired. If `keeps_copies`, the revision is
    /// stored nevertheless, because what it copies is being deleted.
    pub fn withhold_template(&mut self, keeps_copies: bool) {
        self.actions.retain(|action| {
            !(matches!(
                action,
                PoolAction::Create { .. } | PoolAction::Activate { .. } | PoolAction::Update { .. }
            ) || action.is_recreation()
                || action.begins_drain_for(DrainReason::Rollout)
                || action.begins_drain_for(DrainReason::Recycling))
                && (keeps_copies || !matches!(action, PoolAction::StoreRevision { .. }))
        });
        self.keep_drains_with_steps();
    }

    /// Drops the drains of machines whose step is not in the plan, for example because it is in backoff.
    pub(crate) fn keep_drains_with_steps(&mut self) {
        let takes_step = |action: &&PoolAction| {
            matches!(
                action,
                PoolAction::Delete { .. } | PoolAction::Restart { .. } | PoolAction::Update { .. }
            )
        };
        let steps = self.actions.iter().filter(takes_step);
        let stepping: BTreeSet<&str> = steps.map(|action| &**action.object()).collect();
        self.finished_drains.retain(|drain| stepping.contains(&*drain.machine));
    }

    /// The plan without all writes, except that of the current revision.
    #[must_use]
    pub fn revision_only(self) -> Self {
        let mut actions = self.actions;
        actions.retain(|action| matches!(action, PoolAction::StoreRevision { .. }));
        Self { actions, wants: self.wants, ..Self::default() }
    }

    /// The standby machines that the plan activates.
    pub(crate) fn activated(&self) -> impl Iterator<Item = &Uid> {
        self.actions.iter().filter_map(|action| match action {
            PoolAction::Activate { machine, .. } => Some(&machine.uid),
            _ => None,
        })
    }

    /// The machines that the plan deletes.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = &Uid> {
        self.actions.iter().filter_map(PoolAction::deleted_machine)
    }

    /// Plans as many of `repairs` as their backoff allows. Repairs of objects that rejected the last write
    /// come last.
    pub(crate) fn repair(&mut self, observed: &ObservedPool<'_>, mut repairs: Vec<PoolAction>) -> Repairs {
        if repairs.is_empty() {
            return Repairs::Complete;
        }
        self.wants.repair = true;
        repairs.sort_by_key(|action| observed.memory.was_refused(action.object()));
        match observed.memory.backoff(ApplyStage::Repair).batch_size(observed.uptime) {
            Ok(width) => {
                let outcome = if repairs.len() > width { Repairs::Truncated } else { Repairs::Complete };
                self.actions.extend(repairs.into_iter().take(width));
                outcome
            }
            Err(left) => {
                self.back_off(ApplyStage::Repair, left);
                Repairs::Paused(left)
            }
        }
    }

    /// Plans as many of `actions` as the backoff of their stage allows. Actions on objects that rejected the
    /// last write come last.
    pub(crate) fn extend_by(
        &mut self,
        observed: &ObservedPool<'_>,
        stage: ApplyStage,
        pace: Result<usize, Duration>,
        mut actions: Vec<PoolAction>,
    ) {
        let width = match pace {
            Ok(width) => width,
            Err(left) => return self.back_off(stage, left),
        };
        let refused = |action: &PoolAction| observed.memory.was_refused(action.object());
        actions.sort_by(|a, b| refused(a).cmp(&refused(b)).then_with(|| a.object().cmp(b.object())));
        if actions.len() > width {
            // The next pass, which starts at once, plans the rest.
            self.requeue_in(Duration::ZERO);
        }
        self.actions.extend(actions.into_iter().take(width));
    }

    pub(crate) fn report_failure(&mut self, reason: FailureReason, message: &str) {
        self.failure.get_or_insert_with(|| PoolFailure { reason, message: message.to_owned() });
    }

    pub(crate) fn requeue_in(&mut self, after: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(after, |sooner| sooner.min(after)));
    }

    pub(crate) fn back_off(&mut self, stage: ApplyStage, left: Duration) {
        let blocker = Blocker::Backoff { stage, left };
        if !self.blockers.contains(&blocker) {
            self.blockers.push(blocker);
        }
        self.requeue_in(left);
    }
}

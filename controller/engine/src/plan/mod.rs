//! The plan of one pass: what to write now, computed from one observation.
//!
//! The planners and their actions run in this order: membership (lost labels), disks (missing and unusable disks of
//! machines), removal (targets and surplus), creation (missing machines), rollout (machines without the current
//! revision), disk collection and disk expansion, revisions, and the removal record.

mod action;
mod allocation;
mod create;
mod disk_collection;
mod disks;
mod expand;
mod membership;
mod record;
mod remove;
mod revisions;
pub(crate) mod rollout;

use std::collections::BTreeSet;
#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::backoff::{Failure, FailureReason};
use crate::ledger::UnconfirmedCreate;
use crate::memory::Memory;
use crate::model::{Disk, Machine, ObjectId, Pool, Uid};
use crate::revision::RevisionId;

pub use action::{Action, DeleteReason, DiskDeleteReason, Disruption, Stage};
pub use rollout::{EVALUATION_AGE, RolloutAttempts, UpdateOutcome};

/// The names that are in use in the pool's namespace.
pub trait NamesInUse {
    /// Whether a machine object has this name.
    fn has_machine(&self, name: &str) -> bool;
    /// Whether a disk object has this name.
    fn has_disk(&self, name: &str) -> bool;
}

/// The usual [`Observed::collection_grace`].
pub const COLLECTION_GRACE: Duration = Duration::from_secs(30);

/// All inputs of one pass. They are read once and not refreshed during the pass.
pub struct Observed<'a> {
    /// When the pass began. The engine has no other clock.
    pub now: Timestamp,
    /// The same time on the monotonic clock.
    pub uptime: Duration,
    /// The pool.
    pub pool: &'a Pool,
    /// Machines that the pool owns or that have its UID as a label. The ledger is already overlaid on the cache.
    pub machines: Vec<Arc<Machine>>,
    /// The existing disks that the machines refer to, by name, with the ledger overlaid.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub disks: HashMap<Arc<str>, Arc<Disk>>,
    /// The disks that the pool owns or that have its UID as a label, with the ledger overlaid. Disks that a machine
    /// owns may be omitted.
    pub pool_disks: Vec<Arc<Disk>>,
    /// Other users of [`Observed::pool_disks`], by disk: machines that do not belong to the pool, and attachments that
    /// users created.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub other_users: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Time between the mark and the deletion of a disk. In this time, a use that has just begun becomes visible.
    pub collection_grace: Duration,
    /// The revisions that are stored, oldest first.
    pub stored: Vec<RevisionId>,
    /// Unconfirmed creates of machines.
    pub unconfirmed_creates: Vec<UnconfirmedCreate>,
    /// The memory of the pool.
    pub memory: &'a Memory,
    /// Names in use.
    pub names_in_use: &'a dyn NamesInUse,
}

impl Observed<'_> {
    /// The machines of the pool: those whose controller owner reference names the pool.
    pub fn pool_machines(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&self.pool.id.uid))
    }

    /// Marks the pool's machines that are not in `staying`, the result of a live list, as terminating. They do not
    /// count as machines that stay. The controller replaces them only when the snapshot shows that they are gone.
    pub fn count_live(&mut self, staying: &BTreeSet<Uid>) {
        let pool = &self.pool.id.uid;
        for machine in &mut self.machines {
            let live = machine.owner.as_ref() == Some(pool) && !machine.terminating;
            if live && !staying.contains(&machine.id.uid) {
                Arc::make_mut(machine).terminating = true;
            }
        }
    }
}

/// Why the plan does not contain a step yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The stage is in backoff after a failure.
    Backoff {
        /// The stage.
        stage: Stage,
        /// The remaining delay.
        left: Duration,
    },
    /// A disk of an earlier machine with the same name is not deleted yet.
    TerminatingDisk {
        /// The machine that needs the name.
        machine: ObjectId,
        /// The disk.
        disk: Arc<str>,
    },
    /// A user must change something. The text says what.
    UserAction(String),
    /// A request has a reservation of a machine, and has neither accepted nor withdrawn it.
    Reservation {
        /// The machine.
        machine: Arc<str>,
    },
    /// The plan no longer needs an unconfirmed create, but the API server may still carry it out.
    UnconfirmedCreate {
        /// The machine that the API server may still create.
        name: Arc<str>,
    },
    /// A disk will become free soon, so the plan does not create another one.
    PendingDisk {
        /// The machine that needs a disk.
        machine: Arc<str>,
        /// The disk.
        disk: Arc<str>,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { stage, left } => {
                write!(f, "stage {stage:?} is in backoff for {left:?} after a failure")
            }
            Self::TerminatingDisk { machine, disk } => {
                write!(f, "machine {machine} waits until disk {disk} of an earlier machine is deleted")
            }
            Self::UserAction(what) => f.write_str(what),
            Self::Reservation { machine } => {
                write!(
                    f,
                    "machine {machine} is reserved by a targeted removal: no machine is created or deleted in its \
                     place"
                )
            }
            Self::PendingDisk { machine, disk } => {
                write!(f, "machine {machine} waits for disk {disk}, which will become free soon")
            }
            Self::UnconfirmedCreate { name } => {
                write!(
                    f,
                    "the create of machine {name} is unconfirmed, and the API server may still carry it out"
                )
            }
        }
    }
}

/// Which kinds of writes the plan wants, including blocked ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes: any of them may come with any other")]
pub struct Wants {
    /// Machines are missing.
    pub create: bool,
    /// There is a surplus of machines that the controller may delete.
    pub remove: bool,
    /// A machine needs a repair.
    pub repair: bool,
    /// Entries of the removal record or revisions can be deleted.
    pub clean_up: bool,
    /// Machines lack the current revision.
    pub update: bool,
    /// Machines do not have the label of the revision that is in effect yet.
    pub record_revision: bool,
    /// Annotations of disks must change, or disks can be deleted.
    pub collect_disks: bool,
    /// A disk is smaller than its template requires.
    pub expand_disks: bool,
}

/// What to write now, when to plan again, and which steps are blocked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, by stage.
    pub actions: Vec<Action>,
    /// When to plan again, even without an event.
    pub requeue_after: Option<Duration>,
    /// The blocked steps, each with its reason.
    pub blockers: Vec<Blocker>,
    /// The kinds of writes that the plan wants.
    pub wants: Wants,
    /// The first failure that only a user can correct.
    pub failure: Option<Failure>,
    /// Disks that are neither free nor in use yet, for example a disk that a deleted machine still mounts.
    /// [`Memory::await_disks`] records since when.
    pub awaited: Vec<Arc<str>>,
}

/// Which part of the necessary repairs a plan contains.
#[derive(Clone, Copy)]
enum Repairs {
    /// All of them.
    Complete,
    /// The next pass plans the rest.
    Truncated,
    /// None: repairs are in backoff for this time.
    Paused(Duration),
}

impl Plan {
    /// Whether the controller must read the pool live and plan again before it writes, because the snapshot of the
    /// machines can be newer than the cached pool.
    pub fn needs_live_pool(&self) -> bool {
        self.actions.iter().any(|action| match action {
            Action::Create { .. }
            | Action::Delete { .. }
            // The templates determine which disks may be deleted.
            | Action::DeleteDisk { .. }
            | Action::OpenNameBlock { .. }
            | Action::PruneRecord { .. } => true,
            Action::Relabel { .. }
            | Action::Release { .. }
            | Action::CreateDisk { .. }
            | Action::Repoint { .. }
            | Action::Detach { .. }
            | Action::Update { .. }
            | Action::RecordRevision { .. }
            | Action::AnnotateDisk { .. }
            | Action::ExpandDisk { .. }
            | Action::StoreRevision { .. }
            | Action::PruneRevision { .. } => false,
        })
    }

    /// Whether the plan deletes surplus machines. If so, the controller must first list the machines live, call
    /// [`Observed::count_live`] and plan again. Otherwise a machine that another client has just deleted, and that the
    /// snapshot still shows, would count as one that stays.
    pub fn deletes_surplus(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| matches!(action, Action::Delete { reason: DeleteReason::Surplus, .. }))
    }

    /// Plans as many of `repairs` as their backoff allows. Repairs of objects that rejected the last write come last.
    fn repair(&mut self, observed: &Observed<'_>, mut repairs: Vec<Action>) -> Repairs {
        if repairs.is_empty() {
            return Repairs::Complete;
        }
        self.wants.repair = true;
        repairs.sort_by_key(|action| observed.memory.was_refused(action.object()));
        match observed.memory.repairing.batch_size(observed.uptime) {
            Ok(width) => {
                let outcome = if repairs.len() > width { Repairs::Truncated } else { Repairs::Complete };
                self.actions.extend(repairs.into_iter().take(width));
                outcome
            }
            Err(left) => {
                self.back_off(Stage::Repair, left);
                Repairs::Paused(left)
            }
        }
    }

    /// Plans as many of `actions` as the backoff of their stage allows. Actions on objects that rejected the last write
    /// come last.
    fn extend_by(
        &mut self,
        observed: &Observed<'_>,
        stage: Stage,
        pace: Result<usize, Duration>,
        mut actions: Vec<Action>,
    ) {
        let width = match pace {
            Ok(width) => width,
            Err(left) => return self.back_off(stage, left),
        };
        let refused = |action: &Action| observed.memory.was_refused(action.object());
        actions.sort_by(|a, b| refused(a).cmp(&refused(b)).then_with(|| a.object().cmp(b.object())));
        if actions.len() > width {
            // The next pass, which starts at once, plans the rest.
            self.requeue_in(Duration::ZERO);
        }
        self.actions.extend(actions.into_iter().take(width));
    }

    fn report_failure(&mut self, reason: FailureReason, message: &str) {
        self.failure.get_or_insert_with(|| Failure { reason, message: message.to_owned() });
    }

    fn requeue_in(&mut self, after: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(after, |sooner| sooner.min(after)));
    }

    fn back_off(&mut self, stage: Stage, left: Duration) {
        let blocker = Blocker::Backoff { stage, left };
        if !self.blockers.contains(&blocker) {
            self.blockers.push(blocker);
        }
        self.requeue_in(left);
    }
}

/// Decides what to write. If the pool has converged, the plan is empty.
///
/// Cost: linear in the number of machines and disks.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    // The garbage collector deletes the machines of a deleted pool. With `--cascade=orphan` they stay unchanged.
    if observed.pool.deleting {
        return plan;
    }
    membership::plan(observed, &mut plan);
    // All planners share one `FreeDisks`, so that no disk is allocated twice.
    let mut free_disks = allocation::FreeDisks::new(observed);
    let disks::Found { repairs, growth } = disks::plan(observed, &mut free_disks, &mut plan);
    remove::plan(observed, &mut plan);
    create::plan(observed, &mut free_disks, repairs, &mut plan);
    rollout::plan(observed, &mut free_disks, &mut plan);
    disk_collection::plan(observed, &free_disks, &mut plan);
    expand::plan(observed, &free_disks, growth, &mut plan);
    revisions::plan(observed, &mut plan);
    record::plan(observed, &mut plan);
    plan
}

/// The validation error that prevents the controller from creating machines of this pool.
pub(crate) fn invalid_spec(pool: &Pool) -> Option<Failure> {
    let message = format!("the spec of the pool is invalid: {}", pool.validation_errors.first()?);
    Some(Failure { reason: FailureReason::FailedCreate, message })
}

#[cfg(test)]
mod tests;

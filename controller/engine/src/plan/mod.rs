//! From one observation to what should be written now.
//!
//! The planners run in this order, and so do their actions: membership (markers that got lost), disks (what members
//! lack), removal (who was named, and who is too many), creation (who is missing), rollout (who has not got the current
//! template), keeping and growth (the pool's disks: their marks, their end, their size), the revisions of the template
//! that are kept, and the record of named machines.

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

/// Which names are in use in the pool's namespace, by anybody.
pub trait Taken {
    /// Whether a machine object has this name.
    fn machine(&self, name: &str) -> bool;
    /// Whether a disk object has this name.
    fn disk(&self, name: &str) -> bool;
}

/// The usual [`Observed::collection_grace`].
pub const COLLECTION_GRACE: Duration = Duration::from_secs(30);

/// All that one pass may know: read once, never refreshed half-way.
pub struct Observed<'a> {
    /// When the pass began. The engine has no other clock.
    pub now: Timestamp,
    /// The same moment on the clock that never jumps.
    pub uptime: Duration,
    /// The pool.
    pub pool: &'a Pool,
    /// Machines that the pool owns, or that carry its UID as a label; our own writes are laid over the cache.
    pub machines: Vec<Arc<Machine>>,
    /// The disks that the machines refer to, by name, as far as they exist; ours laid over the cache.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub disks: HashMap<Arc<str>, Arc<Disk>>,
    /// The disks that the pool owns, or that carry its UID as a label, whether or not a machine refers to them; ours
    /// laid over the cache. Disks that belong to a machine may be left out.
    pub kept: Vec<Arc<Disk>>,
    /// Who else refers to a disk of [`Observed::kept`]: machines outside the pool, and attachments that somebody made
    /// by hand, by disk.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub others: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// How long a disk is marked before it is deleted: time for whoever is about to use it to be seen.
    pub collection_grace: Duration,
    /// The revisions that are stored, oldest first.
    pub stored: Vec<RevisionId>,
    /// Machine creates whose answer was lost.
    pub unconfirmed_creates: Vec<UnconfirmedCreate>,
    /// What the controller remembers.
    pub memory: &'a Memory,
    /// Names in use.
    pub taken: &'a dyn Taken,
}

impl Observed<'_> {
    /// The machines whose controller owner is the pool.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&self.pool.id.uid))
    }

    /// Takes the members that a live read did not find among the pool's `staying` ones as leaving: they are none of the
    /// machines that stay, and nobody takes their place before the snapshot shows that they are gone.
    pub fn count_live(&mut self, staying: &BTreeSet<Uid>) {
        let pool = &self.pool.id.uid;
        for machine in &mut self.machines {
            let member = machine.owner.as_ref() == Some(pool) && !machine.terminating;
            if member && !staying.contains(&machine.id.uid) {
                Arc::make_mut(machine).terminating = true;
            }
        }
    }
}

/// What a step that was postponed waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The pause after a failure.
    Backoff {
        /// What is paused.
        stage: Stage,
        /// How much of it is left.
        left: Duration,
    },
    /// A disk of an earlier machine of the same name to be gone.
    TerminatingDisk {
        /// The member that needs the name.
        member: ObjectId,
        /// The disk.
        disk: Arc<str>,
    },
    /// The owner to change the pool.
    UserAction(String),
    /// A request that has reserved a machine to go on, or to be dropped.
    Reservation {
        /// The machine.
        machine: Arc<str>,
    },
    /// A create without an answer, wanted no longer, to become impossible.
    UnconfirmedCreate {
        /// The machine that may still appear.
        name: Arc<str>,
    },
    /// A disk to become free, rather than to make another one.
    PendingDisk {
        /// The machine that needs one.
        machine: Arc<str>,
        /// The disk.
        disk: Arc<str>,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { stage, left } => write!(f, "{stage:?} pauses for {left:?} after a failure"),
            Self::TerminatingDisk { member, disk } => {
                write!(f, "disk {disk} of an earlier machine must be gone before {member} gets its own")
            }
            Self::UserAction(what) => f.write_str(what),
            Self::Reservation { machine } => {
                write!(
                    f,
                    "somebody is about to remove {machine} by name: nobody is created or removed in its place"
                )
            }
            Self::PendingDisk { machine, disk } => {
                write!(f, "machine {machine} waits for disk {disk}, which is about to become free")
            }
            Self::UnconfirmedCreate { name } => {
                write!(f, "the create of {name} got no answer and may still happen")
            }
        }
    }
}

/// Which kinds of writes the plan would like to do, postponed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes: any of them may come with any other")]
pub struct Wants {
    /// Members are missing.
    pub create: bool,
    /// Members are too many, and some may leave.
    pub remove: bool,
    /// Something about a member is to be repaired.
    pub repair: bool,
    /// Entries of the record are settled, or revisions pruned.
    pub clean_up: bool,
    /// Members lack the current template.
    pub update: bool,
    /// Members do not say yet that the current template is in effect.
    pub record_revision: bool,
    /// Something about a disk between machines is to be written.
    pub collect_disks: bool,
    /// A disk is smaller than its template.
    pub expand_disks: bool,
}

/// What to write now, when to look again, and what was postponed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, by stage.
    pub actions: Vec<Action>,
    /// When to plan again even if nothing happens.
    pub again: Option<Duration>,
    /// What postponed steps wait for.
    pub blockers: Vec<Blocker>,
    /// What the plan is after.
    pub wants: Wants,
    /// What only the owner can put right; the first of it.
    pub complaint: Option<Failure>,
    /// Disks that are neither free nor in use yet, such as one that is still mounted by a machine that is gone.
    /// [`Memory::await_disks`] keeps since when.
    pub awaited: Vec<Arc<str>>,
}

/// How much of the wanted repairs a plan does.
#[derive(Clone, Copy)]
enum Repairs {
    /// All of them.
    Complete,
    /// The rest is left to the next pass.
    Truncated,
    /// None may be tried for so long.
    Paused(Duration),
}

impl Plan {
    /// Whether the pool must be read live, and planned for again, before anything is written: the snapshot of the
    /// machines may be newer than the cached pool.
    pub fn rests_on_the_count(&self) -> bool {
        self.actions.iter().any(|action| match action {
            Action::Create { .. }
            | Action::Delete { .. }
            // What may be deleted depends on the templates.
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

    /// Whether members leave because they are too many: they must be counted live before, with
    /// [`Observed::count_live`], and planned for again. A machine that somebody else has just taken away, and that the
    /// snapshot still shows, would otherwise count as one of those that stay.
    pub fn takes_surplus(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| matches!(action, Action::Delete { reason: DeleteReason::Surplus, .. }))
    }

    /// Plans what the pace of repairs allows of `repairs`; those that were refused come after all others.
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
                self.pause(Stage::Repair, left);
                Repairs::Paused(left)
            }
        }
    }

    /// Plans as much of `actions` as the pace of their stage allows; those on objects that refused the last write come
    /// after all others.
    fn extend_by(
        &mut self,
        observed: &Observed<'_>,
        stage: Stage,
        pace: Result<usize, Duration>,
        mut actions: Vec<Action>,
    ) {
        let width = match pace {
            Ok(width) => width,
            Err(left) => return self.pause(stage, left),
        };
        let refused = |action: &Action| observed.memory.was_refused(action.object());
        actions.sort_by(|a, b| refused(a).cmp(&refused(b)).then_with(|| a.object().cmp(b.object())));
        if actions.len() > width {
            // The rest comes with the next pass, which nobody has to wake.
            self.look_again(Duration::ZERO);
        }
        self.actions.extend(actions.into_iter().take(width));
    }

    fn complain(&mut self, reason: FailureReason, message: &str) {
        self.complaint.get_or_insert_with(|| Failure { reason, message: message.to_owned() });
    }

    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |sooner| sooner.min(after)));
    }

    fn pause(&mut self, stage: Stage, left: Duration) {
        let blocker = Blocker::Backoff { stage, left };
        if !self.blockers.contains(&blocker) {
            self.blockers.push(blocker);
        }
        self.look_again(left);
    }
}

/// Decides what to write. A settled world yields no action.
///
/// Cost: linear in the members and their disks.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    // A pool on its way out is the garbage collector's; with `--cascade=orphan` its machines stay as they are.
    if observed.pool.deleting {
        return plan;
    }
    membership::plan(observed, &mut plan);
    // One shelf for all: whom the repairs leave a disk, nobody else gets it.
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

/// Why no machine of this pool can be created, whatever the count.
pub(crate) fn invalid_spec(pool: &Pool) -> Option<Failure> {
    let message = format!("the pool cannot be read: {}", pool.flaws.first()?);
    Some(Failure { reason: FailureReason::FailedCreate, message })
}

#[cfg(test)]
mod tests;

//! From one observation to what should be written now.
//!
//! The planners run in this order, and so do their actions: membership (markers that got lost), disks (what members
//! lack), removal (who was named, and who is too many), creation (who is missing), and the record of named machines.

mod action;
mod create;
mod disks;
mod membership;
mod record;
mod remove;

#[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ledger::Unanswered;
use crate::memory::Memory;
use crate::model::{Disk, Lifetime, ObjectId, Pool, Replica};
use crate::pacing::{Failure, FailureReason};

pub use action::{Action, DeleteReason, Stage};

/// Which names are in use in the pool's namespace, by anybody.
pub trait Taken {
    /// Whether a machine object has this name.
    fn machine(&self, name: &str) -> bool;
    /// Whether a disk object has this name.
    fn disk(&self, name: &str) -> bool;
}

/// All that one pass may know: read once, never refreshed half-way.
pub struct Observed<'a> {
    /// When the pass began. The engine has no other clock.
    pub now: Timestamp,
    /// The same moment on the clock that never jumps.
    pub uptime: Duration,
    /// The pool.
    pub pool: &'a Pool,
    /// Machines that the pool owns, or that carry its UID as a label; our own writes are laid over the cache.
    pub machines: Vec<Arc<Replica>>,
    /// The disks that the machines refer to, by name, as far as they exist; ours laid over the cache.
    #[expect(clippy::disallowed_types, reason = "looked up by name, never walked")]
    pub disks: HashMap<Arc<str>, Arc<Disk>>,
    /// Machine creates whose answer was lost.
    pub unanswered: Vec<Unanswered>,
    /// What the controller remembers.
    pub memory: &'a Memory,
    /// Names in use.
    pub taken: &'a dyn Taken,
}

impl Observed<'_> {
    /// The machines whose controller owner is the pool.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Replica>> {
        self.machines.iter().filter(|machine| machine.owner.as_ref() == Some(&self.pool.id.uid))
    }
}

/// What a step that was postponed waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The pause after a failure.
    Pause {
        /// What is paused.
        stage: Stage,
        /// How much of it is left.
        left: Duration,
    },
    /// A disk of an earlier machine of the same name to be gone.
    DyingDisk {
        /// The member that needs the name.
        member: ObjectId,
        /// The disk.
        disk: Arc<str>,
    },
    /// The owner to change the pool.
    Owner(String),
    /// A request that has reserved a machine to go on, or to be dropped.
    Reservation {
        /// The machine.
        machine: Arc<str>,
    },
    /// A create without an answer, wanted no longer, to become impossible.
    LostAnswer {
        /// The machine that may still appear.
        name: Arc<str>,
    },
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pause { stage, left } => write!(f, "{stage:?} pauses for {left:?} after a failure"),
            Self::DyingDisk { member, disk } => {
                write!(f, "disk {disk} of an earlier machine must be gone before {member} gets its own")
            }
            Self::Owner(what) => f.write_str(what),
            Self::Reservation { machine } => {
                write!(
                    f,
                    "somebody is about to remove {machine} by name: nobody is created or removed in its place"
                )
            }
            Self::LostAnswer { name } => write!(f, "the create of {name} got no answer and may still happen"),
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
    /// Entries of the record are settled.
    pub record: bool,
}

/// What to write now, when to look again, and what was postponed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes, by stage.
    pub actions: Vec<Action>,
    /// When to plan again even if nothing happens.
    pub again: Option<Duration>,
    /// What postponed steps wait for.
    pub waits: Vec<Wait>,
    /// What the plan is after.
    pub wants: Wants,
    /// What only the owner can put right; the first of it.
    pub complaint: Option<Failure>,
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
            | Action::OpenBlock { .. }
            | Action::Settle { .. } => true,
            Action::Relabel { .. }
            | Action::Release { .. }
            | Action::CreateDisk { .. }
            | Action::Repoint { .. } => false,
        })
    }

    /// Plans what the pace of repairs allows of `repairs`; those that were refused come after all others.
    fn repair(&mut self, observed: &Observed<'_>, mut repairs: Vec<Action>) -> Repairs {
        if repairs.is_empty() {
            return Repairs::Complete;
        }
        self.wants.repair = true;
        repairs.sort_by_key(|action| observed.memory.was_refused(action.object()));
        match observed.memory.repairing.width(observed.uptime) {
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

    fn complain(&mut self, reason: FailureReason, message: &str) {
        self.complaint.get_or_insert_with(|| Failure { reason, message: message.to_owned() });
    }

    fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |sooner| sooner.min(after)));
    }

    fn pause(&mut self, stage: Stage, left: Duration) {
        let wait = Wait::Pause { stage, left };
        if !self.waits.contains(&wait) {
            self.waits.push(wait);
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
    let disks = disks::plan(observed, &mut plan);
    remove::plan(observed, &mut plan);
    create::plan(observed, disks, &mut plan);
    record::plan(observed, &mut plan);
    plan
}

/// Why no machine of this pool can be created, whatever the count.
pub(crate) fn blocker(pool: &Pool) -> Option<Failure> {
    let kept = pool.disks.iter().find(|template| template.lifetime == Lifetime::Pool);
    let message = if let Some(flaw) = pool.flaws.first() {
        format!("the pool cannot be read: {flaw}")
    } else if let Some(template) = kept {
        format!(
            "disk template {}: reclaim.onScaleDown Retain is not served by this version of vmpool; use Delete",
            template.name
        )
    } else {
        return None;
    };
    Some(Failure { reason: FailureReason::FailedCreate, message })
}

#[cfg(test)]
mod tests;

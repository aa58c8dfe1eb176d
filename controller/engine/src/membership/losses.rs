//! Objects that the pool created and that did not stay in it: an admission policy or another client changed
//! the label or the owner by which they belong to the pool.
//!
//! The controller does not delete such an object, so a pool that replaced each of them would create objects
//! without bound. The controller therefore counts them. After a number of losses in a row it stops to create,
//! and later tries again with one object.
//!
//! ```text
//!                    lost                 the limit is reached
//!     Unlimited ───────────> counting ────────────────────────> Stopped <─────────────┐
//!         ▲                     │                                  │ time, or the      │ the trial is
//!         │  one was kept       │                                  ▼ spec changed      │ lost as well
//!         ├─────────────────────┘                                Trial ────────────────┘
//!         └───────────────────────────────────────────────────────┘  the trial was kept
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{ObjectId, Uid};

/// Number of consecutive losses at birth after which a pool stops to create.
pub const MOST_LOSSES: usize = 3;

/// Time after the last loss at which a stopped pool creates one more object.
pub const RETRY: Duration = Duration::from_mins(10);

/// Time between two rehearsals of a create while a pool is stopped. A rehearsal creates nothing.
pub const REHEARSAL: Duration = Duration::from_mins(1);

/// How long a created object must stay in the pool, so that the losses before it count no longer.
const KEPT: Duration = RETRY;

/// The same for the one object that a stopped pool tries again with.
const TRIAL_KEPT: Duration = Duration::from_mins(1);

/// When an object stopped to belong to the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The response to its create showed that it does not belong to the pool.
    AtBirth,
    /// A client changed it afterwards.
    Later,
}

/// One loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When it happened.
    pub kind: LossKind,
    /// What was changed, by which client: a sentence.
    pub message: String,
}

/// What the controller knows about an object that it created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreatedObjectState {
    /// It belongs to the pool.
    Kept,
    /// It exists and does not belong to the pool.
    Lost,
    /// It is deleted or being deleted.
    Gone,
    /// No cache shows it yet.
    Unknown,
}

/// Whether a create must be rehearsed with a dry run before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rehearsal {
    /// It need not.
    #[default]
    None,
    /// The dry run must show an object that belongs to the pool.
    Required,
    /// The same, but a server that can carry out no dry run does not prevent the create.
    IfSupported,
}

/// What the losses allow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowance {
    /// Any number of creates.
    Unlimited,
    /// One create.
    Trial(Rehearsal),
    /// None for this time.
    Stopped(Duration),
}

/// The creates of one kind of object that a pool did not keep. The controller remains correct if this is lost
/// at any time: the conditions of the pool then show that it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Created objects that have belonged to the pool so far, and the uptime of their creation.
    young: BTreeMap<Uid, (Arc<str>, Duration)>,
    /// Number of consecutive losses.
    count: usize,
    last: Option<Loss>,
    /// The uptime of the last loss of an object.
    at: Duration,
    /// The uptime of the last rehearsal that was lost.
    rehearsed: Option<Duration>,
    /// Whether a user changed the spec since the pool is stopped.
    is_retried: bool,
    /// The object that a stopped pool tries again with, and when it was created.
    trial: Option<(Uid, Duration)>,
}

impl Losses {
    /// Records an object that was created and belongs to the pool.
    pub fn created(&mut self, id: &ObjectId, limit: usize, uptime: Duration) {
        if self.is_stopped(limit) {
            match self.last.as_ref().map(|last| last.kind) {
                // Nothing changes the created objects any more.
                Some(LossKind::AtBirth) => self.reset(),
                Some(LossKind::Later) | None => self.trial = Some((id.uid.clone(), uptime)),
            }
        }
        self.young.insert(id.uid.clone(), (id.name.clone(), uptime));
    }

    /// Records an object that a request of the controller may have created, with any owner.
    pub fn watch(&mut self, id: &ObjectId, uptime: Duration) {
        self.young.entry(id.uid.clone()).or_insert_with(|| (id.name.clone(), uptime));
    }

    /// Records a loss.
    pub fn lost(&mut self, loss: Loss, uptime: Duration) {
        self.count = self.count.saturating_add(1);
        self.last = Some(loss);
        self.at = uptime;
        self.rehearsed = None;
        self.is_retried = false;
        self.trial = None;
    }

    /// Records a rehearsal whose object does not belong to the pool.
    pub fn rehearsal_lost(&mut self, message: String, uptime: Duration) {
        self.last = Some(Loss { kind: LossKind::AtBirth, message });
        self.rehearsed = Some(uptime);
        self.is_retried = false;
    }

    /// Updates the memory with the fates of the objects that were created lately. Returns those that are
    /// lost; record each with [`Losses::lost`].
    pub fn observe(
        &mut self,
        fate: impl Fn(&Arc<str>, &Uid) -> CreatedObjectState,
        uptime: Duration,
    ) -> Vec<ObjectId> {
        let (mut lost, mut kept) = (Vec::new(), false);
        let trial = self.trial.clone();
        self.young.retain(|uid, (name, created)| {
            let is_trial = trial.as_ref().is_some_and(|(trial, _)| trial == uid);
            let needed = if is_trial { TRIAL_KEPT } else { KEPT };
            let is_old = uptime.saturating_sub(*created) >= needed;
            match fate(name, uid) {
                CreatedObjectState::Kept => kept |= is_old,
                CreatedObjectState::Lost => {
                    lost.push(ObjectId { name: name.clone(), uid: uid.clone() });
                    return false;
                }
                CreatedObjectState::Gone => {
                    if is_trial {
                        self.trial = None;
                    }
                    return false;
                }
                // A later list does not contain it. Otherwise the pool would wait for its fate for ever.
                CreatedObjectState::Unknown if is_trial && is_old => self.trial = None,
                CreatedObjectState::Unknown => {}
            }
            !is_old
        });
        if kept {
            self.reset();
        }
        lost
    }

    /// Records a change of the spec: a stopped pool may try again at once.
    pub fn retry(&mut self) {
        self.is_retried = self.count > 0;
    }

    /// Takes over what the conditions of the pool show after a change of leaders: whether losses stopped the
    /// pool, or objects were lost at birth, so that one more loss stops it.
    pub fn restore(&mut self, is_stopped: bool, limit: usize, message: &str, uptime: Duration) {
        let (kind, count) = if is_stopped {
            (LossKind::Later, limit.max(MOST_LOSSES))
        } else {
            (LossKind::AtBirth, MOST_LOSSES - 1)
        };
        *self = Self {
            count,
            last: Some(Loss { kind, message: message.to_owned() }),
            at: uptime,
            ..Self::default()
        };
    }

    /// What the losses allow now. `limit` is the number of consecutive losses after which the pool stops to
    /// create, if other clients changed the objects after their creation.
    pub fn allowance(&self, limit: usize, uptime: Duration) -> Allowance {
        if !self.is_stopped(limit) {
            return Allowance::Unlimited;
        }
        if let Some(left) = self.next_kept(uptime) {
            return Allowance::Stopped(left);
        }
        let left = self.remaining_retry_delay(uptime);
        let is_at_birth = self.last.as_ref().is_some_and(|last| last.kind == LossKind::AtBirth);
        if self.is_retried {
            return Allowance::Trial(Rehearsal::IfSupported);
        }
        if is_at_birth {
            let next = (self.rehearsed.unwrap_or(self.at) + REHEARSAL).saturating_sub(uptime);
            return match (next.is_zero(), left.is_zero()) {
                (true, true) => Allowance::Trial(Rehearsal::IfSupported),
                (true, false) => Allowance::Trial(Rehearsal::Required),
                (false, _) => Allowance::Stopped(next),
            };
        }
        if left.is_zero() { Allowance::Trial(Rehearsal::IfSupported) } else { Allowance::Stopped(left) }
    }

    /// How long no object may be deleted that would be created again. Afterwards, a stopped pool may delete
    /// one, whose replacement is a trial.
    pub fn remaining_block_of_recreations(&self, limit: usize, uptime: Duration) -> Option<Duration> {
        if !self.is_stopped(limit) {
            return None;
        }
        let of_trial = self.next_kept(uptime).unwrap_or_default();
        Some(of_trial.max(self.remaining_retry_delay(uptime))).filter(|left| !left.is_zero())
    }

    /// Time from now until [`RETRY`] has passed since the last loss.
    fn remaining_retry_delay(&self, uptime: Duration) -> Duration {
        RETRY.saturating_sub(uptime.saturating_sub(self.at))
    }

    /// Whether the pool creates no objects, or only one as a trial.
    pub fn is_stopped(&self, limit: usize) -> bool {
        let limit = match self.last.as_ref().map(|last| last.kind) {
            Some(LossKind::AtBirth) => MOST_LOSSES,
            Some(LossKind::Later) | None => limit.max(MOST_LOSSES),
        };
        self.count >= limit
    }

    /// The last loss.
    pub fn last(&self) -> Option<&Loss> {
        self.last.as_ref()
    }

    /// Time until an object counts as kept.
    pub fn next_kept(&self, uptime: Duration) -> Option<Duration> {
        let (_, created) = self.trial.as_ref()?;
        Some((*created + TRIAL_KEPT).saturating_sub(uptime).max(SOON))
    }

    fn reset(&mut self) {
        let young = std::mem::take(&mut self.young);
        *self = Self { young, ..Self::default() };
    }
}

/// The shortest time until the next look at an object whose time is over.
const SOON: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;

//! The record of removing chosen machines, kept on the pool as an annotation.
//!
//! Who names machines to be removed writes twice on the pool before anything is deleted, both times guarded by its
//! resource version:
//!
//! ```text
//!  reserve   the targets are written down, `replicas` stays          a target that vanishes now is not replaced
//!  verify    each target is read live; one is missing or foreign:    withdraw, and nothing has happened
//!  accept    one write lowers `replicas` by what [`RemovalRecord::accept`]  from here on it happens, whoever dies
//!            says and makes the targets accepted
//!  delete    with a UID precondition, by the same program and by     an entry leaves when its machine is gone
//!            the controller, whichever comes first
//! ```
//!
//! An accepted target is a victim under every policy, and the only one for its decrement. A reservation that nobody
//! accepts is dropped by the controller [`RESERVATION_AGE`] after it first saw it, by its own clock: nothing in the
//! record is a time. So whoever sent a reservation less than [`accept_within`] ago and finds it missing knows that its
//! own acceptance went through, although the answer was lost.
//!
//! A target is identified by its UID. There is one accepted entry for it at most; reservations of several requests
//! stand side by side, so that one of them withdrawing takes nothing from the others. While another request still has
//! a reservation of an accepted target, the accepted entry stays even if the machine is gone, so that this request
//! finds it when it accepts, and counts nothing twice.
//!
//! An entry says who asked, for the event that tells of the machine's end. Many machines are mostly named by one person
//! at a time, so a name is written with the first of a run of entries and holds for those that follow it; a record of
//! the greatest size has room for it whatever the machines are called. Where very many people ask at once, the last of
//! them stay unnamed rather than taking the room of somebody's entries. Nothing rests on a name: a record without names, such
//! as an earlier version writes, is as good.

mod written;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::model::{ObjectId, Uid};
pub use written::ParseError;

/// Most entries that one pool may have open.
pub const LIMIT: usize = 1000;

/// Most bytes that the written record may have: all annotations of an object share 256 KiB.
pub const LIMIT_BYTES: usize = 192 * 1024;

/// Most bytes of the name of who asked: what is longer is cut.
pub const LIMIT_NAME: usize = 256;

/// Room that names leave for each entry that may still come: what one takes with the longest name of a machine.
const PLAIN_BYTES: usize = 170;

/// Age at which the controller drops a reservation, counted from when it first saw it, unless it is told otherwise.
pub const RESERVATION_AGE: Duration = Duration::from_secs(30);

/// Age, counted from before it was sent, up to which a reservation cannot have been dropped, if it is dropped at
/// `reservation_age`. The rest is for clocks that run at different speeds.
pub fn accept_within(reservation_age: Duration) -> Duration {
    reservation_age / 6 * 5
}

/// How far the removal of one target has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// A request may be about to remove it: if it vanishes, it is not replaced.
    Reserved {
        /// Identity of the request, chosen by who sent it.
        request: Arc<str>,
    },
    /// `replicas` was lowered for it.
    Accepted,
}

/// One target of one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// The machine.
    pub target: ObjectId,
    /// How far its removal has come.
    pub state: State,
    /// The user who asked for it, as far as that is known.
    pub by: Option<Arc<str>>,
}

/// The entries of one pool, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalRecord {
    entries: Vec<Entry>,
}

/// No room for further entries: try again when some have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entries} removals of {bytes} bytes would be open at once, and a pool has room for {LIMIT} of {LIMIT_BYTES}"
)]
pub struct Full {
    /// Entries that there would be.
    pub entries: usize,
    /// Bytes that the written record would have.
    pub bytes: usize,
}

impl RemovalRecord {
    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether there are none; the annotation is left out then.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The targets whose removal was accepted: each once.
    pub fn accepted(&self) -> impl Iterator<Item = &ObjectId> {
        self.entries.iter().filter(|entry| entry.state == State::Accepted).map(|entry| &entry.target)
    }

    /// The targets that are reserved and that nobody's acceptance covers, each once: while they are, they count as
    /// present.
    pub fn reserved(&self) -> impl Iterator<Item = &ObjectId> {
        let mut known: BTreeSet<&Uid> = self.accepted().map(|target| &target.uid).collect();
        self.entries.iter().map(|entry| &entry.target).filter(move |target| known.insert(&target.uid))
    }

    /// The requests that have reservations, each once.
    pub fn requests(&self) -> BTreeSet<&Arc<str>> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.state {
                State::Reserved { request } => Some(request),
                State::Accepted => None,
            })
            .collect()
    }

    /// Whether the removal of this target was accepted.
    pub fn is_accepted(&self, target: &Uid) -> bool {
        self.accepted().any(|accepted| accepted.uid == *target)
    }

    /// Whether this request has a reservation of this target.
    pub fn holds(&self, request: &str, target: &Uid) -> bool {
        self.entries.iter().any(|entry| entry.is_of(request) && entry.target.uid == *target)
    }

    /// Reserves the targets for a request, or none of them. What it has reserved before, and what is named twice, is
    /// reserved once. Nobody is known to have asked.
    ///
    /// # Errors
    /// [`Full`] beyond [`LIMIT`] entries or [`LIMIT_BYTES`]; the record is unchanged then.
    ///
    /// # Panics
    /// If `request` is empty.
    pub fn reserve(&mut self, request: &str, targets: &[ObjectId]) -> Result<(), Full> {
        self.enter(request, None, targets)
    }

    /// As [`RemovalRecord::reserve`], for `user`, who asked for it. Where there is room for the targets and not for the name, it
    /// is left out: who asked must not decide about what may be removed.
    ///
    /// # Errors
    /// As for [`RemovalRecord::reserve`].
    ///
    /// # Panics
    /// If `request` is empty.
    pub fn reserve_for(&mut self, user: &str, request: &str, targets: &[ObjectId]) -> Result<(), Full> {
        let user = &user[..user.floor_char_boundary(LIMIT_NAME)];
        let by = (!user.is_empty()).then(|| user.into());
        self.enter(request, by.as_ref(), targets).or_else(|_| self.enter(request, None, targets))
    }

    fn enter(&mut self, request: &str, by: Option<&Arc<str>>, targets: &[ObjectId]) -> Result<(), Full> {
        assert!(!request.is_empty(), "a request has an identity");
        let mut known: BTreeSet<Uid> = self
            .entries
            .iter()
            .filter(|entry| entry.is_of(request))
            .map(|entry| entry.target.uid.clone())
            .collect();
        let before = self.entries.len();
        let request: Arc<str> = request.into();
        self.entries.extend(targets.iter().filter(|target| known.insert(target.uid.clone())).map(|target| {
            Entry {
                target: target.clone(),
                state: State::Reserved { request: request.clone() },
                by: by.cloned(),
            }
        }));
        let full = Full { entries: self.entries.len(), bytes: self.to_string().len() };
        let room = match by {
            Some(_) => LIMIT_BYTES - LIMIT.saturating_sub(full.entries) * PLAIN_BYTES,
            None => LIMIT_BYTES,
        };
        // Who adds nothing needs no room.
        if full.entries > before && (full.entries > LIMIT || full.bytes > room) {
            self.entries.truncate(before);
            return Err(full);
        }
        Ok(())
    }

    /// Gives up all reservations of a request. What was accepted stays accepted.
    pub fn withdraw(&mut self, request: &str) {
        self.entries.retain(|entry| !entry.is_of(request));
    }

    /// Accepts what a request has reserved, and says by how much `replicas` goes down for it: by the targets that
    /// nobody's acceptance had covered.
    ///
    /// Whoever accepts first makes sure with [`RemovalRecord::holds`] that it still has all its reservations.
    pub fn accept(&mut self, request: &str) -> usize {
        let mut accepted: BTreeSet<Uid> = self.accepted().map(|target| target.uid.clone()).collect();
        let before = accepted.len();
        self.entries.retain_mut(|entry| {
            if !entry.is_of(request) {
                return true;
            }
            entry.state = State::Accepted;
            accepted.insert(entry.target.uid.clone())
        });
        accepted.len() - before
    }

    /// The accepted targets whose entries may leave once their machines are gone: those that no request still has a
    /// reservation of.
    pub fn may_leave(&self) -> impl Iterator<Item = &ObjectId> {
        let held: BTreeSet<&Uid> = self
            .entries
            .iter()
            .filter(|entry| entry.state != State::Accepted)
            .map(|entry| &entry.target.uid)
            .collect();
        self.accepted().filter(move |target| !held.contains(&target.uid))
    }

    /// Takes out the accepted entries of these machines, which are gone. Entries that may not leave yet stay.
    pub fn prune(&mut self, gone: &BTreeSet<Uid>) {
        let leaving: BTreeSet<Uid> = self
            .may_leave()
            .map(|target| &target.uid)
            .filter(|target| gone.contains(*target))
            .cloned()
            .collect();
        self.entries.retain(|entry| !leaving.contains(&entry.target.uid));
    }
}

impl Entry {
    /// Whether it is a reservation of this request.
    fn is_of(&self, request: &str) -> bool {
        matches!(&self.state, State::Reserved { request: known } if **known == *request)
    }
}

#[cfg(test)]
mod tests;

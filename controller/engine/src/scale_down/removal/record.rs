//! The entries of the removal record, and the steps of a targeted removal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{ObjectId, Uid};

/// Maximum number of entries of one pool.
pub const LIMIT: usize = 1000;

/// Maximum size of the stored record, in bytes. All annotations of an object together may have 256 KiB.
pub const LIMIT_BYTES: usize = 192 * 1024;

/// Maximum length of the name of a user, in bytes. A longer name is truncated.
pub const LIMIT_NAME: usize = 256;

/// Space that names leave for each entry that can still be added, in bytes: the size of an entry with the
/// longest name of a machine.
const PLAIN_BYTES: usize = 170;

/// Default age at which the controller drops a reservation, counted from when it first saw it.
pub const RESERVATION_AGE: Duration = Duration::from_secs(30);

/// Age up to which a reservation cannot have been dropped, counted from before it was sent, if the controller
/// drops it at `reservation_age`. The difference allows for clocks that run at different speeds.
pub fn acceptance_window(reservation_age: Duration) -> Duration {
    reservation_age / 6 * 5
}

/// The state of one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetState {
    /// A request has reserved it. If the machine disappears, the controller does not replace it.
    Reserved {
        /// Identity of the request, chosen by its client.
        request: Arc<str>,
    },
    /// The removal is accepted: `replicas` was lowered for it.
    Accepted,
}

/// One target of one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordedTarget {
    /// The machine.
    pub target: ObjectId,
    /// The state of its removal.
    pub state: TargetState,
    /// The user who requested the removal, if known.
    pub by: Option<Arc<str>>,
    /// Whether the machine is deleted although it is protected, and without a drain.
    pub force: bool,
}

/// The entries of one pool, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovalRecord {
    pub(super) entries: Vec<RecordedTarget>,
}

/// The record has no space for further entries. Try again after some were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the removal record would have {entries} entries and {bytes} bytes, more than the limit of {LIMIT} entries and \
     {LIMIT_BYTES} bytes"
)]
pub struct RemovalRecordFull {
    /// Number of entries that the record would have.
    pub entries: usize,
    /// Size that the stored record would have, in bytes.
    pub bytes: usize,
}

impl RemovalRecord {
    /// The entries.
    pub fn entries(&self) -> &[RecordedTarget] {
        &self.entries
    }

    /// Whether there are no entries. If so, the annotation is omitted.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The accepted targets, each once.
    pub fn accepted(&self) -> impl Iterator<Item = &ObjectId> {
        self.entries.iter().filter(|entry| entry.state == TargetState::Accepted).map(|entry| &entry.target)
    }

    /// The UIDs of the targets of accepted removals.
    pub(crate) fn accepted_uids(&self) -> BTreeSet<&Uid> {
        self.accepted().map(|target| &target.uid).collect()
    }

    /// The UIDs of all targets, reserved or accepted.
    pub(crate) fn target_uids(&self) -> BTreeSet<&Uid> {
        self.entries.iter().map(|entry| &entry.target.uid).collect()
    }

    /// The targets that are reserved and not accepted, each once. They count as present.
    pub fn reserved(&self) -> impl Iterator<Item = &ObjectId> {
        let mut known = self.accepted_uids();
        self.entries.iter().map(|entry| &entry.target).filter(move |target| known.insert(&target.uid))
    }

    /// The requests that have reservations, each once.
    pub fn requests(&self) -> BTreeSet<&Arc<str>> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.state {
                TargetState::Reserved { request } => Some(request),
                TargetState::Accepted => None,
            })
            .collect()
    }

    /// Whether the removal of this target was accepted.
    pub fn is_accepted(&self, target: &Uid) -> bool {
        self.accepted().any(|accepted| accepted.uid == *target)
    }

    /// Whether an accepted removal of this target was forced.
    pub fn is_forced(&self, target: &Uid) -> bool {
        let is_forced = |entry: &RecordedTarget| entry.force && entry.state == TargetState::Accepted;
        self.entries.iter().any(|entry| is_forced(entry) && entry.target.uid == *target)
    }

    /// Whether this request has a reservation of this target.
    pub fn holds(&self, request: &str, target: &Uid) -> bool {
        self.entries.iter().any(|entry| entry.is_of(request) && entry.target.uid == *target)
    }

    /// Reserves all targets for a request, or none of them. Targets that are already reserved by the request
    /// or that occur twice are reserved once. The entries contain no user.
    ///
    /// # Errors
    /// [`RemovalRecordFull`] beyond [`LIMIT`] entries or [`LIMIT_BYTES`]; the record is unchanged then.
    ///
    /// # Panics
    /// If `request` is empty.
    pub fn reserve(&mut self, request: &str, targets: &[ObjectId]) -> Result<(), RemovalRecordFull> {
        self.enter(request, None, false, targets)
    }

    /// As [`RemovalRecord::reserve`], with the user who requested the removal. If there is space for the
    /// targets but not for the name, the name is omitted, so that the length of a name does not decide
    /// whether a removal is possible.
    ///
    /// # Errors
    /// As for [`RemovalRecord::reserve`].
    ///
    /// # Panics
    /// If `request` is empty.
    pub fn reserve_for(
        &mut self,
        user: &str,
        request: &str,
        targets: &[ObjectId],
    ) -> Result<(), RemovalRecordFull> {
        self.enter_for(user, request, false, targets)
    }

    /// As [`RemovalRecord::reserve_for`], for a removal that ends the protection of its targets and does not
    /// drain them.
    ///
    /// # Errors
    /// As for [`RemovalRecord::reserve`].
    ///
    /// # Panics
    /// If `request` is empty.
    pub fn reserve_forced(
        &mut self,
        user: &str,
        request: &str,
        targets: &[ObjectId],
    ) -> Result<(), RemovalRecordFull> {
        self.enter_for(user, request, true, targets)
    }

    fn enter_for(
        &mut self,
        user: &str,
        request: &str,
        force: bool,
        targets: &[ObjectId],
    ) -> Result<(), RemovalRecordFull> {
        let user = &user[..user.floor_char_boundary(LIMIT_NAME)];
        let by = (!user.is_empty()).then(|| user.into());
        self.enter(request, by.as_ref(), force, targets)
            .or_else(|_| self.enter(request, None, force, targets))
    }

    fn enter(
        &mut self,
        request: &str,
        by: Option<&Arc<str>>,
        force: bool,
        targets: &[ObjectId],
    ) -> Result<(), RemovalRecordFull> {
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
            RecordedTarget {
                target: target.clone(),
                state: TargetState::Reserved { request: request.clone() },
                by: by.cloned(),
                force,
            }
        }));
        let full = RemovalRecordFull { entries: self.entries.len(), bytes: self.to_string().len() };
        let room = match by {
            Some(_) => LIMIT_BYTES - LIMIT.saturating_sub(full.entries) * PLAIN_BYTES,
            None => LIMIT_BYTES,
        };
        // A request that adds no entry needs no space.
        if full.entries > before && (full.entries > LIMIT || full.bytes > room) {
            self.entries.truncate(before);
            return Err(full);
        }
        Ok(())
    }

    /// Removes all reservations of a request. Accepted entries stay.
    pub fn withdraw(&mut self, request: &str) {
        self.entries.retain(|entry| !entry.is_of(request));
    }

    /// Accepts all reservations of a request. Returns by how much to lower `replicas`: the number of targets
    /// that were not accepted before.
    ///
    /// The caller must check with [`RemovalRecord::holds`] that all reservations still exist.
    pub fn accept(&mut self, request: &str) -> usize {
        let mut accepted: BTreeSet<Uid> = self.accepted().map(|target| target.uid.clone()).collect();
        let before = accepted.len();
        self.entries.retain_mut(|entry| {
            if !entry.is_of(request) {
                return true;
            }
            entry.state = TargetState::Accepted;
            accepted.insert(entry.target.uid.clone())
        });
        accepted.len() - before
    }

    /// The accepted targets whose entries can be removed when their machines are gone: those without a
    /// reservation.
    pub fn may_leave(&self) -> impl Iterator<Item = &ObjectId> {
        let held: BTreeSet<&Uid> = self
            .entries
            .iter()
            .filter(|entry| entry.state != TargetState::Accepted)
            .map(|entry| &entry.target.uid)
            .collect();
        self.accepted().filter(move |target| !held.contains(&target.uid))
    }

    /// Removes the accepted entries of these machines, which are gone. Entries that must not be removed yet
    /// stay.
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

impl RecordedTarget {
    /// Whether it is a reservation of this request.
    fn is_of(&self, request: &str) -> bool {
        matches!(&self.state, TargetState::Reserved { request: known } if **known == *request)
    }
}

#[cfg(test)]
mod tests;

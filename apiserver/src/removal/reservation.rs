//! One request within a batch: the targets that it reserves, and how the reservation ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_engine::{ObjectId, Uid};

use super::errors::{machines_protected, name_returned_error, target_not_found, unconfirmed_removal_error};
use super::model::{Accepted, PoolName, RemovalJob, RemovalTarget, TargetDeletion};
use super::observe::{Machines, Removals, owned_machine, protected_target};
use crate::error::{Error, ProtectedTarget};

/// What a write does with a reservation.
#[derive(Clone, Debug)]
pub(super) enum ReservationDecision {
    /// The write accepts it.
    Accept,
    /// The write withdraws it, for this reason.
    Withdraw(Error),
}

/// The unconfirmed writes that could have ended a reservation.
#[derive(Clone, Debug)]
enum UnconfirmedWrites {
    /// There are none.
    None,
    /// All would have done the same.
    Only(ReservationDecision),
    /// Some would have accepted the reservation and some would have withdrawn it.
    Both,
}

/// A request with targets that must be reserved.
pub(super) struct Reservation {
    pub(super) job: RemovalJob,
    /// The identity of the entries in the removal record. It is random, so no other request can have the
    /// same.
    pub(super) id: Arc<str>,
    pub(super) targets: Vec<RemovalTarget>,
    /// The targets that were invalid when they were verified, with the reason.
    invalid: Vec<(Uid, Error)>,
    unconfirmed: UnconfirmedWrites,
}

impl Reservation {
    pub(super) fn new(job: RemovalJob, id: String, targets: Vec<RemovalTarget>) -> Self {
        Self { job, id: id.into(), targets, invalid: Vec::new(), unconfirmed: UnconfirmedWrites::None }
    }

    /// The targets that must be reserved: those that no earlier request removed.
    pub(super) fn unremoved_targets(&self) -> Vec<ObjectId> {
        self.targets.iter().filter(|target| !target.already_removed).map(|target| target.id.clone()).collect()
    }

    /// Marks the targets that another request has removed in the meantime. They need no reservation.
    pub(super) fn update_removed(&mut self, record: &RemovalRecord) {
        for target in &mut self.targets {
            target.already_removed |= record.is_accepted(&target.id.uid);
        }
    }

    /// Whether the removal record contains all open targets.
    pub(super) fn is_stored(&self, record: &RemovalRecord) -> bool {
        self.unremoved_targets().iter().all(|target| record.holds(&self.id, &target.uid))
    }

    /// Checks the reserved targets against a later read.
    pub(super) fn verify(&mut self, machines: &Machines, pool_uid: &str, pool: &PoolName, now: Timestamp) {
        self.invalid.clear();
        for target in self.targets.iter_mut().filter(|target| !target.already_removed) {
            let found = match owned_machine(machines, &target.id.name, pool_uid, pool) {
                Ok(found) => found.filter(|found| found.metadata.uid == target.id.uid.as_str()),
                Err(error) => {
                    self.invalid.push((target.id.uid.clone(), error));
                    continue;
                }
            };
            match found {
                Some(found) => {
                    target.deleted = found.metadata.deletion_timestamp.is_some();
                    target.deletion = TargetDeletion::of(found, self.job.force);
                }
                None => {
                    self.invalid.push((target.id.uid.clone(), target_not_found(&target.id.name, pool)));
                }
            }
        }
        if !self.job.force {
            self.verify_protection(machines, pool, now);
        }
    }

    /// Finds the targets that have become protected since they were observed.
    fn verify_protection(&mut self, machines: &Machines, pool: &PoolName, now: Timestamp) {
        let open = |target: &&RemovalTarget| !target.already_removed && !target.deleted;
        let protected: Vec<(Uid, ProtectedTarget)> = self
            .targets
            .iter()
            .filter(open)
            .filter_map(|target| {
                let name = &*target.id.name;
                let index = self.job.targets.iter().position(|requested| requested.name == name)?;
                Some((target.id.uid.clone(), protected_target(machines, index, name, now)?))
            })
            .collect();
        let (uids, targets): (Vec<Uid>, Vec<ProtectedTarget>) = protected.into_iter().unzip();
        let error = machines_protected(pool, targets);
        self.invalid.extend(uids.into_iter().map(|uid| (uid, error.clone())));
    }

    /// Accept, if each target is valid or was removed by another request in the meantime. The removals are
    /// those of the pool that the write requires: another request for the name may have been accepted since
    /// the targets were observed.
    pub(super) fn decide(&self, removals: &Removals, pool: &PoolName) -> ReservationDecision {
        let invalid = self.invalid.iter().find(|(uid, _)| !removals.record.is_accepted(uid));
        let error = invalid.map(|(_, error)| error.clone()).or_else(|| self.name_returned(removals, pool));
        error.map_or(ReservationDecision::Accept, ReservationDecision::Withdraw)
    }

    /// The error of a target that the request names without a UID, and whose name an earlier target had.
    fn name_returned(&self, removals: &Removals, pool: &PoolName) -> Option<Error> {
        let mut open = self.targets.iter().filter(|target| !target.already_removed);
        open.find_map(|target| {
            let earlier = removals.earlier_target(&target.id)?;
            let mut requested =
                self.job.targets.iter().filter(|requested| *requested.name == *target.id.name);
            requested
                .all(|requested| requested.uid.is_none())
                .then(|| name_returned_error(pool, earlier, &target.id))
        })
    }

    /// Records that the write with this decision is unconfirmed.
    pub(super) fn add_unconfirmed(&mut self, decision: &ReservationDecision) {
        let same = |known: &ReservationDecision| {
            matches!(known, ReservationDecision::Accept) == matches!(decision, ReservationDecision::Accept)
        };
        self.unconfirmed = match &self.unconfirmed {
            UnconfirmedWrites::None => UnconfirmedWrites::Only(decision.clone()),
            UnconfirmedWrites::Only(known) if same(known) => return,
            UnconfirmedWrites::Only(_) | UnconfirmedWrites::Both => UnconfirmedWrites::Both,
        };
    }

    /// The result of the request if its entries are missing and only its own writes can have removed them.
    /// `None` if none of those writes is unconfirmed.
    pub(super) fn resolve_unconfirmed(&self) -> Option<Result<(), Error>> {
        match &self.unconfirmed {
            UnconfirmedWrites::None => None,
            UnconfirmedWrites::Only(ReservationDecision::Accept) => Some(Ok(())),
            UnconfirmedWrites::Only(ReservationDecision::Withdraw(error)) => Some(Err(error.clone())),
            UnconfirmedWrites::Both => Some(Err(unconfirmed_removal_error())),
        }
    }

    /// Ends the request as accepted. `already_removed` contains the targets that this request does not count.
    pub(super) fn accept(mut self, pool_uid: &str, replicas: Option<i64>, already_removed: &BTreeSet<Uid>) {
        for target in &mut self.targets {
            target.already_removed |= already_removed.contains(&target.id.uid);
            // An invalid target of an accepted request was removed by another request and is gone.
            target.deleted |= self.invalid.iter().any(|(uid, _)| *uid == target.id.uid);
        }
        let targets = self.targets;
        self.job.finish(Ok(Accepted { pool_uid: pool_uid.to_owned(), replicas, targets }));
    }

    /// Ends the request with an error. The removal was not applied.
    pub(super) fn refuse(self, error: Error) {
        self.job.finish(Err(error));
    }

    /// Ends the request with an error. If a write is unconfirmed, the error says so.
    pub(super) fn give_up(self, error: &Error) {
        let error = match self.unconfirmed {
            UnconfirmedWrites::None => error.clone(),
            UnconfirmedWrites::Only(_) | UnconfirmedWrites::Both => unconfirmed_removal_error(),
        };
        self.refuse(error);
    }
}

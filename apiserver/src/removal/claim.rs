//! One request during its turn: what it has reserved, and what its machines turned out to be.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmpool_engine::removal::RemovalRecord;
use vmpool_engine::{ObjectId, Uid};

use super::look::{Machines, member, missing};
use super::{Accepted, Job, Leaving, PoolName};
use crate::error::Error;

/// What a write was to do for a request.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Its reservations become accepted.
    Accept,
    /// Its reservations are withdrawn, and the caller hears why.
    Refuse(Error),
}

/// What the writes without an answer would have done for a request.
#[derive(Clone, Debug)]
enum Sent {
    Nothing,
    Only(Verdict),
    /// Some would have accepted and some withdrawn it.
    Both,
}

/// A request with machines to be reserved.
pub(super) struct Claim {
    pub(super) job: Job,
    /// The identity of its reservations: chosen here, so that nobody can claim those of another.
    pub(super) id: Arc<str>,
    pub(super) machines: Vec<Leaving>,
    /// The machines that turned out not to be what they must be, after they were reserved.
    spoilt: Vec<(Uid, Error)>,
    sent: Sent,
}

impl Claim {
    pub(super) fn new(job: Job, id: String, machines: Vec<Leaving>) -> Self {
        Self { job, id: id.into(), machines, spoilt: Vec::new(), sent: Sent::Nothing }
    }

    /// The machines that have to be reserved.
    pub(super) fn open(&self) -> Vec<ObjectId> {
        self.machines.iter().filter(|machine| !machine.already).map(|machine| machine.id.clone()).collect()
    }

    /// What another request has removed since the last look need not be reserved.
    pub(super) fn note_accepted(&mut self, record: &RemovalRecord) {
        for machine in &mut self.machines {
            machine.already |= record.is_accepted(&machine.id.uid);
        }
    }

    /// Whether all that has to be reserved is.
    pub(super) fn holds(&self, record: &RemovalRecord) -> bool {
        self.open().iter().all(|target| record.holds(&self.id, &target.uid))
    }

    /// Looks at the machines again, now that they are reserved.
    pub(super) fn verify(&mut self, machines: &Machines, pool_uid: &str, pool: &PoolName) {
        self.spoilt.clear();
        for machine in self.machines.iter_mut().filter(|machine| !machine.already) {
            let found = match member(machines, &machine.id.name, pool_uid, pool) {
                Ok(found) => found.filter(|found| found.metadata.uid == machine.id.uid.as_str()),
                Err(error) => {
                    self.spoilt.push((machine.id.uid.clone(), error));
                    continue;
                }
            };
            match found {
                Some(found) => machine.deleted = found.metadata.deletion_timestamp.is_some(),
                None => self.spoilt.push((machine.id.uid.clone(), missing(&machine.id.name, pool))),
            }
        }
    }

    /// What is to be done: everything, if each machine is as it must be, or was removed by another request meanwhile.
    pub(super) fn verdict(&self, record: &RemovalRecord) -> Verdict {
        match self.spoilt.iter().find(|(uid, _)| !record.is_accepted(uid)) {
            None => Verdict::Accept,
            Some((_, error)) => Verdict::Refuse(error.clone()),
        }
    }

    /// A write that would do this got no answer.
    pub(super) fn lost(&mut self, verdict: &Verdict) {
        let same = |known: &Verdict| matches!(known, Verdict::Accept) == matches!(verdict, Verdict::Accept);
        self.sent = match &self.sent {
            Sent::Nothing => Sent::Only(verdict.clone()),
            Sent::Only(known) if same(known) => return,
            Sent::Only(_) | Sent::Both => Sent::Both,
        };
    }

    /// What was done, if the reservations are gone although nobody else can have taken them: `None` if none of our
    /// writes could have.
    pub(super) fn settled(&self) -> Option<Result<(), Error>> {
        match &self.sent {
            Sent::Nothing => None,
            Sent::Only(Verdict::Accept) => Some(Ok(())),
            Sent::Only(Verdict::Refuse(error)) => Some(Err(error.clone())),
            Sent::Both => Some(Err(uncertain())),
        }
    }

    /// Tells the caller that the machines leave. `already` are those that were not counted for it.
    pub(super) fn accept(mut self, pool_uid: &str, replicas: Option<i64>, already: &BTreeSet<Uid>) {
        for machine in &mut self.machines {
            machine.already |= already.contains(&machine.id.uid);
            // Gone, since another request removed it meanwhile.
            machine.deleted |= self.spoilt.iter().any(|(uid, _)| *uid == machine.id.uid);
        }
        answer(self.job, Ok(Accepted { pool_uid: pool_uid.to_owned(), replicas, machines: self.machines }));
    }

    /// Tells the caller why nothing was done.
    pub(super) fn refuse(self, error: Error) {
        answer(self.job, Err(error));
    }

    /// Tells the caller why it was not found out whether something was done, or why nothing was.
    pub(super) fn give_up(self, error: &Error) {
        let error = match self.sent {
            Sent::Nothing => error.clone(),
            Sent::Only(_) | Sent::Both => uncertain(),
        };
        self.refuse(error);
    }
}

/// Nobody can tell any more what came of a write.
pub(super) fn uncertain() -> Error {
    let text = "the answer of the API server was lost: the request is done in full or not at all, and can be repeated";
    Error::Internal(text.to_owned())
}

/// Tells a caller what came of its request.
pub(super) fn answer(job: Job, result: Result<Accepted, Error>) {
    // The task behind the request ends only with the process.
    let _ = job.reply.send(result);
}

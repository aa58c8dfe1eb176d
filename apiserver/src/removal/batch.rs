//! One batch: reserves, verifies and accepts the targets of all its requests with shared writes. Each request
//! is granted or refused by itself.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use vmpool_engine::Uid;
use vmpool_engine::scale_down::removal::RemovalRecord;

use super::errors::{refused_write_error, unconfirmed_removal_error};
use super::model::{DEADLINE, RemovalJob};
use super::observe::{RemovalObservation, observe_pool_and_machines, read_machines};
use super::reservation::{Reservation, ReservationDecision};
use super::writes::{Attempts, PoolWriter, decremented_replicas};
use crate::cluster::{CallError, PoolFields};
use crate::error::Error;

/// A batch of requests for one pool.
pub(super) struct Batch<'a> {
    pub(super) writer: PoolWriter<'a>,
    /// The controller drops no reservation before it is this old.
    pub(super) accept_within: Duration,
}

/// Jobs that must start again.
struct RetriedJobs {
    jobs: Vec<RemovalJob>,
    /// Each job is retried by itself, because the API server refused the write that they shared.
    separately: bool,
}

impl RetriedJobs {
    const NONE: Self = Self { jobs: Vec::new(), separately: false };
}

impl Batch<'_> {
    /// Handles all jobs to their end.
    pub(super) async fn run(&self, jobs: Vec<RemovalJob>) {
        let (jobs, abandoned): (Vec<RemovalJob>, Vec<RemovalJob>) =
            jobs.into_iter().partition(RemovalJob::has_caller);
        for job in abandoned {
            // The callers have already received the timeout, and nothing was written for them.
            job.finish(Err(Error::Timeout(DEADLINE)));
        }
        let mut attempts = Attempts::begin(self.writer.env);
        let mut groups: VecDeque<Vec<RemovalJob>> = [jobs].into();
        while let Some(group) = groups.pop_front() {
            let retry = self.run_group(group, &mut attempts).await;
            if retry.jobs.is_empty() {
                continue;
            }
            if retry.separately {
                groups.extend(retry.jobs.into_iter().map(|job| vec![job]));
            } else {
                groups.push_back(retry.jobs);
            }
            if !self.writer.pause(&mut attempts).await {
                for job in groups.into_iter().flatten() {
                    job.finish(Err(self.writer.timed_out(&attempts)));
                }
                return;
            }
        }
    }

    async fn run_group(&self, jobs: Vec<RemovalJob>, attempts: &mut Attempts) -> RetriedJobs {
        if jobs.is_empty() {
            return RetriedJobs::NONE;
        }
        let (cluster, name) = (self.writer.cluster, self.writer.pool);
        let names = jobs.iter().flat_map(|job| &job.targets).map(|target| target.name.clone()).collect();
        let observed = match observe_pool_and_machines(cluster, name, names).await {
            Ok(observed) => observed,
            Err(error) => {
                for job in jobs {
                    job.finish(Err(error.clone()));
                }
                return RetriedJobs::NONE;
            }
        };
        let reservations = self.begin(&observed, jobs);
        // Taken before the first attempt, so the reservation is not older than this.
        let reserved_at = self.writer.env.uptime();
        let (pool, mut reservations) = match self.reserve(observed.pool, reservations, attempts).await {
            Ok(stored) => stored,
            Err(retry) => return retry,
        };
        let names = reservations
            .iter()
            .flat_map(Reservation::unremoved_targets)
            .map(|target| target.name.to_string())
            .collect();
        let machines = read_machines(cluster, name, names).await;
        for reservation in &mut reservations {
            reservation.verify(&machines, &pool.metadata.uid, name, self.writer.env.now());
        }
        self.accept(pool, reservations, reserved_at, attempts).await
    }

    /// Ends the jobs that need no write. The other jobs become reservations.
    fn begin(&self, observed: &RemovalObservation, jobs: Vec<RemovalJob>) -> Vec<Reservation> {
        let pool_uid = &observed.pool.metadata.uid;
        let mut reservations = Vec::new();
        for job in jobs {
            let now = self.writer.env.now();
            let required_uid = job.pool_uid.as_deref();
            match observed.targets(self.writer.pool, &job.targets, job.force, required_uid, now) {
                Ok(targets) => {
                    let id = format!("{:016x}", self.writer.env.random());
                    let reservation = Reservation::new(job, id, targets);
                    if reservation.unremoved_targets().is_empty() {
                        reservation.accept(pool_uid, None, &BTreeSet::new());
                    } else {
                        reservations.push(reservation);
                    }
                }
                Err(error) => job.finish(Err(error)),
            }
        }
        reservations
    }

    /// Stores the reservations. Returns the pool that contains them, and the reservations that fit into the
    /// record.
    async fn reserve(
        &self,
        mut pool: PoolFields,
        mut reservations: Vec<Reservation>,
        attempts: &mut Attempts,
    ) -> Result<(PoolFields, Vec<Reservation>), RetriedJobs> {
        loop {
            let mut record = match self.writer.record(&pool) {
                Ok(record) => record,
                Err(error) => return Err(give_up_reservations(reservations, &error)),
            };
            if !reservations.is_empty()
                && reservations.iter().all(|reservation| reservation.is_stored(&record))
            {
                // This includes a reservation whose targets another request has removed: the next step
                // handles it.
                return Ok((pool, reservations));
            }
            for reservation in &mut reservations {
                reservation.update_removed(&record);
            }
            reservations = self.enter(&mut record, reservations);
            if reservations.is_empty() {
                return Err(RetriedJobs::NONE);
            }
            match self.writer.write(&pool, &record, None).await {
                Ok(stored) => return Ok((stored, reservations)),
                Err(error) if error.is_conflict() || error.is_transient() => attempts.record(&error),
                Err(error) => return Err(self.refused(reservations, error)),
            }
            pool = match self.writer.reread(&pool, attempts).await {
                Ok(pool) => pool,
                Err(error) => return Err(give_up_reservations(reservations, &error)),
            };
        }
    }

    /// Adds the reservations to the record, and refuses those that exceed its limit.
    fn enter(&self, record: &mut RemovalRecord, reservations: Vec<Reservation>) -> Vec<Reservation> {
        let mut entered = Vec::with_capacity(reservations.len());
        for reservation in reservations {
            let targets = reservation.unremoved_targets();
            let (user, id) = (&reservation.job.user, &reservation.id);
            let reserved = if reservation.job.force {
                record.reserve_forced(user, id, &targets)
            } else {
                record.reserve_for(user, id, &targets)
            };
            match reserved {
                Ok(()) => entered.push(reservation),
                Err(full) => {
                    let pool = self.writer.pool.name.clone();
                    reservation.refuse(Error::RecordFull {
                        stored: self.writer.pool.stored,
                        pool,
                        why: full.to_string(),
                    });
                }
            }
        }
        entered
    }

    /// Accepts the reservations with valid targets, which decrements `replicas`, and withdraws the others, in
    /// one write.
    async fn accept(
        &self,
        mut pool: PoolFields,
        mut reservations: Vec<Reservation>,
        reserved_at: Duration,
        attempts: &mut Attempts,
    ) -> RetriedJobs {
        let mut restart = Vec::new();
        loop {
            let mut removals = match self.writer.removals(&pool) {
                Ok(removals) => removals,
                Err(error) => return give_up_reservations(reservations, &error),
            };
            reservations = self.resolve(&pool, &removals.record, reservations, reserved_at, &mut restart);
            if reservations.is_empty() {
                return RetriedJobs { jobs: restart, separately: false };
            }
            let already_removed: BTreeSet<Uid> =
                removals.record.accepted().map(|target| target.uid.clone()).collect();
            let decide = |reservation: &Reservation| reservation.decide(&removals, self.writer.pool);
            let decisions: Vec<ReservationDecision> = reservations.iter().map(decide).collect();
            let record = &mut removals.record;
            let mut count = 0;
            for (reservation, decision) in reservations.iter().zip(&decisions) {
                match decision {
                    ReservationDecision::Accept => count += record.accept(&reservation.id),
                    ReservationDecision::Withdraw(_) => record.withdraw(&reservation.id),
                }
            }
            let replicas = decremented_replicas(&pool, self.writer.pool.stored.absent_replicas, count);
            match self.writer.write(&pool, record, replicas).await {
                Ok(stored) => {
                    finish_reservations(&stored, reservations, decisions, already_removed);
                    return RetriedJobs { jobs: restart, separately: false };
                }
                Err(error @ CallError::Unconfirmed(_)) => {
                    attempts.record(&error);
                    for (reservation, decision) in reservations.iter_mut().zip(&decisions) {
                        reservation.add_unconfirmed(decision);
                    }
                }
                Err(error) if error.is_conflict() || error.is_transient() => attempts.record(&error),
                Err(error) => {
                    self.withdraw(&pool, &reservations).await;
                    let mut retry = self.refused(reservations, error);
                    retry.jobs.extend(restart);
                    return retry;
                }
            }
            pool = match self.writer.reread(&pool, attempts).await {
                Ok(pool) => pool,
                Err(error) if self.withdraw(&pool, &reservations).await => {
                    for reservation in reservations {
                        reservation.refuse(error.clone());
                    }
                    return RetriedJobs::NONE;
                }
                Err(error) => return give_up_reservations(reservations, &error),
            };
        }
    }

    /// Ends the reservations that an unconfirmed write has accepted or withdrawn. A reservation that is
    /// missing for another reason starts again. Returns the reservations that the record contains.
    fn resolve(
        &self,
        pool: &PoolFields,
        record: &RemovalRecord,
        reservations: Vec<Reservation>,
        reserved_at: Duration,
        restart: &mut Vec<RemovalJob>,
    ) -> Vec<Reservation> {
        let age = self.writer.env.uptime().saturating_sub(reserved_at);
        let droppable = age >= self.accept_within;
        let mut stored = Vec::with_capacity(reservations.len());
        for reservation in reservations {
            if reservation.is_stored(record) {
                stored.push(reservation);
                continue;
            }
            match reservation.resolve_unconfirmed() {
                Some(Ok(())) if droppable => reservation.refuse(unconfirmed_removal_error()),
                Some(Ok(())) => reservation.accept(&pool.metadata.uid, None, &BTreeSet::new()),
                Some(Err(error)) => reservation.refuse(error),
                None => restart.push(reservation.job),
            }
        }
        stored
    }

    /// Handles a write that the API server refused. Jobs that shared it are retried separately, because one
    /// of them may have caused the refusal.
    fn refused(&self, reservations: Vec<Reservation>, error: CallError) -> RetriedJobs {
        if reservations.len() > 1 && !error.is_not_found() {
            let jobs = reservations.into_iter().map(|reservation| reservation.job).collect();
            return RetriedJobs { jobs, separately: true };
        }
        give_up_reservations(reservations, &refused_write_error(error, self.writer.pool))
    }

    /// Withdraws the reservations. Returns whether none of them was accepted before, so that the removals
    /// have no effect.
    async fn withdraw(&self, pool: &PoolFields, reservations: &[Reservation]) -> bool {
        let ids = reservations.iter().map(|reservation| &*reservation.id);
        let before = self.writer.withdraw(pool, ids).await;
        before.is_some_and(|record| reservations.iter().all(|reservation| reservation.is_stored(&record)))
    }
}

/// Ends each request with its part of a successful write.
fn finish_reservations(
    pool: &PoolFields,
    reservations: Vec<Reservation>,
    decisions: Vec<ReservationDecision>,
    mut already_removed: BTreeSet<Uid>,
) {
    for (reservation, decision) in reservations.into_iter().zip(decisions) {
        match decision {
            ReservationDecision::Accept => {
                let targets: Vec<Uid> =
                    reservation.targets.iter().map(|target| target.id.uid.clone()).collect();
                reservation.accept(&pool.metadata.uid, pool.spec.replicas, &already_removed);
                // The first request that names a target counts it.
                already_removed.extend(targets);
            }
            ReservationDecision::Withdraw(error) => reservation.refuse(error),
        }
    }
}

/// Ends all requests with an error.
fn give_up_reservations(reservations: Vec<Reservation>, error: &Error) -> RetriedJobs {
    for reservation in reservations {
        reservation.give_up(error);
    }
    RetriedJobs::NONE
}

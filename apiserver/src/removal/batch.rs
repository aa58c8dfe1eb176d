//! One turn: the requests that share it are looked at, reserved, verified and accepted together. Each of them is granted
//! or refused for itself.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use vmpool_engine::Uid;
use vmpool_engine::removal::RemovalRecord;
use vmpool_runtime::Env;

use super::claim::{Claim, Verdict, answer, uncertain};
use super::look::{Look, look, read_machines};
use super::writes::lowered;
use super::{Job, PoolName};
use crate::cluster::{CallError, Cluster, Pool};
use crate::error::Error;
use crate::metrics::Metrics;

/// For how long a turn goes on against conflicts. A request that just missed a turn of this length and takes one of
/// its own is still answered in time, and before its reservation can be dropped.
pub(super) const TURN: Duration = Duration::from_secs(10);

/// A turn, and what it needs.
pub(super) struct Turn<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) env: &'a Env,
    pub(super) metrics: &'a Metrics,
    /// No reservation is dropped before it is so old.
    pub(super) accept_within: Duration,
    pub(super) pool: &'a PoolName,
}

/// Requests that have to begin anew.
pub(super) struct Again {
    pub(super) jobs: Vec<Job>,
    /// Each by itself, because what they want together was refused.
    pub(super) alone: bool,
}

/// How far the attempts of one turn have come.
pub(super) struct Attempts {
    pub(super) until: Duration,
    pub(super) made: u32,
    /// What the last of them failed with, unless that was a conflict.
    pub(super) failed: Option<String>,
}

impl Attempts {
    /// Takes note of a write that has to be repeated.
    fn note(&mut self, error: &CallError) {
        self.failed = (!error.is_conflict()).then(|| error.to_string());
    }
}

impl Turn<'_> {
    /// Answers all of them.
    pub(super) async fn take(&self, jobs: Vec<Job>) {
        let (jobs, left): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.caller.strong_count() > 0);
        for job in left {
            // They heard of the timeout already, and that nothing is half done.
            answer(job, Err(Error::Timeout(super::DEADLINE)));
        }
        let mut attempts = Attempts { until: self.env.uptime() + TURN, made: 0, failed: None };
        let mut groups: VecDeque<Vec<Job>> = [jobs].into();
        while let Some(group) = groups.pop_front() {
            let again = self.together(group, &mut attempts).await;
            if again.jobs.is_empty() {
                continue;
            }
            if again.alone {
                groups.extend(again.jobs.into_iter().map(|job| vec![job]));
            } else {
                groups.push_back(again.jobs);
            }
            if !self.pause(&mut attempts).await {
                for job in groups.into_iter().flatten() {
                    answer(job, Err(self.given_up(&attempts)));
                }
                return;
            }
        }
    }

    async fn together(&self, jobs: Vec<Job>, attempts: &mut Attempts) -> Again {
        let none = Again { jobs: Vec::new(), alone: false };
        if jobs.is_empty() {
            return none;
        }
        let names = jobs.iter().flat_map(|job| &job.targets).map(|target| target.name.clone()).collect();
        let looked = match look(self.cluster, self.pool, names).await {
            Ok(looked) => looked,
            Err(error) => {
                for job in jobs {
                    answer(job, Err(error.clone()));
                }
                return none;
            }
        };
        let claims = self.judge(&looked, jobs);
        // From before the first attempt: the reservation is at most as old as that.
        let reserved = self.env.uptime();
        let (pool, mut claims) = match self.reserve(looked.pool, claims, attempts).await {
            Ok(stored) => stored,
            Err(again) => return again,
        };
        let names = claims.iter().flat_map(Claim::open).map(|target| target.name.to_string()).collect();
        let machines = read_machines(self.cluster, self.pool, names).await;
        for claim in &mut claims {
            claim.verify(&machines, &pool.metadata.uid, self.pool);
        }
        self.accept(pool, claims, reserved, attempts).await
    }

    /// Answers the requests that need no write; the others become claims.
    fn judge(&self, looked: &Look, jobs: Vec<Job>) -> Vec<Claim> {
        let pool_uid = &looked.pool.metadata.uid;
        let mut claims = Vec::new();
        for job in jobs {
            match looked.judge(self.pool, &job.targets, job.pool_uid.as_deref()) {
                Ok(machines) => {
                    let claim = Claim::new(job, format!("{:016x}", self.env.random()), machines);
                    if claim.open().is_empty() {
                        claim.accept(pool_uid, None, &BTreeSet::new());
                    } else {
                        claims.push(claim);
                    }
                }
                Err(error) => answer(job, Err(error)),
            }
        }
        claims
    }

    /// Writes the reservations down. Returns the pool with them, and the requests that have them.
    async fn reserve(
        &self,
        mut pool: Pool,
        mut claims: Vec<Claim>,
        attempts: &mut Attempts,
    ) -> Result<(Pool, Vec<Claim>), Again> {
        loop {
            let mut known = match self.usable(&pool) {
                Ok(known) => known,
                Err(error) => return Err(refuse_all(claims, &error)),
            };
            if !claims.is_empty() && claims.iter().all(|claim| claim.holds(&known)) {
                // Also if another request has removed all of it meanwhile: that is found in the next step.
                return Ok((pool, claims));
            }
            for claim in &mut claims {
                claim.note_accepted(&known);
            }
            claims = self.enter(&mut known, claims);
            if claims.is_empty() {
                return Err(Again { jobs: Vec::new(), alone: false });
            }
            match self.write(&pool, &known, None).await {
                Ok(stored) => return Ok((stored, claims)),
                Err(error) if error.is_conflict() || error.is_transient() => attempts.note(&error),
                Err(error) => return Err(self.refused(claims, error)),
            }
            pool = match self.read_again(&pool, attempts).await {
                Ok(pool) => pool,
                Err(error) => return Err(refuse_all(claims, &error)),
            };
        }
    }

    /// Enters the reservations into the record, as far as there is room.
    fn enter(&self, record: &mut RemovalRecord, claims: Vec<Claim>) -> Vec<Claim> {
        let mut entered = Vec::with_capacity(claims.len());
        for claim in claims {
            match record.reserve_for(&claim.job.user, &claim.id, &claim.open()) {
                Ok(()) => entered.push(claim),
                Err(full) => {
                    claim.refuse(Error::Full { pool: self.pool.name.clone(), why: full.to_string() });
                }
            }
        }
        entered
    }

    /// Lowers `replicas` for those whose machines are as they must be, and withdraws the others, in one write.
    async fn accept(
        &self,
        mut pool: Pool,
        mut claims: Vec<Claim>,
        reserved: Duration,
        attempts: &mut Attempts,
    ) -> Again {
        let mut anew = Vec::new();
        loop {
            let mut known = match self.usable(&pool) {
                Ok(known) => known,
                Err(error) => return refuse_all(claims, &error),
            };
            claims = self.settle(&pool, &known, claims, reserved, &mut anew);
            if claims.is_empty() {
                return Again { jobs: anew, alone: false };
            }
            let already: BTreeSet<Uid> = known.accepted().map(|target| target.uid.clone()).collect();
            let verdicts: Vec<Verdict> = claims.iter().map(|claim| claim.verdict(&known)).collect();
            let mut count = 0;
            for (claim, verdict) in claims.iter().zip(&verdicts) {
                match verdict {
                    Verdict::Accept => count += known.accept(&claim.id),
                    Verdict::Refuse(_) => known.withdraw(&claim.id),
                }
            }
            let replicas = lowered(&pool, count);
            match self.write(&pool, &known, replicas).await {
                Ok(stored) => {
                    answer_all(&stored, claims, verdicts, already);
                    return Again { jobs: anew, alone: false };
                }
                Err(error @ CallError::Lost(_)) => {
                    attempts.note(&error);
                    claims.iter_mut().zip(&verdicts).for_each(|(claim, verdict)| claim.lost(verdict));
                }
                Err(error) if error.is_conflict() || error.is_transient() => attempts.note(&error),
                Err(error) => {
                    self.withdraw(&pool, &claims).await;
                    let mut again = self.refused(claims, error);
                    again.jobs.extend(anew);
                    return again;
                }
            }
            pool = match self.read_again(&pool, attempts).await {
                Ok(pool) => pool,
                Err(error) => {
                    self.withdraw(&pool, &claims).await;
                    return refuse_all(claims, &error);
                }
            };
        }
    }

    /// Answers those whose reservations were used up by a write whose answer was lost. Those whose reservations are
    /// gone otherwise begin anew.
    fn settle(
        &self,
        pool: &Pool,
        record: &RemovalRecord,
        claims: Vec<Claim>,
        reserved: Duration,
        anew: &mut Vec<Job>,
    ) -> Vec<Claim> {
        let young = self.env.uptime().saturating_sub(reserved) < self.accept_within;
        let mut held = Vec::with_capacity(claims.len());
        for claim in claims {
            if claim.holds(record) {
                held.push(claim);
                continue;
            }
            match claim.settled() {
                Some(Ok(())) if young => claim.accept(&pool.metadata.uid, None, &BTreeSet::new()),
                Some(Err(error)) => claim.refuse(error),
                Some(Ok(())) => claim.refuse(uncertain()),
                None => anew.push(claim.job),
            }
        }
        held
    }
}

/// Tells each request what the write has done for it.
fn answer_all(pool: &Pool, claims: Vec<Claim>, verdicts: Vec<Verdict>, mut already: BTreeSet<Uid>) {
    for (claim, verdict) in claims.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Accept => {
                let machines: Vec<Uid> =
                    claim.machines.iter().map(|machine| machine.id.uid.clone()).collect();
                claim.accept(&pool.metadata.uid, pool.spec.replicas, &already);
                // Who comes later in this turn was not counted for these.
                already.extend(machines);
            }
            Verdict::Refuse(error) => claim.refuse(error),
        }
    }
}

/// Nothing more can be done for any of them.
pub(super) fn refuse_all(claims: Vec<Claim>, error: &Error) -> Again {
    for claim in claims {
        claim.give_up(error);
    }
    Again { jobs: Vec::new(), alone: false }
}

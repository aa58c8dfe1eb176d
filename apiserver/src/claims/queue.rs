//! One queue for each pool. A worker serves the claims of a pool in batches that share one list of its machines.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use vmpool_runtime::Env;

use super::choose::{Found, World};
use super::model::{Claimed, Job};
use super::observe;
use super::take::{Candidates, Writer};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::removal::PoolName;

/// The maximum number of waiting claims.
const MAX_WAITING: usize = 1000;
/// Claims of one batch whose writes are in flight.
const CONCURRENT_CLAIMS: usize = 16;
/// While claims wait for a free machine, the machines are listed at this interval.
const INTERVAL: Duration = Duration::from_secs(1);
/// While claims wait for a free machine, new claims are served after this time.
const GLANCE: Duration = Duration::from_millis(100);

/// The queues of all pools.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    env: Env,
    metrics: Metrics,
    /// Contains a pool while it has a worker.
    waiting: Mutex<HashMap<PoolName, VecDeque<Job>>>,
}

impl Queue {
    pub(super) fn new(cluster: Cluster, env: Env, metrics: Metrics) -> Self {
        Self { shared: Arc::new(Shared { cluster, env, metrics, waiting: Mutex::default() }) }
    }

    /// Adds a claim to the queue of its pool, and starts a worker if the pool has none.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many claims wait.
    pub(super) fn submit(&self, pool: &PoolName, job: Job) -> Result<(), Error> {
        let shared = &self.shared;
        let mut waiting = shared.waiting.lock();
        if waiting.values().map(VecDeque::len).sum::<usize>() >= MAX_WAITING {
            return Err(Error::Overloaded);
        }
        if let Some(queue) = waiting.get_mut(pool) {
            queue.push_back(job);
            return Ok(());
        }
        waiting.insert(pool.clone(), [job].into());
        drop(waiting);
        let worker = Worker { shared: Arc::clone(shared), pool: pool.clone(), done: false };
        shared.env.spawn("claims of a pool", worker.run()).detach();
        Ok(())
    }
}

/// Serves the claims of one pool until its queue is empty.
struct Worker {
    shared: Arc<Shared>,
    pool: PoolName,
    /// Whether this worker has removed the queue. Another worker may have created a new one since.
    done: bool,
}

impl Worker {
    async fn run(mut self) {
        // The claims that found no machine and may still wait.
        let mut patient: Vec<Job> = Vec::new();
        while let Some(new) = self.next_batch(&patient) {
            patient.extend(new);
            patient = self.serve(patient).await;
            let mut slept = Duration::ZERO;
            while !patient.is_empty() && slept < INTERVAL && !self.has_new(&patient) {
                self.shared.env.sleep(GLANCE).await;
                slept += GLANCE;
            }
        }
    }

    /// The claims that wait in the queue, except those about a claim that is served already: they would take two
    /// machines. `None` if there is nothing left to do, and the queue is removed.
    fn next_batch(&mut self, patient: &[Job]) -> Option<Vec<Job>> {
        let mut waiting = self.shared.waiting.lock();
        let queue = waiting.get_mut(&self.pool)?;
        let (mut batch, mut later): (Vec<Job>, VecDeque<Job>) = (Vec::new(), VecDeque::new());
        for job in queue.drain(..) {
            if patient.iter().chain(&batch).any(|other| other.is_same_claim(&job)) {
                later.push_back(job);
            } else {
                batch.push(job);
            }
        }
        *queue = later;
        if batch.is_empty() && patient.is_empty() && queue.is_empty() {
            waiting.remove(&self.pool);
            self.done = true;
            return None;
        }
        Some(batch)
    }

    /// Whether a claim waits in the queue that is not about the same claim as one of `patient`.
    fn has_new(&self, patient: &[Job]) -> bool {
        let is_new = |job: &Job| !patient.iter().any(|other| other.is_same_claim(job));
        self.shared.waiting.lock().get(&self.pool).is_some_and(|queue| queue.iter().any(is_new))
    }

    /// Serves these claims with one list of the machines. Returns those that found none and may still wait.
    async fn serve(&self, jobs: Vec<Job>) -> Vec<Job> {
        let Shared { cluster, env, metrics, .. } = &*self.shared;
        // The callers have already received the timeout, and nothing was written for them.
        let jobs: Vec<Job> = jobs.into_iter().filter(Job::has_caller).collect();
        if jobs.is_empty() {
            return jobs;
        }
        metrics.claim_batch(jobs.len());
        let world = match observe::world(cluster, env, &self.pool).await {
            Ok(world) => world,
            Err(error) => {
                for job in jobs {
                    job.finish(Err(error.clone()));
                }
                return Vec::new();
            }
        };
        let candidates: Candidates = Mutex::new(world.candidates().into());
        let writer = Writer { cluster, env, metrics, pool: &self.pool };
        let (world, writer, candidates) = (&world, &writer, &candidates);
        let served = stream::iter(jobs).map(async |job| {
            let result = serve_one(world, writer, candidates, &job).await;
            (job, result)
        });
        let mut served = served.buffered(CONCURRENT_CLAIMS);
        let mut patient = Vec::new();
        while let Some((job, result)) = served.next().await {
            match result {
                Ok(Some(claimed)) => job.finish(Ok(claimed)),
                Ok(None) if env.uptime() < job.wait_until => patient.push(job),
                Ok(None) => {
                    let pool = self.pool.name.clone();
                    job.finish(Err(Error::NoMachineAvailable { stored: self.pool.stored, pool }));
                }
                Err(error) => job.finish(Err(error)),
            }
        }
        patient
    }
}

impl Drop for Worker {
    /// If a batch panics, the waiting claims end with an error, and the next claim starts a new worker.
    fn drop(&mut self) {
        if !self.done {
            self.shared.waiting.lock().remove(&self.pool);
        }
    }
}

/// `None` if no machine is free.
async fn serve_one(
    world: &World,
    writer: &Writer<'_>,
    candidates: &Candidates,
    job: &Job,
) -> Result<Option<Claimed>, Error> {
    let maximum = world.pool.max_protection;
    if job.request.duration > maximum {
        return Err(Error::BadRequest(format!(
            "durationSeconds is {}, and the pool allows at most {}: claim the machine for less time, and renew the claim",
            job.request.duration.as_secs(),
            maximum.as_secs()
        )));
    }
    let Found { own, surplus, is_anothers } = world.find(&job.user, &job.request.id);
    if !job.request.dry_run {
        for surplus in &surplus {
            writer.give_back(surplus, job.deadline).await;
        }
    }
    if let Some(own) = own.filter(|own| world.can_renew(own)) {
        let mut own = own;
        // The holder may have changed its machine meanwhile. While it is protected, no other caller takes it.
        for _ in 0..RENEWALS {
            let name = own.machine.id.clone();
            if let Some(claimed) = writer.renew(job, &world.pool, own).await? {
                return Ok(Some(claimed));
            }
            match writer.reread(&name, &job.user, &job.request.id, &world.pool).await? {
                Some(again) => own = again,
                None => break,
            }
        }
    }
    if job.request.renew {
        return Err(Error::ClaimLost { stored: writer.pool.stored, pool: writer.pool.name.clone() });
    }
    if is_anothers {
        return Err(Error::ClaimHeld { stored: writer.pool.stored, pool: writer.pool.name.clone() });
    }
    writer.take(job, &world.pool, candidates).await
}

/// Number of attempts to renew a claim of a machine that other clients change.
const RENEWALS: usize = 5;

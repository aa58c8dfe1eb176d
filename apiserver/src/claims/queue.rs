//! One queue for each pool. A worker serves the claims of a pool in batches that share one list of its
//! machines.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use vmpool_platforms::removal::StoredMachine;
use vmpool_runtime::Env;

use super::choose::{ClaimSnapshot, MatchingClaims};
use super::current::UpToDateMachines;
use super::model::{ClaimJob, Claimed};
use super::observe;
use super::waiting::WaitingRecorder;
use super::writer::{ClaimCandidates, ClaimWriter};
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::metrics::ApiServerMetrics;
use crate::pool_queue::{PoolQueue, PoolQueues};
use crate::removal::{DEADLINE, PoolName};

/// Claims of one batch whose writes are in flight.
const CONCURRENT_CLAIMS: usize = 16;
/// While claims wait for a free machine, the machines are listed at this interval.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// While claims wait for a free machine, the worker looks for new claims at this interval.
const QUEUE_INTERVAL: Duration = Duration::from_millis(100);
/// Number of attempts to renew a claim after one list, so that a machine that changes all the time delays
/// other claims of the pool only shortly. The claim is then tried again after the next list.
const RENEWALS_PER_LIST: usize = 5;

/// The queues of all pools.
pub(super) struct ClaimQueue {
    shared: Arc<Shared>,
    waiting: PoolQueues<ClaimJob>,
}

struct Shared {
    cluster: ClusterClient,
    env: Env,
    metrics: ApiServerMetrics,
    /// Records claims without a machine for autoscalers; `None` if there are none.
    recorder: Option<Arc<WaitingRecorder>>,
}

impl ClaimQueue {
    pub(super) fn new(cluster: ClusterClient, env: Env, metrics: ApiServerMetrics, autoscales: bool) -> Self {
        let recorder = autoscales.then(|| WaitingRecorder::new(cluster.clone(), env.clone()));
        Self { shared: Arc::new(Shared { cluster, env, metrics, recorder }), waiting: PoolQueues::default() }
    }

    /// Adds a claim to the queue of its pool, and starts a worker if the pool has none.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many claims wait.
    pub(super) fn submit(&self, pool: &PoolName, job: ClaimJob) -> Result<(), Error> {
        if let Some(queue) = self.waiting.submit(pool, job)? {
            let worker = Worker { shared: Arc::clone(&self.shared), queue };
            self.shared.env.spawn("claims of a pool", worker.run()).detach();
        }
        Ok(())
    }
}

/// Serves the claims of one pool until its queue is empty.
struct Worker {
    shared: Arc<Shared>,
    queue: PoolQueue<ClaimJob>,
}

impl Worker {
    async fn run(mut self) {
        // The claims that found no machine and may still wait.
        let mut unserved: Vec<ClaimJob> = Vec::new();
        while let Some(new) = self.queue.next_batch(|queue| next_batch(queue, &unserved)) {
            unserved.extend(new);
            unserved = self.serve(unserved).await;
            let is_new = |job: &ClaimJob| !unserved.iter().any(|other| other.is_same_claim(job));
            let mut slept = Duration::ZERO;
            while !unserved.is_empty() && slept < LIST_INTERVAL && !self.queue.has(is_new) {
                self.shared.env.sleep(QUEUE_INTERVAL).await;
                slept += QUEUE_INTERVAL;
            }
        }
    }

    /// Serves these claims with one list of the machines. Returns those that found none and may still wait.
    async fn serve(&self, jobs: Vec<ClaimJob>) -> Vec<ClaimJob> {
        let Shared { cluster, env, metrics, .. } = &*self.shared;
        // The callers have already received the timeout, and nothing was written for them.
        let jobs: Vec<ClaimJob> = jobs.into_iter().filter(ClaimJob::has_caller).collect();
        if jobs.is_empty() {
            return jobs;
        }
        metrics.claim_batch(jobs.len());
        let world = match observe::read_claim_snapshot(cluster, env, self.queue.pool()).await {
            Ok(world) => world,
            Err(error) => {
                for job in jobs {
                    job.finish(Err(error.clone()));
                }
                return Vec::new();
            }
        };
        let current =
            UpToDateMachines::of(cluster, self.queue.pool(), &world.pool, &world.object, &world.machines)
                .await;
        let candidates: ClaimCandidates = Mutex::new(world.candidates(&current).into());
        let writer = ClaimWriter { cluster, env, metrics, pool: self.queue.pool() };
        let (world, writer, candidates) = (&world, &writer, &candidates);
        let served = stream::iter(jobs).map(async |job| {
            let result = serve_claim(world, writer, candidates, &job).await;
            (job, result)
        });
        let mut served = served.buffered(CONCURRENT_CLAIMS);
        let mut unserved = Vec::new();
        while let Some((job, result)) = served.next().await {
            if let (Ok(ClaimAttempt::NoMachineAvailable), Some(recorder)) = (&result, &self.shared.recorder) {
                recorder.note(self.queue.pool(), &job);
            }
            match result {
                Ok(ClaimAttempt::Claimed(claimed)) => job.finish(Ok(claimed)),
                Ok(ClaimAttempt::HeldMachineChanged) if env.uptime() < job.deadline => unserved.push(job),
                Ok(ClaimAttempt::HeldMachineChanged) => job.finish(Err(Error::ClaimTimeout(DEADLINE))),
                Ok(ClaimAttempt::NoMachineAvailable) if env.uptime() < job.wait_until => unserved.push(job),
                Ok(ClaimAttempt::NoMachineAvailable) => {
                    let PoolName { stored, name, .. } = self.queue.pool();
                    job.finish(Err(Error::NoMachineAvailable { stored, pool: name.clone() }));
                }
                Err(error) => job.finish(Err(error)),
            }
        }
        unserved
    }
}

/// The claims that wait in the queue, except those about a claim that is `unserved`: they would take two
/// machines. `None` if there is nothing left to do.
fn next_batch(queue: &mut VecDeque<ClaimJob>, unserved: &[ClaimJob]) -> Option<Vec<ClaimJob>> {
    let mut batch: Vec<ClaimJob> = Vec::new();
    let mut later = VecDeque::new();
    for job in queue.drain(..) {
        if unserved.iter().chain(&batch).any(|other| other.is_same_claim(&job)) {
            later.push_back(job);
        } else {
            batch.push(job);
        }
    }
    *queue = later;
    // A claim stays in the queue only because of another one that is unserved or in the batch.
    (!batch.is_empty() || !unserved.is_empty()).then_some(batch)
}

/// The result of an attempt to serve a claim.
enum ClaimAttempt {
    Claimed(Claimed),
    /// The caller holds a machine that other clients changed between each read and write, so the claim is not
    /// renewed yet.
    ///
    /// A conflict never means that the claim is lost. The id takes no second machine while the first one may
    /// be held.
    HeldMachineChanged,
    NoMachineAvailable,
}

async fn serve_claim(
    world: &ClaimSnapshot,
    writer: &ClaimWriter<'_>,
    candidates: &ClaimCandidates,
    job: &ClaimJob,
) -> Result<ClaimAttempt, Error> {
    let maximum = world.pool.max_protection;
    if job.request.duration > maximum {
        return Err(Error::BadRequest(format!(
            "durationSeconds is {}, and the pool allows at most {}: claim the machine for less time, and renew the claim",
            job.request.duration.as_secs(),
            maximum.as_secs()
        )));
    }
    let MatchingClaims { users_claim: own, surplus, is_held_by_another: is_anothers } =
        world.find(&job.user, &job.request.id);
    if !job.request.dry_run {
        for surplus in &surplus {
            writer.withdraw_claim(surplus, job.deadline).await;
        }
    }
    if let Some(own) = own.filter(|own| world.can_renew(own)) {
        let mut own = own;
        for attempt in 1.. {
            let id = own.machine.id.clone();
            if let Some(claimed) = writer.renew(job, &world.pool, own).await? {
                return Ok(ClaimAttempt::Claimed(claimed));
            }
            match writer.reread(&id, job, &world.pool).await? {
                Some(_) if attempt >= RENEWALS_PER_LIST => return Ok(ClaimAttempt::HeldMachineChanged),
                Some(again) => own = again,
                None => break,
            }
            writer.pause().await;
        }
    }
    if job.request.renew {
        return Err(Error::ClaimLost { stored: writer.pool.stored, pool: writer.pool.name.clone() });
    }
    if is_anothers {
        return Err(Error::ClaimHeld { stored: writer.pool.stored, pool: writer.pool.name.clone() });
    }
    if let Some(claimed) = writer.claim_first_candidate(job, &world.pool, candidates).await? {
        return Ok(ClaimAttempt::Claimed(claimed));
    }
    refuse_standby(world, writer, job).await?;
    Ok(ClaimAttempt::NoMachineAvailable)
}

/// Refuses a claim that names a standby machine of the pool. The list may not contain it.
///
/// # Errors
/// [`Error::StandbyClaimed`].
async fn refuse_standby(
    world: &ClaimSnapshot,
    writer: &ClaimWriter<'_>,
    job: &ClaimJob,
) -> Result<(), Error> {
    let Some(name) = job.request.machine.as_deref().filter(|name| !world.lists_active(name)) else {
        return Ok(());
    };
    // Without a response, the claim finds no machine.
    let found = observe::read_stored_machine(writer.cluster, writer.pool, name).await.ok().flatten();
    let is_standby = |stored: &StoredMachine| {
        stored.machine.belongs_to(&world.pool.id) && stored.machine.standby.is_some()
    };
    if found.as_ref().is_some_and(is_standby) {
        let PoolName { stored, name: pool, .. } = writer.pool;
        return Err(Error::StandbyClaimed { stored, pool: pool.clone(), machine: name.to_owned() });
    }
    Ok(())
}

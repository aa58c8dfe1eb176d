//! One queue for each pool. A worker handles the requests of a pool in batches, one batch at a time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_runtime::Env;

use super::batch::Batch;
use super::model::{Job, PoolName};
use super::writes::PoolWriter;
use crate::body::MAX_TARGETS;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::metrics::Metrics;

/// The maximum number of waiting requests. Each holds its targets in memory.
const MAX_WAITING: usize = 1000;

/// The queues of all pools.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    env: Env,
    accept_within: Duration,
    metrics: Metrics,
    /// Contains a pool while it has a worker.
    waiting: Mutex<HashMap<PoolName, VecDeque<Job>>>,
}

impl Queue {
    pub(super) fn new(cluster: Cluster, env: Env, accept_within: Duration, metrics: Metrics) -> Self {
        let waiting = Mutex::default();
        Self { shared: Arc::new(Shared { cluster, env, accept_within, metrics, waiting }) }
    }

    /// Adds a request to the queue of its pool, and starts a worker if the pool has none.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many requests wait.
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
        shared.env.spawn("removals of a pool", worker.run()).detach();
        Ok(())
    }
}

/// Handles the requests of one pool until its queue is empty.
struct Worker {
    shared: Arc<Shared>,
    pool: PoolName,
    /// Whether this worker has removed the queue. Another worker may have created a new one since.
    done: bool,
}

impl Worker {
    async fn run(mut self) {
        while let Some(jobs) = self.next_batch() {
            self.shared.metrics.batch(jobs.len());
            let Shared { cluster, env, metrics, accept_within, .. } = &*self.shared;
            let writer = PoolWriter { cluster, env, metrics, pool: &self.pool };
            Batch { writer, accept_within: *accept_within }.run(jobs).await;
        }
    }

    /// The jobs of the next batch: all that wait, up to the number of targets that one request may name. If none wait,
    /// removes the queue and returns `None`.
    fn next_batch(&mut self) -> Option<Vec<Job>> {
        let mut waiting = self.shared.waiting.lock();
        let queue = waiting.get_mut(&self.pool)?;
        let (mut jobs, mut targets) = (Vec::new(), 0);
        while let Some(job) = queue.front() {
            targets += job.targets.len();
            if targets > MAX_TARGETS && !jobs.is_empty() {
                break;
            }
            jobs.extend(queue.pop_front());
        }
        if jobs.is_empty() {
            waiting.remove(&self.pool);
            self.done = true;
            return None;
        }
        Some(jobs)
    }
}

impl Drop for Worker {
    /// If a batch panics, the waiting requests end with an error, and the next request starts a new worker.
    fn drop(&mut self) {
        if !self.done {
            self.shared.waiting.lock().remove(&self.pool);
        }
    }
}

//! Requests for one pool take turns; those that wait share the next turn.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmpool_runtime::Env;

use super::batch::Turn;
use super::{Job, PoolName};
use crate::body::MOST_TARGETS;
use crate::cluster::Cluster;
use crate::error::Error;
use crate::metrics::Metrics;

/// Most requests that may wait for their turn. Far fewer would do; each holds a body.
const MOST_WAITING: usize = 1000;

/// The queues of all pools.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    env: Env,
    accept_within: Duration,
    metrics: Metrics,
    /// A pool is in it as long as somebody works on it.
    waiting: Mutex<HashMap<PoolName, VecDeque<Job>>>,
}

impl Queue {
    pub(super) fn new(cluster: Cluster, env: Env, accept_within: Duration, metrics: Metrics) -> Self {
        let waiting = Mutex::default();
        Self { shared: Arc::new(Shared { cluster, env, accept_within, metrics, waiting }) }
    }

    /// Lets a request wait for its turn.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many wait.
    pub(super) fn submit(&self, pool: &PoolName, job: Job) -> Result<(), Error> {
        let shared = &self.shared;
        let mut waiting = shared.waiting.lock();
        if waiting.values().map(VecDeque::len).sum::<usize>() >= MOST_WAITING {
            return Err(Error::Overloaded);
        }
        if let Some(queue) = waiting.get_mut(pool) {
            queue.push_back(job);
            return Ok(());
        }
        waiting.insert(pool.clone(), [job].into());
        drop(waiting);
        let worker = Worker { shared: Arc::clone(shared), pool: pool.clone(), done: false };
        shared.env.spawn("removals of a pool", worker.work()).detach();
        Ok(())
    }
}

/// Works on one pool until nobody waits for it.
struct Worker {
    shared: Arc<Shared>,
    pool: PoolName,
    /// Whether the queue was given up: another worker may have opened it anew since.
    done: bool,
}

impl Worker {
    async fn work(mut self) {
        while let Some(jobs) = self.next() {
            self.shared.metrics.batch(jobs.len());
            let Shared { cluster, env, metrics, accept_within, .. } = &*self.shared;
            let turn = Turn { cluster, env, metrics, accept_within: *accept_within, pool: &self.pool };
            turn.take(jobs).await;
        }
    }

    /// Those who share the next turn: as many as there are, but not more machines than one request may name. Nobody
    /// waits, and the worker ends, if there are none.
    fn next(&mut self) -> Option<Vec<Job>> {
        let mut waiting = self.shared.waiting.lock();
        let queue = waiting.get_mut(&self.pool)?;
        let (mut jobs, mut machines) = (Vec::new(), 0);
        while let Some(job) = queue.front() {
            machines += job.targets.len();
            if machines > MOST_TARGETS && !jobs.is_empty() {
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
    /// If a turn has panicked, those who wait hear that they were interrupted, and the next one begins anew.
    fn drop(&mut self) {
        if !self.done {
            self.shared.waiting.lock().remove(&self.pool);
        }
    }
}

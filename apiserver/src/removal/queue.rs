//! One queue for each pool. A worker handles the requests of a pool in batches, one batch at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use vmpool_runtime::Env;

use super::batch::Batch;
use super::model::{PoolName, RemovalJob};
use super::writes::PoolWriter;
use crate::body::MAX_TARGETS;
use crate::cluster::ClusterClient;
use crate::error::Error;
use crate::metrics::ApiServerMetrics;
use crate::pool_queue::{PoolQueue, PoolQueues};

/// The queues of all pools.
pub(super) struct RemovalQueue {
    shared: Arc<Shared>,
    waiting: PoolQueues<RemovalJob>,
}

struct Shared {
    cluster: ClusterClient,
    env: Env,
    accept_within: Duration,
    metrics: ApiServerMetrics,
}

impl RemovalQueue {
    pub(super) fn new(
        cluster: ClusterClient,
        env: Env,
        accept_within: Duration,
        metrics: ApiServerMetrics,
    ) -> Self {
        let shared = Arc::new(Shared { cluster, env, accept_within, metrics });
        Self { shared, waiting: PoolQueues::default() }
    }

    /// Adds a request to the queue of its pool, and starts a worker if the pool has none.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many requests wait.
    pub(super) fn submit(&self, pool: &PoolName, job: RemovalJob) -> Result<(), Error> {
        if let Some(queue) = self.waiting.submit(pool, job)? {
            let worker = Worker { shared: Arc::clone(&self.shared), queue };
            self.shared.env.spawn("removals of a pool", worker.run()).detach();
        }
        Ok(())
    }
}

/// Handles the requests of one pool until its queue is empty.
struct Worker {
    shared: Arc<Shared>,
    queue: PoolQueue<RemovalJob>,
}

impl Worker {
    async fn run(mut self) {
        while let Some(jobs) = self.queue.next_batch(next_batch) {
            self.shared.metrics.batch(jobs.len());
            let Shared { cluster, env, metrics, accept_within } = &*self.shared;
            let writer = PoolWriter { cluster, env, metrics, pool: self.queue.pool() };
            Batch { writer, accept_within: *accept_within }.run(jobs).await;
        }
    }
}

/// The jobs of the next batch: all that wait, up to the number of targets that one request may name. `None`
/// if none wait.
fn next_batch(queue: &mut VecDeque<RemovalJob>) -> Option<Vec<RemovalJob>> {
    let (mut jobs, mut targets) = (Vec::new(), 0);
    while let Some(job) = queue.front() {
        targets += job.targets.len();
        if targets > MAX_TARGETS && !jobs.is_empty() {
            break;
        }
        jobs.extend(queue.pop_front());
    }
    (!jobs.is_empty()).then_some(jobs)
}

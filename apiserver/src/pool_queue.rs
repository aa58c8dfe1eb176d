//! One queue of jobs for each pool, and one worker for each queue that is not empty.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Error;
use crate::removal::PoolName;

/// The maximum number of waiting jobs of all pools. Each holds its request in memory.
const MAX_WAITING: usize = 1000;

/// Contains a pool while it has a worker.
type Waiting<J> = Arc<Mutex<HashMap<PoolName, VecDeque<J>>>>;

/// The queues of all pools.
pub(crate) struct PoolQueues<J> {
    waiting: Waiting<J>,
}

/// The queue of one pool, which its worker holds.
pub(crate) struct PoolQueue<J> {
    waiting: Waiting<J>,
    pool: PoolName,
    /// Whether this worker has removed the queue. Another worker may have created a new one since.
    done: bool,
}

impl<J> Default for PoolQueues<J> {
    fn default() -> Self {
        Self { waiting: Waiting::default() }
    }
}

impl<J> PoolQueues<J> {
    /// Adds a job to the queue of its pool. Returns the queue if the pool has no worker; the caller then
    /// starts one.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if too many jobs wait.
    pub(crate) fn submit(&self, pool: &PoolName, job: J) -> Result<Option<PoolQueue<J>>, Error> {
        let mut waiting = self.waiting.lock();
        if waiting.values().map(VecDeque::len).sum::<usize>() >= MAX_WAITING {
            return Err(Error::Overloaded);
        }
        if let Some(queue) = waiting.get_mut(pool) {
            queue.push_back(job);
            return Ok(None);
        }
        waiting.insert(pool.clone(), [job].into());
        drop(waiting);
        Ok(Some(PoolQueue { waiting: Arc::clone(&self.waiting), pool: pool.clone(), done: false }))
    }
}

impl<J> PoolQueue<J> {
    pub(crate) fn pool(&self) -> &PoolName {
        &self.pool
    }

    /// The jobs that `take` removes from the queue. If it returns `None`, the worker has nothing left to do:
    /// removes the queue, so that the next job starts a new worker.
    pub(crate) fn next_batch(
        &mut self,
        take: impl FnOnce(&mut VecDeque<J>) -> Option<Vec<J>>,
    ) -> Option<Vec<J>> {
        let mut waiting = self.waiting.lock();
        let batch = take(waiting.get_mut(&self.pool)?);
        if batch.is_none() {
            waiting.remove(&self.pool);
            self.done = true;
        }
        batch
    }

    /// Whether such a job waits.
    pub(crate) fn has(&self, job: impl Fn(&J) -> bool) -> bool {
        self.waiting.lock().get(&self.pool).is_some_and(|queue| queue.iter().any(job))
    }
}

impl<J> Drop for PoolQueue<J> {
    /// If a worker panics, the waiting jobs end with an error, and the next job starts a new worker.
    fn drop(&mut self) {
        if !self.done {
            self.waiting.lock().remove(&self.pool);
        }
    }
}

//! A controller of a leader: its watches, and the workers of its queues.

use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select, select_all};
use tokio_util::sync::CancellationToken;
use vmpool_runtime::Env;
use vmpool_runtime::env::Task;
use vmpool_runtime::health::Heartbeat;

use crate::health::WorkerHealth;
use crate::passes::{PassEnd, run_passes};
use crate::queue::{PassQueue, Requeue};

/// Time until the next pass of an object whose pass panicked.
const AFTER_PANIC: Duration = Duration::from_secs(10);

/// Time between two looks at the first lists.
const UNSYNCED: Duration = Duration::from_millis(20);

/// What the passes of one leadership share.
pub trait Controller: Sized + Send + Sync + 'static {
    /// Time, randomness and tasks.
    fn env(&self) -> &Env;

    /// Whether the first lists of all watches are complete. No pass runs before.
    fn is_synced(&self) -> bool;

    /// Starts the watches. They run until the leadership ends.
    fn start_watches(self: &Arc<Self>) -> Vec<Task>;

    /// The queues, each with its workers.
    fn worker_groups(&self) -> Vec<WorkerGroup<Self>>;

    /// The pass of an object panicked. The controller retries it later.
    fn pass_panicked(&self, object: &dyn Debug) {
        tracing::error!(?object, "a pass panicked; the controller retries the object later");
    }
}

/// What a queue contains.
pub trait QueueKey: Clone + Ord + Debug + Send + Sync + 'static {}

impl<K: Clone + Ord + Debug + Send + Sync + 'static> QueueKey for K {}

/// The passes over the objects of a queue.
type RunPass<C, K> = for<'a> fn(&'a C, &'a K) -> BoxFuture<'a, PassEnd>;

/// Runs one worker.
type RunWorker<C> =
    dyn Fn(Arc<C>, Option<Heartbeat>, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync;

/// The workers of one queue.
pub struct WorkerGroup<C> {
    task: &'static str,
    workers: usize,
    is_supervised: bool,
    run: Box<RunWorker<C>>,
}

impl<C: Controller> WorkerGroup<C> {
    /// Workers that run `pass` for the keys of `queue`, in tasks of this name.
    pub fn new<K: QueueKey>(
        task: &'static str,
        workers: usize,
        queue: fn(&C) -> &PassQueue<K>,
        pass: RunPass<C, K>,
    ) -> Self {
        let run = move |controller, heartbeat, stop| {
            run_worker::<C, K>(controller, queue, pass, heartbeat, stop).boxed()
        };
        Self { task, workers, is_supervised: false, run: Box::new(run) }
    }

    /// Workers whose heartbeats the health of the leader shows.
    #[must_use]
    pub fn supervised(self) -> Self {
        Self { is_supervised: true, ..self }
    }

    /// Spawns the workers.
    fn spawn(
        &self,
        controller: &Arc<C>,
        heartbeats: &mut Vec<Heartbeat>,
        stop: &CancellationToken,
    ) -> Vec<Task> {
        let mut spawn_worker = |_| {
            let heartbeat = self.is_supervised.then(|| Heartbeat::new(controller.env()));
            heartbeats.extend(heartbeat.clone());
            let worker = (self.run)(controller.clone(), heartbeat, stop.clone());
            controller.env().spawn(self.task, worker)
        };
        (0..self.workers).map(&mut spawn_worker).collect()
    }
}

/// Runs a controller until `stop`, and finishes the passes in progress. If one of its watches or of `tasks`
/// ends, it logs an error and stops as well, so that the next leader starts with new caches.
///
/// The caller must hold the lease, and must drop the future when the lease is lost. The caches are filled
/// from new lists, because a watch of a standby replica may lack the last writes of the former leader.
pub async fn run_controller<C: Controller>(
    controller: Arc<C>,
    health: &WorkerHealth,
    mut tasks: Vec<Task>,
    stop: CancellationToken,
) {
    // A child token, because the end of this controller must not stop the process.
    let stop = stop.child_token();
    tasks.extend(controller.start_watches());
    let mut heartbeats = Vec::new();
    let workers = controller.worker_groups();
    let workers = workers.iter().flat_map(|group| group.spawn(&controller, &mut heartbeats, &stop)).collect();
    let is_synced = {
        let controller = Arc::downgrade(&controller);
        move || controller.upgrade().is_none_or(|controller| controller.is_synced())
    };
    let _running = health.begin(heartbeats, is_synced);
    oversee_workers(workers, tasks, &stop).await;
}

/// Waits for the workers. The watches and the event sender in `tasks` run forever. If one of them ends first,
/// the caches are no longer updated, so the workers `stop` after the passes in progress.
async fn oversee_workers(workers: Vec<Task>, tasks: Vec<Task>, stop: &CancellationToken) {
    let workers = async {
        for worker in workers {
            if let Err(error) = worker.join().await {
                tracing::error!(%error, "a worker ended");
            }
        }
    };
    let tasks = select_all(tasks.into_iter().map(|task| Box::pin(task.join())));
    futures::pin_mut!(workers);
    if let Either::Right(((ended, ..), workers)) = select(workers, tasks).await {
        let error = ended.err().map(|error| error.to_string());
        tracing::error!(error, "a watch or the sender of events ended: this leadership ends too");
        stop.cancel();
        workers.await;
    }
}

/// Runs the passes of a queue after the first lists, until `stop`.
async fn run_worker<C: Controller, K: QueueKey>(
    controller: Arc<C>,
    queue: fn(&C) -> &PassQueue<K>,
    pass: RunPass<C, K>,
    heartbeat: Option<Heartbeat>,
    stop: CancellationToken,
) {
    let controller = &*controller;
    while !controller.is_synced() && !stop.is_cancelled() {
        if let Some(heartbeat) = &heartbeat {
            heartbeat.beat();
        }
        select(controller.env().sleep(UNSYNCED), std::pin::pin!(stop.cancelled())).await;
    }
    let run_pass = |key: K| {
        async move {
            let end = AssertUnwindSafe(pass(controller, &key)).catch_unwind().await.unwrap_or_else(|_| {
                controller.pass_panicked(&key);
                Requeue::After(AFTER_PANIC).into()
            });
            (key, end)
        }
        .boxed()
    };
    run_passes(queue(controller), &stop, heartbeat.as_ref(), run_pass).await;
}

#[cfg(test)]
mod tests;
